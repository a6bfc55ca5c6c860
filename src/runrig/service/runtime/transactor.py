"""The only way to write: the state in memory, the store behind it, the lock in front of both.

A decision is applied to the state, committed, and only then seen by anybody.  If the commit fails, the state is loaded again
from the store, so that memory never runs ahead of the disk (law W2).
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
from runrig.domain.subjects import workflow_of
from runrig.domain.workflow_status import WorkflowStatus
from runrig.engine.cycle import STEP, CycleInParts
from runrig.engine.lifecycle.setting_aside import abandon, set_aside
from runrig.engine.state.state import State
from runrig.ports.clock import Clock
from runrig.ports.store import Store
from runrig.service.runtime import logs
from runrig.service.runtime.loading import check_rows, uncollected
from runrig.service.runtime.metrics import Metrics
from runrig.service.runtime.state_lock import StateLock
from runrig.service.runtime.writing import Command, Job, Revision, Touched, Writing, step

ENGINE = "engine"
"""The actor of everything that a cycle decides."""

APPLY = "apply by "
"""The actor of what `apply` declares: this, then the person."""

STEPS_PER_PART = 120 * STEP
"""Budget of one part of a cycle (`engine.cycle.CycleInParts.part`): 120 gangs looked at, 120 changes, or 960 tasks that move; about
40 ms of deciding and storing.
"""

MOST_FRESH_STARTS = 50
"""How often the deciding of one cycle begins again because something else was committed; then the next cycle does."""

LATEST = 5_000
"""Events that are kept in memory as they were committed, for those who follow the log."""
LONGEST_HOLD_S = 5.0
"""A holder of the lock that takes longer is stuck."""

MOST_ASIDE = 16
"""So many workflows at most are set aside at a time (law W8).  Where more fail, it is not they who are at fault, and the round fails."""

ALONE = 1
"""Budget of a part in which a gang, or a task, is alone."""

_log = logging.getLogger(__name__)

Listener = Callable[[WorkflowStatus | None], None]

MOST_JOBS = 32
"""Commands decided and stored together, so that the lock is free again soon."""

R = TypeVar("R")


class Readable(Protocol):
    """What questions are asked of."""

    def reading(self) -> AbstractContextManager[State]:
        """A state, which does not change meanwhile."""


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
        self._latest: deque[Event] = deque(maxlen=LATEST)
        self._state: State | None = None
        self._not_stored: str | None = None
        self.stored = 0
        """The last revision that this server knows to be stored; readable without the lock."""
        self.when_stored: Callable[[Sequence[Revision]], None] = lambda _: None
        """Called after each commit, under the lock: it must return at once and never raise."""
        self.when_not_stored: Callable[[], None] = lambda: None
        """Called after each commit that failed."""

    @property
    def trouble(self) -> str | None:
        """Why nothing can be stored, or nobody gets at the state; None if all is well.  Does not wait for the lock."""
        held_s = self._lock.held_s
        if held_s > LONGEST_HOLD_S:
            return f"its state has been locked for {held_s:.0f} s"
        return self._not_stored

    # ------------------------------------------------------------ reading

    def events_after(self, revision: int) -> list[Event] | None:
        """Everything that was logged after *revision*, in order, without the store; None if not all of it is in memory.  Takes no lock."""
        latest = list(self._latest)
        if not latest or (latest[0].revision, latest[0].seq) > (revision + 1, 0):
            return None
        return latest[bisect_right(latest, revision, key=lambda each: each.revision) :]

    @contextmanager
    def reading(self) -> Iterator[State]:
        """The state, which does not change meanwhile.  Raises Unavailable if it had to be loaded and could not be."""
        with self._lock:
            yield self._loaded()

    def _loaded(self) -> State:
        if self._state is None:
            with uncollected():
                loaded = self._store.load()
                check_rows(loaded)
                self._state = State.load(loaded, fixed_nodes=self._fixed_nodes, topology=self._topology)
                self.stored = loaded.revision
        return self._state

    def copies(self) -> tuple[Callable[[], State], int]:
        """(makes states of one's own, the revision that all of them have): read once, from the store, without the lock."""
        loaded = self._store.load()
        check_rows(loaded)

        def copy() -> State:
            with uncollected():
                return State.load(loaded, fixed_nodes=self._fixed_nodes, topology=self._topology)

        return copy, loaded.revision

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
        its own row changed, so that many may wait without asking; None: the listener is to ask itself.
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
        """Runs a command of *actor*; nobody else writes meanwhile.  What it committed is stored behind the ``with``."""
        with self._lock, self._restoring():
            writing = Writing(self._loaded(), self._clock.now(), actor)
            try:
                yield writing
            except RunrigError:
                self._state = None if writing.committed else self._state
                raise
            self._store_all([] if writing.revision is None else [writing.revision])
        if writing.revision is not None:
            self._tell(writing.revision.touched())

    def carry_out_all(self, commands: Sequence[Command[R]]) -> list[R | Exception]:
        """Runs *commands*; returns what each of them returned or raised.  The caller must not hold the lock.

        Their jobs are decided one after the other and stored in one transaction.  A job may be decided
        again if that transaction is refused for what another one wrote.
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
        """Runs one cycle of the engine, and yields what each part of it changed: it is stored, and the lock is free.

        Whatever else is committed between two parts is taken in at once: the deciding begins again at the head of the order.
        A workflow at which a part fails is set aside (law W8).  A part that cannot be stored is decided anew in the smallest ones.
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
            if part is not None:
                self._tell(part.touched())
            yield Plan() if part is None else part.plan

    def _part(self, running: CycleInParts, budget: int) -> Revision | None:
        began = time.perf_counter()
        plan = running.part(budget)
        self._metrics.part(time.perf_counter() - began)
        if not plan.actions:
            return None
        part = Revision.of(running.state, plan, running.now, ENGINE)
        try:
            self._store_all([part])
        except (Unavailable, ServerFault):
            raise
        except Exception as error:
            workflow = workflow_of(plan.actions[0])
            if budget == ALONE:
                raise (_NotStored() if workflow is None else FailedAt(workflow)) from error
            raise _NotStored from error
        return part

    def set_aside(self, failed: FailedAt) -> None:
        """Puts the workflow that *failed* names aside (law W8).  Raises *failed* itself if that would not help."""
        with self._lock:
            revision = self._set_aside(failed)
        self._tell(revision.touched())

    def _set_aside(self, failed: FailedAt) -> Revision:
        """Under the lock.  One that was told to stop ends; if that fails too, it is only set aside."""
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
        """Applies *plan*, which sets a workflow aside, and stores it.  *ends*: the workflow is abandoned then."""
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
        """If the last commit failed: finds out whether the store takes commits again.  Raises what keeps it from that."""
        if self._not_stored is not None:
            with self._lock:
                self._store.try_writing()
                self._not_stored = None

    # ------------------------------------------------------------ under the lock

    def _do(self, jobs: Sequence[Job]) -> None:
        """Gives each of *jobs* its outcome, whatever becomes of the others."""
        while jobs:
            decided, in_order = self._decide(jobs)
            self._store_jobs(jobs[:decided])
            if not in_order:
                self._state = None
            jobs = jobs[decided:]

    def _decide(self, jobs: Sequence[Job]) -> tuple[int, bool]:
        """(how many are decided, whether the state is in order): after a command that left it in disorder, the rest has to wait."""
        try:
            state = self._loaded()
        except Exception as error:  # noqa: BLE001 - those who wait get it
            for job in jobs:
                job.fail(error)
            return len(jobs), True
        for count, job in enumerate(jobs, start=1):
            logs.enter(job.request)
            writing = Writing(state, self._clock.now(), job.actor)
            try:
                job.outcome = job.decide(writing)
                job.revision = writing.revision
            except Exception as error:  # noqa: BLE001 - the one who waits gets it
                job.fail(error)
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
            for job in jobs:  # which one cannot be stored shows when each is alone
                self._do([job])
        except Exception as error:  # noqa: BLE001 - those who wait get it
            for job in jobs:
                if job.revision is not None:
                    job.fail(error)

    def _store_all(self, revisions: Sequence[Revision]) -> None:
        """Stores *revisions*, which are applied, in one transaction.  Raises Unavailable or ServerFault; then nothing has changed."""
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
            )
        except InvalidInput:  # the store takes other commits
            self._state = None
            raise
        except Exception as error:
            self._state = None
            self._not_stored = f"{type(error).__name__}: {error}"
            self.when_not_stored()
            raise
        self._not_stored = None
        self._latest.extend(events)
        self.stored = revisions[-1].number
        try:
            self.when_stored(revisions)
        except Exception:  # noqa: BLE001 - what is stored is stored, whoever cannot hear it
            _log.exception("event=listener_failed workflow=None")
        self._metrics.stored(self._loaded(), revisions, time.perf_counter() - began)

    @contextmanager
    def _restoring(self) -> Iterator[None]:
        """If anything fails half-way, the stored state is loaded again before anybody reads it."""
        try:
            yield
        except RunrigError:  # refused before anything was applied, or by the store, which `_store_all` handled
            raise
        except Exception:
            self._state = None
            raise

    def _tell(self, touched: Touched | None) -> None:
        """*touched* None: everything may have changed.  A listener that raises keeps nobody else from being told."""
        for workflow, listener in tuple(self._listeners):
            try:
                if workflow is None or touched is None:
                    listener(None)
                elif workflow in touched:
                    listener(touched[workflow])
            except Exception:  # noqa: BLE001 - the others are told
                _log.exception("event=listener_failed workflow=%s", workflow)


class _NotStored(Exception):
    """A part that was decided cannot be stored, though the store takes others."""
