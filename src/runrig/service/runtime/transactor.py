"""The only way to write: the state in memory, the store behind it, the lock in front of both.

A decision is applied to the state, committed, and only then seen by anybody.  If the commit fails, the state is loaded again
from the store, so that memory never runs ahead of the disk (law W2).
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from runrig.domain.errors import RunrigError
from runrig.domain.observed import Observation
from runrig.domain.plan import Plan, law_of
from runrig.domain.records import Event, RowChange
from runrig.domain.workflows import Workflow, WorkflowStatus
from runrig.engine import cycle
from runrig.engine.state.state import State
from runrig.ports.clock import Clock
from runrig.ports.store import SpecText, Store
from runrig.service.runtime.metrics import Metrics

ENGINE = "engine"
"""The actor of everything that a cycle decides."""

APPLY = "apply by "
"""The actor of what `apply` declares: this, then the person."""

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
        self._lock = threading.RLock()
        self._listeners: list[tuple[str | None, Listener]] = []
        self._state: State | None = None

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

    def cycle(self, observed: Observation) -> Plan:
        """Runs one cycle of the engine and stores it in one commit, unless it changed nothing."""
        touched: Touched = {}
        with self._lock, self._restoring():
            state, now = self._loaded(), self._clock.now()
            began = time.perf_counter()
            plan = cycle.run(state, observed, now)
            self._metrics.cycle(time.perf_counter() - began)
            if plan.actions:
                touched = self.store_changes(state, plan, now, actor=ENGINE)
        if plan.actions:
            self._tell(touched)
        return plan

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
        except Exception:
            self._state = None
            raise
        state.revision = revision
        self._metrics.committed(state, plan, actor=actor, now=now, seconds=time.perf_counter() - began)
        return _touched(changes)

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
