"""Deletes finished workflows after some time, with their logs, specifications and events. The audit trail of pools and
access stays.

Runs in small steps, so that others can commit in between, and pauses longer than it works.
"""

import logging

from runrig.ports.backend import Backend
from runrig.ports.clock import Clock
from runrig.ports.store import Store
from runrig.service.runtime import logs
from runrig.service.runtime.background import Background
from runrig.service.runtime.metrics import Metrics

DAYS = 90.0
EVERY_S = 600.0
WORKFLOWS_AT_ONCE = 200
ROWS_AT_ONCE = 500
"""About 10 ms, so that a commit never waits 50 ms."""
UNUSED_CODE_S = 86_400.0
"""Code is kept for this time after it was sent, so that a workflow can use it."""
REST = 4.0
"""A pause lasts this many times as long as the previous step."""

_log = logging.getLogger(__name__)


class Retention:
    """*days* None: all workflows are kept. Code that no workflow uses is deleted in any case."""

    def __init__(self, store: Store, backend: Backend, clock: Clock, days: float | None, metrics: Metrics) -> None:
        assert days is None or days > 0, f"a retention of {days} days"
        self._store = store
        self._backend = backend
        self._clock = clock
        self._days = days
        self._metrics = metrics
        self._due: list[str] = []
        self.thread = Background("retention", self.step, lambda took_s, more: took_s * REST if more else EVERY_S)

    def step(self) -> bool:
        """Deletes a small expired piece; returns False if there is none. Raises what the store raises; the piece then stays due."""
        if self._clock.doubt is not None:  # A clock that was set forward must not delete data early.
            return False
        if self._store.code.prune(self._clock.now() - UNUSED_CODE_S):
            return True
        if self._days is None:
            return False
        if self._store.retention.prune_events(ROWS_AT_ONCE).rows:
            return True
        if not self._due:
            before = self._clock.now() - self._days * 86_400
            # Workflows must be in the sums of usage before they are deleted.
            unfolded = self._store.usage.unfolded_since()
            before = before if unfolded is None else min(before, unfolded)
            due = list(self._store.retention.expired(before, WORKFLOWS_AT_ONCE))
            # Files first: without the row of their workflow they would never be deleted.
            for id in due:
                self._backend.discard(id)
            self._due = due
        if not self._due:
            return False
        gone = self._store.retention.prune(self._due, ROWS_AT_ONCE).workflows
        del self._due[:gone]
        if gone:
            self._metrics.pruned.inc(gone)
            _log.info("%s", logs.line("pruned", workflows=gone))
        return True
