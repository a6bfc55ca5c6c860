"""A periodic check of DELETING pools: a safety net for what each cycle already does (rule S3).

A pool is ARCHIVED in the cycle in which its last workflow ends. The sweep asks the store: if memory still has a
workflow that has ended in the store, memory is wrong and is reloaded. It uses only stored data, so it also works after
a restart, whose first round begins with a sweep.
"""

import logging

from runrig.domain.pools import PoolState
from runrig.ports.clock import Clock
from runrig.ports.store import ALIVE, Store, WorkflowQuery
from runrig.service.runtime.transactor import Transactor

EVERY_S = 900.0

_log = logging.getLogger(__name__)


class DrainSweep:
    def __init__(self, transactor: Transactor, store: Store, clock: Clock, every_s: float) -> None:
        assert every_s > 0, f"a sweep every {every_s} s"
        self._transactor = transactor
        self._store = store
        self._clock = clock
        self._every_s = every_s
        self._due: float | None = None

    def due_in_s(self) -> float:
        """Returns seconds until the next sweep; 0 or less means now."""
        return 0.0 if self._due is None else self._due - self._clock.now()

    def sweep(self) -> None:
        """Runs a sweep if it is due. Raises what the store raises; the sweep then stays due."""
        if self.due_in_s() > 0:
            return
        with self._transactor.reading() as state:
            draining = sorted(pool.name for pool in state.pools.values() if pool.state is PoolState.DELETING)
            ended = [name for name in draining if state.alive[name] and not self._alive_in_store(name)]
            if ended:
                _log.error("event=memory_differs pools=%s", ",".join(ended))
                self._transactor.reload()
            elif draining:
                _log.info("event=drain_sweep pools=%s", ",".join(draining))
        self._due = self._clock.now() + self._every_s

    def _alive_in_store(self, pool: str) -> bool:
        page, _ = self._store.workflows(WorkflowQuery(pools=(pool,), statuses=ALIVE, limit=1))
        return bool(page)
