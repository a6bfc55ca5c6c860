"""The one door for writes: the state in memory, the store behind it, and the lock in front of both.

A decision is applied to the state, committed, and only then seen by anybody.  If the commit fails, the state is loaded again
from the store, so that memory never runs ahead of the disk (law W2).
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from runrig.domain.errors import RunrigError
from runrig.domain.observed import Observation
from runrig.domain.plan import Plan, law_of
from runrig.domain.records import Event
from runrig.engine import cycle
from runrig.engine.state import State
from runrig.ports import Clock, SpecText, Store

ENGINE = "engine"
"""The actor of what a cycle decides."""


class Writing:
    """A command at work: it reads *state*, decides at *now*, and commits at most once."""

    def __init__(self, door: "Door", state: State, now: float, actor: str) -> None:
        self._door = door
        self.state = state
        self.now = now
        self.actor = actor
        self.committed = False

    def commit(self, plan: Plan, spec: SpecText | None = None) -> None:
        """Applies and stores *plan*.  Raises Unavailable or ServerFault if it could not be stored: then nothing has changed."""
        assert not self.committed, "a command commits once"
        if plan.actions:
            if spec is not None:
                self.state.specs[spec.hash] = spec.spec
            self.state.apply_all(plan.actions, self.now)
            self._door.store_changes(self.state, plan, self.now, actor=self.actor, spec=spec)
            self.committed = True


class Door:
    """*fixed_nodes*, *topology*: as the backend says of itself."""

    def __init__(self, store: Store, clock: Clock, *, fixed_nodes: bool, topology: bool) -> None:
        self._store = store
        self._clock = clock
        self._fixed_nodes = fixed_nodes
        self._topology = topology
        self._lock = threading.RLock()
        self._listeners: list[Callable[[], None]] = []
        self._state: State | None = None

    # ------------------------------------------------------------ reading

    @contextmanager
    def reading(self) -> Iterator[State]:
        """The state, which stands still meanwhile.  Raises Unavailable if it had to be loaded and could not."""
        with self._lock:
            yield self._loaded()

    def _loaded(self) -> State:
        if self._state is None:
            loaded = self._store.load()
            self._state = State.load(loaded, fixed_nodes=self._fixed_nodes, topology=self._topology)
        return self._state

    def reload(self) -> None:
        """Forgets the memory: whoever reads next gets what is stored."""
        with self._lock:
            self._state = None

    @contextmanager
    def listening(self, listener: Callable[[], None]) -> Iterator[None]:
        """*listener* is called after each commit, in the thread that made it: it must return at once and never raise."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    # ------------------------------------------------------------ writing

    @contextmanager
    def writing(self, actor: str) -> Iterator[Writing]:
        """A command of *actor*; nobody else writes meanwhile."""
        with self._lock, self._restoring():
            writing = Writing(self, self._loaded(), self._clock.now(), actor)
            yield writing
        if writing.committed:
            self._tell()

    def cycle(self, observed: Observation) -> Plan:
        """One cycle of the engine, stored in one commit; none if it changed nothing."""
        with self._lock, self._restoring():
            state, now = self._loaded(), self._clock.now()
            plan = cycle.run(state, observed, now)
            if plan.actions:
                self.store_changes(state, plan, now, actor=ENGINE)
        if plan.actions:
            self._tell()
        return plan

    def store_changes(self, state: State, plan: Plan, now: float, *, actor: str, spec: SpecText | None = None) -> None:
        """Commits what was applied.  Whoever calls it holds the lock and lets its errors pass through `_restoring`."""
        revision = state.revision + 1
        events = [Event(revision, seq, now, actor, action, law_of(action)) for seq, action in enumerate(plan.actions)]
        try:
            self._store.commit(revision, events, state.take_changes(), spec)
        except Exception:
            self._state = None
            raise
        state.revision = revision

    @contextmanager
    def _restoring(self) -> Iterator[None]:
        """Whatever fails half-way, the state is the stored one again before anybody reads it."""
        try:
            yield
        except RunrigError:  # a refusal, before anything was applied; or of the store, which `store_changes` saw
            raise
        except Exception:
            self._state = None
            raise

    def _tell(self) -> None:
        for listener in tuple(self._listeners):
            listener()
