"""The cluster at earlier revisions: answers the same questions as the service.

Keeps the state of the last requested revision, under its own lock. So questions about the past never wait for the
server's lock, nor block it.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from runrig.domain import value
from runrig.domain.errors import InvalidInput
from runrig.domain.gpu_use import GpuMinute
from runrig.domain.observed import ClusterEvent
from runrig.domain.records import Loaded
from runrig.domain.steps import Steps, drained
from runrig.domain.value import utc
from runrig.domain.workflows import TaskKey
from runrig.engine.state.state import State
from runrig.ports.backend import Backend, Output
from runrig.ports.clock import Clock
from runrig.ports.past import Moment
from runrig.ports.store import Store
from runrig.service.mirror.turns import Turns
from runrig.service.past.series import Series, series
from runrig.service.past.standing import Stood, moved
from runrig.service.past.work import StoreThen
from runrig.service.queries.board import Boards
from runrig.service.queries.feed import Feed
from runrig.service.queries.history import SLACK_S, History
from runrig.service.queries.resource_queries import ResourceQueries
from runrig.service.queries.topology import Topology
from runrig.service.queries.workflow_queries import WorkflowQueries
from runrig.service.runtime.writing import Revision

MOST_AT_ONCE = 4
"""One runs, the others wait."""
IDLE_S = 300.0
"""Seconds without a question after which the state is released."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Span:
    """History is complete from *first* to *last*, the present."""

    first: Moment
    last: Moment


class Past:
    def __init__(self, store: Store, backend: Backend, clock: Clock, feed: Feed, history: History) -> None:
        self._store = store
        self._backend = backend
        self._clock = clock
        self._feed = feed
        self._history = history
        self._lock = threading.Lock()
        self._turns = Turns("requests for past states", at_once=MOST_AT_ONCE, of_all=MOST_AT_ONCE)
        self._stood: Stood | None = None
        self._boards: Boards | None = None
        self._looked = time.monotonic()

    def span(self) -> Span | None:
        """Returns None if there is no history yet."""
        first, last = self._store.past.first_checkpoint(), self._store.past.at_time(float("inf"))
        return None if first is None or last is None else Span(Moment(first.revision, first.time), last)

    def moment(self, at: int | float) -> Moment:
        """*at*: a revision, or with a decimal point a time in seconds. Raises InvalidInput if it has no history."""
        span = self.span()
        if span is None:
            raise InvalidInput.one("no history is stored yet. Omit `at`", "at")
        if isinstance(at, int):
            found, kept = self._store.past.at_revision(at), span.first.revision <= at <= span.last.revision
            shown, begin, end = f"revision {at}", str(span.first.revision), str(span.last.revision)
        else:
            found, kept = self._store.past.at_time(at), span.first.time <= at
            shown, begin, end = (utc(value.at(each)) for each in (at, span.first.time, span.last.time))
            kept = kept and at <= self._clock.now() + SLACK_S
        if found is None or not kept:
            raise InvalidInput.one(f"no history for {shown}. History covers {begin} to {end}", "at")
        return found

    def steps(self, moment: Moment, span: Span) -> tuple[int | None, int | None]:
        """Returns the revisions of the previous and next decision; None if there is none in the history."""
        shown = self._store.past.beside(moment.revision + 1)[0] or moment.revision
        before, _ = self._store.past.beside(shown)
        _, after = self._store.past.beside(moment.revision)
        return before if before is not None and before >= span.first.revision else None, after

    @contextmanager
    def at(self, moment: Moment) -> Iterator["Then"]:
        """Yields the cluster at *moment*, one caller at a time. Raises Unavailable if too many wait."""
        with self._turns.turn(), self._lock:
            stood, self._stood = self._stood, None  # Discarded if the move fails half-way.
            stood = moved(
                stood,
                self._store.past,
                moment.revision,
                fixed_nodes=self._backend.fixed_nodes,
                topology=self._backend.topology,
            )
            self._stood = stood
            boards, self._boards = self._boards, None
            then = Then(self._store, self._backend, self._feed, self._history, moment, stood.state, boards)
            yield then
            self._boards = then.boards
            self._looked = time.monotonic()

    def series(self, begin: float, end: float, points: int) -> Series:
        """Returns usage and demand from *begin* to *end*, in at most *points* points."""
        with self._turns.turn():
            return series(self._store.past, begin, end, points)

    def rest(self) -> None:
        """Releases the state if it has not been used for a while."""
        with self._lock:
            if time.monotonic() - self._looked > IDLE_S:
                self._stood = self._boards = None


