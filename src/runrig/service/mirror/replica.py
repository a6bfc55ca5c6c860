"""A second state, in a process of its own, that follows the server's by reading what it committed."""

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from runrig.domain.plan import Decision, Submit
from runrig.domain.records import Event
from runrig.engine.foresight.would_start import make_ready
from runrig.engine.quota.quota_node import REAL
from runrig.engine.scheduling.admission import decide
from runrig.engine.state.state import State
from runrig.ports.store import Store

_END = object()
PAGE = 2000
"""Events that are read at a time."""

LONGEST_GAP_S = 60.0
"""After a longer pause all rows are read anew: soon that is faster than the log, and retention deletes some of that in the end."""


class Replica:
    """*open_store*: makes a store that reads the server's database.  *fixed_nodes*, *topology*: as of its backend.

    Not thread-safe.
    """

    def __init__(self, open_store: Callable[[], Store], *, fixed_nodes: bool, topology: bool) -> None:
        self._open_store = open_store
        self._fixed_nodes, self._topology = fixed_nodes, topology
        self._store: Store | None = None
        self._state: State | None = None
        self._read_at = 0.0
        self._looking: Iterator[Decision | None] | None = None
        self.settled = False
        """True if `settle` has nothing to do until something is committed."""

    @property
    def state(self) -> State:
        """As of its revision.  Only a branch may change it, and trials that take everything back."""
        assert self._state is not None, "it has caught up once"
        self._looking = None  # who was looked at is known; the rest begins again, as things are then
        return self._state

    def catch_up(self) -> None:
        """Takes in what the server has committed.  Raises what the store raises."""
        store = self._store = self._store or self._open_store()
        began = time.monotonic()
        before = None if self._state is None else self._state.revision
        if self._state is None or began - self._read_at > LONGEST_GAP_S or not _follow(self._state, store):
            self._load(store)
        self._read_at = began
        self.settled = self.settled and self.state.revision == before

    def settle(self, looks: int) -> None:
        """Looks at *looks* of those who wait, and starts nobody, so that whoever sleeps in the server sleeps here too."""
        looking = self._looking or decide(self.state.ledger)
        for _ in range(looks):
            if next(looking, _END) is not None:  # the end, or what the server is about to carry out
                self.settled = True
                assert self._state is not None, "its ledger was looked at"
                self._state.ledger.nodes.gpus(REAL)  # each branch of a plan counts them, from what is counted here
                return
        self._looking = looking

    def make_ready(self) -> None:
        """A process that is forked now finds what each search reads, and has no connection."""
        make_ready(self.state)
        if self._store is not None:
            self._store.close()
            self._store = None

    def _load(self, store: Store) -> None:
        self._state = None  # two at once would take twice the memory
        gc.unfreeze()
        gc.collect()
        gc.disable()
        try:
            self._state = State.load(store.load(), fixed_nodes=self._fixed_nodes, topology=self._topology)
        finally:
            gc.enable()
        gc.freeze()  # looking for garbage in it would copy the pages that it shares with branches


def _follow(state: State, store: Store) -> bool:
    """Applies what the log has beyond *state*; False if some of it is missing there."""
    while events := store.log.events(after=state.revision, limit=PAGE):
        state.specs.update(store.specs(_submitted(events) - state.specs.keys()))
        for number, revision in groupby(events, key=attrgetter("revision")):
            if number != state.revision + 1 or not _applied(state, list(revision), store):
                return False
            state.revision = number
        state.take_changes()
    return True


def _applied(state: State, revision: Sequence[Event], store: Store) -> bool:
    if [each.seq for each in revision] != [*range(len(revision))]:
        return False
    gone = _submitted(revision) - state.specs.keys()  # the last workflow of a specification ended, and another one came
    state.specs.update(store.specs(gone))
    if not _submitted(revision) <= state.specs.keys():
        return False
    state.apply_all([each.action for each in revision], revision[0].time)
    return True


def _submitted(events: Iterable[Event]) -> set[str]:
    """Hashes of the specifications that are submitted in *events*."""
    return {each.action.workflow.spec_hash for each in events if isinstance(each.action, Submit)}
