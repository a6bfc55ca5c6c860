"""A copy of the state in another process, which follows the server by reading its commits."""

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from runrig.domain.plan import Decision, Submit
from runrig.domain.records import Event
from runrig.engine.foresight.would_start import make_ready
from runrig.engine.ledger.searches import Searches
from runrig.engine.quota.quota_node import REAL
from runrig.engine.scheduling.admission import decide
from runrig.engine.state.state import State
from runrig.ports.store import Store
from runrig.service.runtime.loading import check_rows

_END = object()
PAGE = 2000
"""Events read per page."""

LONGEST_GAP_S = 60.0
"""Seconds after which all rows are read again: soon that is faster than the log, which retention also shortens."""


class Replica:
    """*open_store*: opens a store on the server's database. *fixed_nodes*, *topology*: of its backend.

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
        """Whether `settle` has nothing to do until the next commit."""

    @property
    def state(self) -> State:
        """Returns the state at its revision. Only a branch, or a what-if run that is undone, may change it."""
        assert self._state is not None, "it has caught up once"
        self._looking = None  # Results so far are kept; the rest starts again with the new state.
        return self._state

    def catch_up(self) -> None:
        """Applies what the server has committed. Raises what the store raises."""
        store = self._store = self._store or self._open_store()
        began = time.monotonic()
        before = None if self._state is None else self._state.revision
        if self._state is None or began - self._read_at > LONGEST_GAP_S or not _follow(self._state, store):
            self._load(store)
        self._read_at = began
        self.settled = self.settled and self.state.revision == before

    def settle(self, looks: int) -> None:
        """Evaluates *looks* pending gangs without starting any, so that the same buckets are asleep as in the server."""
        looking = self._looking or decide(self.state.ledger)
        for _ in range(looks):
            if next(looking, _END) is not None:  # The end of the log, or a decision that the server is about to make.
                self.settled = True
                assert self._state is not None, "its ledger was looked at"
                self._state.ledger.nodes.gpus(REAL)  # Cached here for the branches of a plan.
                self._state.ledger.searches = Searches()  # Only the server's are logged.
                return
        self._looking = looking

    def make_ready(self) -> None:
        """Prepares for a fork: fills caches that every search reads, and closes the connection."""
        make_ready(self.state)
        if self._store is not None:
            self._store.close()
            self._store = None

    def _load(self, store: Store) -> None:
        self._state = None  # Two at the same time would take twice the memory.
        gc.unfreeze()
        gc.collect()
        gc.disable()
        try:
            loaded = store.load()
            try:
                self._state = State.load(loaded, fixed_nodes=self._fixed_nodes, topology=self._topology)
            except Exception:
                check_rows(loaded)  # The rows are the cause if they contradict each other.
                raise
        finally:
            gc.enable()
        gc.freeze()  # Garbage collection would copy the pages that it shares with branches.


def _follow(state: State, store: Store) -> bool:
    """Applies the log after *state*; returns False if part of it is missing."""
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
    # A specification may have lost its last workflow and gained another.
    gone = _submitted(revision) - state.specs.keys()
    state.specs.update(store.specs(gone))
    if not _submitted(revision) <= state.specs.keys():
        return False
    state.apply_all([each.action for each in revision], revision[0].time)
    return True


def _submitted(events: Iterable[Event]) -> set[str]:
    """Returns the hashes of the specifications submitted in *events*."""
    return {each.action.workflow.spec_hash for each in events if isinstance(each.action, Submit)}
