"""The only way to write: the state in memory, the store behind it, the lock in front of both.

A decision is applied to the state, committed, and only then seen by anybody.  If the commit fails, the state is loaded again
from the store, so that memory never runs ahead of the disk (law W2).
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from runrig.domain.errors import RunrigError, Unavailable
from runrig.domain.observed import Observation
from runrig.domain.plan import Plan, law_of
from runrig.domain.records import Event, RowChange
from runrig.domain.workflows import Workflow, WorkflowStatus
from runrig.engine.cycle import Cycle
from runrig.engine.state.state import State
from runrig.ports.clock import Clock
from runrig.ports.store import SpecText, Store
from runrig.service.runtime.metrics import Metrics
from runrig.service.runtime.state_lock import StateLock

ENGINE = "engine"
"""The actor of everything that a cycle decides."""

APPLY = "apply by "
"""The actor of what `apply` declares: this, then the person."""

STEPS_PER_PART = 100
"""Gangs looked at and things changed in one part of a cycle (`engine.cycle.Cycle.part`): about 30 ms of deciding and storing."""

MOST_FRESH_STARTS = 50
"""How often the deciding of one cycle begins again because something else was committed; then the next cycle does."""

LONGEST_HOLD_S = 5.0
"""Whoever holds the lock for longer has got stuck."""

Listener = Callable[[WorkflowStatus | None], None]

Touched = Mapping[str, WorkflowStatus | None]
"""Workflows that a commit changed: id → status after it, None if that has not changed; a status also stands under the uuid."""

_OF_WORKFLOWS = ("Workflow", "Group", "Task")
"""Records whose key begins with the id of a workflow."""


class Writing:
    """A command at work: it reads *state*, decides at *now*, and commits at most once.

    *touched*: the workflows that its commit changed; None before it.
    """

    def __init__(self, transactor: "Transactor", state: State, now: float, actor: str) -> None:
        self._transactor = transactor
        self.state = state
        self.now = now
        self.actor = actor
        self.touched: Touched | None = None

    @property
    def committed(self) -> bool:
        return self.touched is not None

    def commit(self, plan: Plan, spec: SpecText | None = None) -> None:
        """Applies and stores *plan*.  Raises Unavailable or ServerFault if it could not be stored: then nothing has changed."""
        assert not self.committed, "a command commits once"
        if plan.actions:
            if spec is not None:
                self.state.specs[spec.hash] = spec.spec
            self.state.apply_all(plan.actions, self.now)
            self.touched = self._transactor.store_changes(self.state, plan, self.now, actor=self.actor, spec=spec)


class Transactor:
    """*fixed_nodes*, *topology*: the backend's own attributes."""

    def __init__(
        self, store: Store, clock: Clock, *, fixed_nodes: bool, topology: bool, metrics: Metrics | None = None
    ) -> None:
        self._metrics = metrics or Metrics()
        self._store = store
        self._clock = clock
        self._fixed_nodes = fixed_nodes
        self._topology = topology
        self._lock = StateLock(self._metrics)
        self._listeners: list[tuple[str | None, Listener]] = []
        self._state: State | None = None
        self._not_stored: str | None = None
        self.when_not_stored: Callable[[], None] = lambda: None
        """Called after each commit that failed."""

    @property
    def trouble(self) -> str | None:
        """Why nothing can be stored, or nobody gets at the state; None if all is well.  Does not wait for the lock."""
        held_s = self._lock.held_s
        if held_s > LONGEST_HOLD_S:
            return f"its state has been in use for {held_s:.0f} s without a break"
        return self._not_stored

    # ------------------------------------------------------------ reading

    @contextmanager
    def reading(self) -> Iterator[State]:
        """The state, which does not change meanwhile.  Raises Unavailable if it had to be loaded and could not be."""
        with self._lock:
            yield self._loaded()

    def _loaded(self) -> State:
        if self._state is None:
            loaded = self._store.load()
            self._state = State.load(loaded, fixed_nodes=self._fixed_nodes, topology=self._topology)
        return self._state

    def reload(self) -> None:
        """Forgets the state in memory, so that the next reader gets the stored one."""
        with self._lock:
            self._state = None

    def close(self) -> None:
        """Close after the store, so that woken listeners find it closed."""
        self.reload()
        self._tell(None)

    @contextmanager
    def listening(self, listener: Listener, workflow: str | None = None) -> Iterator[None]:
        """*listener* is called after each commit, in the thread that made it: it must return at once and never raise.

        *workflow*: an id or uuid; *listener* is then called only after commits that change this workflow, with its status if
        that changed, so that many may wait without asking; None: the listener is to ask itself.
        """
        entry = (workflow, listener)
        self._listeners.append(entry)
        try:
            yield
        finally:
            self._listeners.remove(entry)

    # ------------------------------------------------------------ writing

    @contextmanager
    def writing(self, actor: str) -> Iterator[Writing]:
        """Runs a command of *actor*; nobody else writes meanwhile."""
        with self._lock, self._restoring():
            writing = Writing(self, self._loaded(), self._clock.now(), actor)
            yield writing
        if writing.touched is not None:
            self._tell(writing.touched)

    def cycle(self, observed: Observation) -> Iterator[Plan]:
        """Runs one cycle of the engine, and yields what each part of it changed: it is stored, and the lock is free.

        Whatever else is committed between two parts is taken in at once: the deciding begins again at the head of the order.
        Raises Unavailable if the state was loaded again between two parts.
        """
        with self._lock, self._restoring():
            running = Cycle(self._loaded(), observed, self._clock.now())
            revision = running.state.revision
        fresh_starts = 0
        while not running.ended and fresh_starts <= MOST_FRESH_STARTS:
            self._lock.give_way()
            with self._lock, self._restoring():
                if self._state is not running.state:
                    raise Unavailable("what a cycle had decided so far was lost with the state: it is decided anew")
                if running.state.revision != revision:
                    running.begin_again(self._clock.now())
                    fresh_starts += running.saw_everything
                plan, touched = self._part(running)
                revision = running.state.revision
            if plan.actions:
                self._tell(touched)
            yield plan

    def _part(self, running: Cycle) -> tuple[Plan, Touched]:
        began = time.perf_counter()
        plan = running.part(STEPS_PER_PART)
        self._metrics.part(time.perf_counter() - began)
        if not plan.actions:
            return plan, {}
        return plan, self.store_changes(running.state, plan, running.now, actor=ENGINE)

    def store_changes(
        self, state: State, plan: Plan, now: float, *, actor: str, spec: SpecText | None = None
    ) -> Touched:
        """Commits what was applied; returns the workflows that changed.

        The caller holds the lock and lets its errors pass through `_restoring`.
        """
        revision = state.revision + 1
        events = [Event(revision, seq, now, actor, action, law_of(action)) for seq, action in enumerate(plan.actions)]
        changes = state.take_changes()
        began = time.perf_counter()
        try:
            self._store.commit(revision, events, changes, spec)
        except Exception as error:
            self._state = None
            self._not_stored = f"{type(error).__name__}: {error}"
            self.when_not_stored()
            raise
        self._not_stored = None
        state.revision = revision
        self._metrics.committed(state, plan, actor=actor, now=now, seconds=time.perf_counter() - began)
        return _touched(changes)

    def try_storing(self) -> None:
        """If the last commit failed: finds out whether the store takes commits again.  Raises what keeps it from that."""
        if self._not_stored is not None:
            with self._lock:
                self._store.try_writing()
                self._not_stored = None

    @contextmanager
    def _restoring(self) -> Iterator[None]:
        """If anything fails half-way, the stored state is loaded again before anybody reads it."""
        try:
            yield
        except RunrigError:  # refused before anything was applied, or by the store, which `store_changes` handled
            raise
        except Exception:
            self._state = None
            raise

    def _tell(self, touched: Touched | None) -> None:
        """*touched* None: everything may have changed."""
        for workflow, listener in tuple(self._listeners):
            if workflow is None or touched is None:
                listener(None)
            elif workflow in touched:
                listener(touched[workflow])


def _touched(changes: Iterable[RowChange]) -> Touched:
    touched: dict[str, WorkflowStatus | None] = {}
    for change in changes:
        if isinstance(change.record, Workflow):
            touched[change.record.id] = touched[change.record.uuid] = change.record.status
        elif change.kind in _OF_WORKFLOWS:
            touched.setdefault(str(change.key[0]), None)
    return touched
