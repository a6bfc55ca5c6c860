"""The only way to write: the state in memory, the store behind it, and the lock in front of both.

A decision is applied to the state and committed before it becomes visible. If the commit fails, the state is reloaded
from the store, so that memory never runs ahead of the disk (rule W2).
"""

import logging
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Protocol, TypeVar

from runrig.domain.errors import FailedAt, InvalidInput, RunrigError, ServerFault, Unavailable
from runrig.domain.observed import Observation
from runrig.domain.plan import Plan
from runrig.domain.records import Event
from runrig.domain.subjects import failed_at, workflow_of
from runrig.domain.workflow_status import WorkflowStatus
from runrig.engine.cycle import STEP, CycleInParts
from runrig.engine.lifecycle.setting_aside import abandon, set_aside
from runrig.engine.state.state import State
from runrig.ports.clock import Clock
from runrig.ports.store import Store
from runrig.service.runtime import logs
from runrig.service.runtime.about import About
from runrig.service.runtime.loading import check_rows, latest_events, uncollected
from runrig.service.runtime.metrics import Metrics
from runrig.service.runtime.state_lock import StateLock
from runrig.service.runtime.writing import Command, Job, Revision, Touched, Writing, step

ENGINE = "engine"
"""Actor of all decisions of a cycle."""

APPLY = "apply by "
"""Actor of what `apply` declares: this prefix, then the user."""

STEPS_PER_PART = 120 * STEP
"""ms of deciding and storing."""

MOST_FRESH_STARTS = 50
"""How often one cycle restarts its decisions because of other commits; then the next cycle takes over."""

LATEST = 5_000
"""Committed events kept in memory for readers that follow the log."""
LONGEST_HOLD_S = 5.0
"""Seconds after which a holder of the lock counts as stuck."""

MOST_ASIDE = 16
"""Maximum workflows set aside at a time (rule W8). If more fail, they are not the cause, and the round fails."""

ALONE = 1
"""Budget of a part with a single gang or task."""

_log = logging.getLogger(__name__)

Listener = Callable[[WorkflowStatus | None], None]

R = TypeVar("R")


class Readable(Protocol):
    """A source of states for queries."""

    def reading(self) -> AbstractContextManager[State]:
        """Yields a state that does not change inside ``with``."""


