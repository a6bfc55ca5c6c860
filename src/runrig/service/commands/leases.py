"""Cancels workflows of `run --attached` whose command is gone: killed, or on a machine that is off or unreachable.

A lease counts ticks of this server instead of time. While the server is suspended or stopped, no command can renew its
lease, and none runs out. A server that starts gives all leases their full time.
"""

import logging
import threading

from runrig.domain.attached import LOST_S, TAG
from runrig.domain.errors import Conflict, NotFound
from runrig.ports.store import ALIVE, Store, WorkflowQuery
from runrig.service.commands.submissions import Submissions
from runrig.service.runtime import logs
from runrig.service.runtime.background import Background
from runrig.service.runtime.transactor import Transactor

TICK_S = 5.0
TICKS = round(LOST_S / TICK_S) + 1
"""A renewal may come just before a tick."""
_MOST = 10_000
_MESSAGE = f"the command that it was attached to has not responded for {LOST_S} s"

_log = logging.getLogger(__name__)


class Leases:
    def __init__(self, transactor: Transactor, store: Store, submissions: Submissions) -> None:
        self._transactor = transactor
        self._store = store
        self._submissions = submissions
        self._left: dict[str, int] | None = None
        """Workflow → ticks left; None: before they are loaded."""
        self._lock = threading.Lock()
        self.thread = Background("leases", self.tick, lambda *_: TICK_S, delay_s=TICK_S)

    def renew(self, id: str) -> None:
        """Begins or renews the lease of a workflow. Raises NotFound; Conflict if it has ended or has too many tags."""
        workflow = self._store.head(id)
        if workflow.status.finished:
            raise Conflict(f"{workflow.id} is already {workflow.status.value}")
        with self._lock:
            left = self._leases()
            if workflow.id not in left:
                self._submissions.tag(workflow.id, add=(TAG,), remove=())
            left[workflow.id] = TICKS

    def tick(self) -> None:
        """Cancels the workflows whose lease has run out. One that cannot be cancelled is due again at the next tick."""
        with self._lock:
            left = self._leases()
            for id in left:
                left[id] -= 1
            over = sorted(id for id, ticks in left.items() if ticks <= 0)
        for id in over:
            try:
                self._cancel(id)
            except Exception as error:  # noqa: BLE001 - the others must end
                logs.failure(_log, "lease_not_ended", error, workflow=id)
                continue
            with self._lock:
                left.pop(id, None)

    def _cancel(self, id: str) -> None:
        try:
            user = self._store.head(id).submitted_by
            (outcome,) = self._transactor.carry_out_all([self._submissions.cancelling(id, user=user, message=_MESSAGE)])
            if isinstance(outcome, Exception):
                raise outcome
        except (Conflict, NotFound):  # It ended before it could be cancelled.
            return
        _log.info("%s", logs.line("lease_ended", workflow=id))

    def _leases(self) -> dict[str, int]:
        if self._left is None:
            page, _ = self._store.workflows(WorkflowQuery(tags=(TAG,), statuses=ALIVE, limit=_MOST))
            self._left = {workflow.id: TICKS for workflow in page}
        return self._left
