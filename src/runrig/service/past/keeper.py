"""Writes checkpoints, so that no state of the past is far from one, and snapshots, from which `runrig verify` can begin.

Uses its own thread and connections. It reads the tables, which blocks no other work, and writes one small row.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from runrig.domain.gangs import HOLDING
from runrig.domain.quantities import gpus_in
from runrig.domain.records import GangRow
from runrig.engine.ledger.queue import Entry
from runrig.ports.past import Checkpoint, Growth, PastStore, Present
from runrig.ports.store import SnapshotStore
from runrig.service.runtime.background import Background
from runrig.service.runtime.transactor import Listener

DECISIONS = 400
"""Number of decisions after which a checkpoint is due."""
AGE_S = 3600.0
"""Or after this many seconds, if anything was decided."""
PART = 50
"""A checkpoint is written only once the log has grown by this many times its size: 2 % overhead."""
PAUSE_S = 2.0
"""Seconds between two reads of the log."""
REST = 100.0
"""Pauses this many times as long as a look took, up to AGE_S, because others need the interpreter."""
RETENTION_S = 60.0
"""Seconds between checks whether retention deleted all checkpoints, while the log does not grow."""


@dataclass(eq=False, repr=False)
class Keeper:
    """*listening*: reports commits. *rest*: called at intervals."""

    _store: PastStore
    _listening: Callable[[Listener], AbstractContextManager[None]]
    _rest: Callable[[], None]
    _snapshots: SnapshotStore
    _grown: Growth | None = None
    """Since the last checkpoint."""
    _least: int = 0
    """Bytes of log growth before the next attempt."""

    def __post_init__(self) -> None:
        self.thread = Background(
            "checkpoints",
            self._step,
            lambda took_s, _: max(PAUSE_S, min(AGE_S, REST * took_s)),
            idle_s=RETENTION_S,
            listening=self._listening,
        )

    def step(self) -> bool:
        """Writes a checkpoint if one is due; returns False if not. Raises what the store raises."""
        last = self._store.last_checkpoint()
        grown = self._look(last)
        if grown is None or (last is not None and not self._is_due(grown, last)):
            return False
        present = self._store.now()
        assert present is not None, "the log has grown"
        more = self._store.growth(grown.revision, present.revision)
        grown = grown if more is None else grown.and_then(more)
        most = None if last is None else grown.size // PART
        size = self._store.write(checkpoint_of(present, len(grown.preempted)), present, most)
        written = most is None or size <= most
        self._grown, self._least = (None, 0) if written else (grown, PART * size)
        return written

    def _look(self, last: Checkpoint | None) -> Growth | None:
        """Returns the growth since *last*, without counting anything twice."""
        begin = -1 if last is None else last.revision
        grown = self._grown if self._grown is not None and self._grown.after == begin else None
        new = self._store.growth(begin if grown is None else grown.revision)
        self._grown = grown.and_then(new) if grown is not None and new is not None else grown or new
        return self._grown

    def _is_due(self, grown: Growth, last: Checkpoint) -> bool:
        many, old = grown.decisions >= DECISIONS, grown.decisions > 0 and grown.time - last.time >= AGE_S
        return (many or old) and grown.size >= self._least

    def _step(self) -> None:
        self.step()
        if self._grown is not None and self._snapshots.is_due(self._grown.revision):
            self._snapshots.take()
        self._rest()


def checkpoint_of(present: Present, preempted: int) -> Checkpoint:
    """*preempted*: gangs since the previous checkpoint."""
    firm, low = held(present.gangs)
    waiting = sum(gangs * each.count * gpus_in(each.requests) for sets, gangs in present.asked for each in sets)
    return Checkpoint(present.revision, present.time, firm, low, waiting, preempted)


def held(gangs: Iterable[GangRow | Entry]) -> tuple[int, int]:
    """Returns GPUs in use by work that cannot borrow, and by work that can."""
    firm = low = 0
    for row in gangs:
        if row.state in HOLDING:
            gpus = row.gang.gpus([each.count for each in row.placement])
            firm, low = (firm, low + gpus) if row.gang.priority.may_borrow else (firm + gpus, low)
    return firm, low
