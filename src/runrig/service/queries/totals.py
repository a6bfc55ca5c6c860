"""Sums over all workflows that match a query."""

from dataclasses import replace

from runrig.domain.workflow_status import WorkflowStatus
from runrig.ports.store import ALIVE, Store, WorkflowQuery, WorkflowTotals
from runrig.service.queries.lookup import within
from runrig.service.queries.sources import Tells
from runrig.service.queries.visibility import Visibility
from runrig.service.queries.workflow_queries import WorkflowQueries

MOST_ALIVE = 500
"""Running and pending workflows whose GPUs are counted."""


class Totals:
    def __init__(self, store: Store, clock: Tells, workflows: WorkflowQueries) -> None:
        self._store = store
        self._clock = clock
        self._workflows = workflows

    def of(self, query: WorkflowQuery, most: int, visibility: Visibility) -> WorkflowTotals:
        """Sums over the visible matches, as in `Store.totals`."""
        return self._store.totals(within(query, visibility), self._clock.now(), most)

    def gpus(self, query: WorkflowQuery, visibility: Visibility) -> tuple[int, int] | None:
        """Returns the GPUs that running and that pending matches have or want; None if there are too many of them."""
        statuses = tuple(each for each in ALIVE if not query.statuses or each in query.statuses)
        if not statuses:
            return 0, 0
        page = replace(query, statuses=statuses, limit=MOST_ALIVE, offset=0, order="", behind=None)
        found, more = self._workflows.workflows(page, visibility)
        running = sum(each.gpus or 0 for each in found if each.status is WorkflowStatus.RUNNING)
        return None if more else (running, sum(each.gpus or 0 for each in found) - running)