class Then:
    """Answers of the service as of *moment*, for one thread and until `Past.at` exits. *boards*: of the previous question."""

    def __init__(
        self,
        store: Store,
        backend: Backend,
        feed: Feed,
        history: History,
        moment: Moment,
        state: State,
        boards: Boards | None,
    ) -> None:
        self.moment = moment
        self.backend_name = backend.name
        self.feed = feed
        self._state = state
        self._store = StoreThen(store, moment, state)
        self.stored = moment.revision
        self.when_stored: Callable[[Sequence[Revision]], None] = lambda _: None  # A view of the past stores nothing.
        self.boards = Boards(self, boards)
        self.queries = ResourceQueries(self, backend.name)
        self.topology = Topology(self)
        self.workflow_queries = WorkflowQueries(self, self._store, _BackendThen(backend), self, self, lambda *_: ())
        self.history = history

    # Queries use these as parts of a server: a state, an asker, a clock, and its troubles.

    standstill = None
    doubt = None

    @contextmanager
    def reading(self) -> Iterator[State]:
        yield self._state

    def ask_steps(
        self,
        ask: Callable[..., Steps[T]],
        *args: Any,
        here: Callable[..., Steps[T]] | None = None,
        fresh_starts: int = 0,  # noqa: ARG002  nothing is committed in between
    ) -> tuple[T, int]:
        return drained((here or ask)(self._state, *args)), self.moment.revision

    def now(self) -> float:
        return self.moment.time

    def bring(self, ids: Collection[str]) -> None:
        """Adds the rows of the workflows *ids* to the state, which otherwise has only gangs."""
        alone = [self._store.alone(id)[0] for id in ids]
        live = [state for state in alone if not next(iter(state.workflows.values())).status.finished]
        rows = Loaded(
            *(self.moment.revision, (), (), (), ()),
            workflows=tuple(each for state in live for each in state.workflows.values()),
            groups=tuple(each for state in live for each in state.groups.values()),
            tasks=tuple(task for state in live for _, task in sorted(state.tasks.items())),
            specs={hash: spec for state in live for hash, spec in state.specs.items()},
        )
        found = State.load(rows, fixed_nodes=self._state.fixed_nodes, topology=self._state.topology)
        found.ledger, found.nodes = self._state.ledger, self._state.nodes
        self._state = found

    def bring_to(self, node: str) -> None:
        """The same for all workflows on *node*."""
        gangs = self._state.ledger.on_node.get(node, ())
        self.bring(sorted({gang.partition("/")[0] for gang in gangs}))


class _BackendThen:
    """A backend reports only the present, so this has nothing to report."""

    def __init__(self, backend: Backend) -> None:
        self.name, self.queues = backend.name, backend.queues

    def says(self, workflow: str) -> tuple[str, ...]:  # noqa: ARG002
        return ()

    def events(self, workflow: str) -> tuple[ClusterEvent, ...]:  # noqa: ARG002
        return ()

    def output(self, key: TaskKey) -> Output | None:  # noqa: ARG002
        return None

    def gpu_use(self) -> str:
        return "only the present is measured"

    def gpu_minutes(self, node: str, gpus: Sequence[int], since: float, until: float) -> tuple[GpuMinute, ...]:  # noqa: ARG002
        return ()