class Transactor:
    """*fixed_nodes*, *topology*: the backend's attributes."""

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
        self._latest: deque[Event] = deque(maxlen=LATEST)
        self._state: State | None = None
        self._not_stored: str | None = None
        self._about = About()
        self.stored = 0
        """The last revision known to be stored; readable without the lock."""
        self.when_stored: Callable[[Sequence[Revision]], None] = lambda _: None
        """Called after each commit, under the lock: must return immediately and never raise."""
        self.when_not_stored: Callable[[], None] = lambda: None
        """Called after each failed commit."""

    @property
    def trouble(self) -> str | None:
        """Returns why nothing can be stored or the lock is stuck; None if all is well. Does not wait for the lock."""
        held_s = self._lock.held_s
        if held_s > LONGEST_HOLD_S:
            return f"its state has been locked for {held_s:.0f} s"
        return self._not_stored

    # ------------------------------------------------------------ reading

    def events_after(self, revision: int) -> list[Event] | None:
        """Returns all events after *revision* in order, from memory; None if some are no longer in memory. Takes no lock."""
        latest = list(self._latest)
        if not latest or (latest[0].revision, latest[0].seq) > (revision + 1, 0):
            return None
        return latest[bisect_right(latest, revision, key=lambda each: each.revision) :]

    @contextmanager
    def reading(self) -> Iterator[State]:
        """Yields the state, which does not change inside ``with``. Raises Unavailable if it had to be loaded and could not."""
        with self._lock:
            yield self._loaded()

    def _loaded(self) -> State:
        if self._state is None:
            self._about.lost()
            with uncollected():
                loaded = self._store.load()
                check_rows(loaded)
                self._latest = deque(latest_events(self._store, loaded.revision), maxlen=LATEST)
                self._state = State.load(loaded, fixed_nodes=self._fixed_nodes, topology=self._topology)
                self.stored = loaded.revision
        return self._state

    def copies(self) -> tuple[Callable[[], State], int]:
        """Returns (a function that creates copies of the state, their revision). Reads the store once, without the lock."""
        loaded = self._store.load()
        check_rows(loaded)

        def copy() -> State:
            with uncollected():
                return State.load(loaded, fixed_nodes=self._fixed_nodes, topology=self._topology)

        return copy, loaded.revision

    def reload(self) -> None:
        """Discards the state in memory, so that the next reader loads the stored one."""
        with self._lock:
            self._state = None

    def close(self) -> None:
        """Close after the store, so that woken listeners find it closed."""
        self.reload()
        self._tell(None)

    @contextmanager
    def listening(self, listener: Listener, workflow: str | None = None) -> Iterator[None]:
        """Calls *listener* after each commit, in the committing thread: it must return immediately and never raise.

        *workflow*: an id or uuid; only commits that change this workflow count. The listener gets its status if its own
        row changed, so that many can wait without a query; None: it has to query.
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
        """Runs a command of *actor* as the only writer. Its commit is stored after the ``with``."""
        with self._lock, self._restoring():
            writing = Writing(self._loaded(), self._clock.now(), actor)
            try:
                yield writing
            except RunrigError:
                self._state = None if writing.committed else self._state
                raise
            self._about.failed(writing.rejected, actor, writing.state.revision)
            self._store_all([] if writing.revision is None else [writing.revision])
        if writing.revision is not None:
            self._tell(writing.revision.touched())

    def carry_out_all(self, commands: Sequence[Command[R]]) -> list[R | Exception]:
        """Runs *commands*; returns what each returned or raised. The caller must not hold the lock.

        Their jobs are decided one after the other and stored in one transaction. A job may be decided again if that
        transaction fails because of another job.
        """
        begun = [step(partial(next, each)) for each in commands]
        jobs = [each for each in begun if isinstance(each, Job)]
        if jobs:
            with self._lock:
                self._do(jobs)
        for job in jobs:
            if job.revision is not None:
                self._tell(job.revision.touched())
        return [job.ended(each) if isinstance(job, Job) else job for each, job in zip(commands, begun, strict=True)]

    def cycle(self, observed: Observation) -> Iterator[Plan]:
        """Runs one cycle of the engine. Yields the changes of each part once they are stored and the lock is free.

        After other commits between two parts, deciding restarts at the head of the order. A workflow that makes a part
        fail is set aside (rule W8). A part that cannot be stored is decided again in the smallest parts.
        """
        with self._lock, self._restoring():
            running = CycleInParts(self._loaded(), observed, self._clock.now())
            revision = running.state.revision
        fresh_starts = 0
        budget = STEPS_PER_PART
        while not running.ended and fresh_starts <= MOST_FRESH_STARTS:
            self._lock.give_way()
            with self._lock:
                try:
                    with self._restoring():
                        state = self._loaded()
                        if state is not running.state or state.revision != revision:
                            running.begin_again(state, self._clock.now())
                            fresh_starts += running.saw_everything
                        part = self._part(running, budget)
                except FailedAt as failed:
                    part = self._set_aside(failed)
                    running = CycleInParts(self._loaded(), observed, self._clock.now())
                except _NotStored:
                    if budget == ALONE:
                        raise
                    budget, part, running = ALONE, None, CycleInParts(self._loaded(), observed, self._clock.now())
                revision = running.state.revision
                if running.ended:
                    self._about.rested(running.now, running.state.ledger)
            if part is not None:
                self._tell(part.touched())
            yield Plan() if part is None else part.plan

    def _part(self, running: CycleInParts, budget: int) -> Revision | None:
        began = time.perf_counter()
        plan = running.part(budget)
        self._metrics.cycle.observe(time.perf_counter() - began)
        if not plan.actions:
            return None
        part = Revision.of(running.state, plan, running.now, ENGINE)
        self._about.decided(running.state.ledger)
        try:
            self._store_all([part])
        except (Unavailable, ServerFault):
            raise
        except Exception as error:
            if budget == ALONE:
                raise (failed_at(plan.actions[0]) or _NotStored()) from error
            raise _NotStored from error
        return part

    def set_aside(self, failed: FailedAt) -> None:
        """Sets aside the workflow in *failed* (rule W8). Raises *failed* if that would not help."""
        with self._lock:
            revision = self._set_aside(failed)
        self._tell(revision.touched())

    def _set_aside(self, failed: FailedAt) -> Revision:
        """Runs under the lock. A workflow that is stopping is ended; if that fails too, it is only set aside."""
        state = self._loaded()
        workflow = state.workflows.get(failed.workflow)
        if workflow is None or workflow.set_aside or len(state.aside) >= MOST_ASIDE:
            raise failed
        error = type(failed.__cause__).__name__
        plan = set_aside(state, workflow.id, error)
        try:
            revision = self._commit_of_engine(plan, ends=workflow.cancelled_by is not None)
        except Exception as also:
            if workflow.cancelled_by is None or isinstance(also, RunrigError):
                raise
            revision = self._commit_of_engine(set_aside(self._loaded(), workflow.id, error), ends=False)
        _log.error("event=set_aside workflow=%s error=%r", workflow.id, str(failed), exc_info=failed)
        return revision

    def _commit_of_engine(self, plan: Plan, *, ends: bool) -> Revision:
        """Applies and stores *plan*, which sets a workflow aside. *ends*: the workflow is abandoned."""
        with self._restoring():
            state, now = self._loaded(), self._clock.now()
            state.apply_all(plan.actions, now)
            workflow = state.workflows[str(workflow_of(plan.actions[-1]))]
            if ends:
                more = abandon(
                    state, workflow.id, user=workflow.cancelled_by or ENGINE, message=workflow.failure_message
                )
                state.apply_all(more.actions, now)
                plan = Plan((*plan.actions, *more.actions))
            revision = Revision.of(state, plan, now, ENGINE)
            self._store_all([revision])
        return revision

    def try_storing(self) -> None:
        """If the last commit failed, checks whether the store accepts commits again. Raises its error if not."""
        if self._not_stored is not None:
            with self._lock:
                self._store.try_writing()
                self._not_stored = None

    # ------------------------------------------------------------ under the lock

    def _do(self, jobs: Sequence[Job]) -> None:
        """Gives each of *jobs* its outcome, independently of the others."""
        while jobs:
            decided, in_order = self._decide(jobs)
            self._store_jobs(jobs[:decided])
            if not in_order:
                self._state = None
            jobs = jobs[decided:]

    def _decide(self, jobs: Sequence[Job]) -> tuple[int, bool]:
        """Returns (number of decided jobs, whether the state is consistent). After a command left it inconsistent, the
        rest must wait.
        """
        try:
            state = self._loaded()
        except Exception as error:  # noqa: BLE001 - passed on to the callers
            for job in jobs:
                job.fail(error)
            return len(jobs), True
        for count, job in enumerate(jobs, start=1):
            logs.enter(job.request)
            writing = Writing(state, self._clock.now(), job.actor)
            try:
                job.outcome = job.decide(writing)
                job.revision = writing.revision
            except Exception as error:  # noqa: BLE001 - passed on to the caller
                job.fail(error)
                self._about.failed([error], job.actor, state.revision)
                if writing.committed or not isinstance(error, RunrigError):
                    return count, False
        return len(jobs), True

    def _store_jobs(self, jobs: Sequence[Job]) -> None:
        try:
            self._store_all([job.revision for job in jobs if job.revision is not None])
        except InvalidInput as error:
            if len(jobs) == 1:
                jobs[0].fail(error)
                return
            for job in jobs:  # Storing each alone shows which one fails.
                self._do([job])
        except Exception as error:  # noqa: BLE001 - passed on to the callers
            for job in jobs:
                if job.revision is not None:
                    job.fail(error)

    def _store_all(self, revisions: Sequence[Revision]) -> None:
        """Stores *revisions*, which were applied, in one transaction. Raises Unavailable or ServerFault without any change."""
        if not revisions:
            return
        began = time.perf_counter()
        events = [event for each in revisions for event in each.events()]
        try:
            self._store.commit(
                revisions[-1].number,
                events,
                [change for each in revisions for change in each.changes],
                [spec for each in revisions for spec in each.specs],
                self._about.of(revisions),
            )
        except InvalidInput:  # Only this commit fails; the store accepts others.
            self._state = None
            raise
        except Exception as error:
            self._state = None
            self._not_stored = f"{type(error).__name__}: {error}"
            self.when_not_stored()
            raise
        self._not_stored = None
        self._about.stored(revisions)
        self._latest.extend(events)
        self.stored = revisions[-1].number
        try:
            self.when_stored(revisions)
        except Exception:  # noqa: BLE001 - the commit is stored, whatever a listener does
            _log.exception("event=listener_failed workflow=None")
        self._metrics.stored(self._loaded(), revisions, time.perf_counter() - began)

    @contextmanager
    def _restoring(self) -> Iterator[None]:
        """Reloads the stored state before the next read if anything fails half-way."""
        try:
            yield
        except RunrigError:  # Refused before anything was applied, or by the store, which `_store_all` handled.
            raise
        except Exception:
            self._state = None
            raise

    def _tell(self, touched: Touched | None) -> None:
        """*touched* None: everything may have changed. An exception in one listener does not affect the others."""
        for workflow, listener in tuple(self._listeners):
            try:
                if workflow is None or touched is None:
                    listener(None)
                elif workflow in touched:
                    listener(touched[workflow])
            except Exception:  # noqa: BLE001 - the others are called too
                _log.exception("event=listener_failed workflow=%s", workflow)


class _NotStored(Exception):
    """A decided part cannot be stored, though the store accepts others."""
