"""The cluster as it stood: the questions that are asked of a service, asked of an earlier revision.

One past is kept, of the revision that was asked for last, in a state of its own under a lock of its own: who looks back never waits for
the server's lock, and nobody waits for who looks back.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from runrig.domain import value
from runrig.domain.errors import InvalidInput
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
from runrig.service.mirror.leaving import Leaving
from runrig.service.mirror.turns import Turns
from runrig.service.past.series import Series, series
from runrig.service.past.standing import Stood, moved
from runrig.service.past.work import StoreThen
from runrig.service.queries.board import Boards
from runrig.service.queries.feed import Feed, FeedEvent
from runrig.service.queries.history import SLACK_S, ChangePage, History, HistoryQuery
from runrig.service.queries.resource_queries import ResourceQueries
from runrig.service.queries.topology import Topology
from runrig.service.queries.visibility import Visibility
from runrig.service.queries.workflow_queries import WorkflowQueries
from runrig.service.runtime.writing import Revision

MOST_AT_ONCE = 4
"""One looks, the others wait for their turn."""
IDLE_S = 300.0
"""After so long without a look the past is given up, and its memory."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Span:
    """From *first* on everything is kept; *last* is now."""

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
        self._turns = Turns(MOST_AT_ONCE, "requests for past states")
        self._stood: Stood | None = None
        self._boards: Boards | None = None
        self._looked = time.monotonic()

    def span(self) -> Span | None:
        """None: nothing is kept yet."""
        first, last = self._store.past.first_checkpoint(), self._store.past.at_time(float("inf"))
        return None if first is None or last is None else Span(Moment(first.revision, first.time), last)

    def moment(self, at: int | float) -> Moment:
        """*at*: a revision, or with a point a time in seconds.  Raises InvalidInput where nothing is kept of it."""
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
        """The revisions of the decisions before and after the one that *moment* shows; None: there is none that is kept."""
        shown = self._store.past.beside(moment.revision + 1)[0] or moment.revision
        before, _ = self._store.past.beside(shown)
        _, after = self._store.past.beside(moment.revision)
        return before if before is not None and before >= span.first.revision else None, after

    @contextmanager
    def at(self, moment: Moment) -> Iterator["Then"]:
        """Raises Unavailable if too many look back at once."""
        with self._turns.one(Leaving()), self._lock:
            stood, self._stood = self._stood, None  # what fails half-way is not used again
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
        """Who held and who waited between the times *begin* and *end*, in at most *points* points."""
        with self._turns.one(Leaving()):
            return series(self._store.past, begin, end, points)

    def rest(self) -> None:
        """Gives up what nobody has looked at for a while."""
        with self._lock:
            if time.monotonic() - self._looked > IDLE_S:
                self._stood = self._boards = None


class Then:
    """What a service answers, as of *moment*.  For one thread, while `Past.at` lasts.  *boards*: those of the look before."""

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
        self._past = store.past
        self._feed = feed
        self._state = state
        self._store = StoreThen(store, moment, state)
        self.stored = moment.revision
        self.when_stored: Callable[[Sequence[Revision]], None] = lambda _: None  # nothing is: it has been
        self.boards = Boards(self, boards)
        self.queries = ResourceQueries(self, backend.name)
        self.topology = Topology(self)
        self.workflow_queries = WorkflowQueries(self, self._store, _BackendThen(backend), self, self, lambda *_: ())
        self.history = _HistoryThen(history, moment.revision)

    # What questions are asked of: a state, an asker, a clock, somebody who knows of trouble.

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
        fresh_starts: int = 0,  # noqa: ARG002  nothing changes meanwhile
    ) -> tuple[T, int]:
        return drained((here or ask)(self._state, *args)), self.moment.revision

    def now(self) -> float:
        return self.moment.time

    def bring(self, ids: Collection[str]) -> None:
        """From now on the state has the work of the workflows *ids*, beside the gangs that it always has."""
        alone = [self._store.alone(id)[0] for id in ids]
        live = [state for state in alone if not next(iter(state.workflows.values())).status.finished]
        rows = Loaded(
            self.moment.revision,
            (),
            (),
            (),
            (),
            tuple(each for state in live for each in state.workflows.values()),
            tuple(each for state in live for each in state.groups.values()),
            tuple(task for state in live for _, task in sorted(state.tasks.items())),
            (),
            {hash: spec for state in live for hash, spec in state.specs.items()},
            {},
        )
        found = State.load(rows, fixed_nodes=self._state.fixed_nodes, topology=self._state.topology)
        found.ledger, found.nodes = self._state.ledger, self._state.nodes
        self._state = found

    def bring_to(self, node: str) -> None:
        """The same of all that holds something of *node*."""
        gangs = self._state.ledger.on_node.get(node, ())
        self.bring(sorted({gang.partition("/")[0] for gang in gangs}))

    def told(self, back: int, without: tuple[type, ...], visibility: Visibility) -> Sequence[FeedEvent]:
        """The events of the last *back* revisions that are seen, but for actions of the types *without*."""
        upto = self.moment.revision
        return self._feed.seen(self._past.told(after=max(0, upto - back), upto=upto, without=without), visibility)


class _BackendThen:
    """What a backend says it says of now."""

    def __init__(self, backend: Backend) -> None:
        self.name, self.queues = backend.name, backend.queues

    def says(self, workflow: str) -> tuple[str, ...]:  # noqa: ARG002
        return ()

    def events(self, workflow: str) -> tuple[ClusterEvent, ...]:  # noqa: ARG002
        return ()

    def output(self, key: TaskKey) -> Output | None:  # noqa: ARG002
        return None


class _HistoryThen:
    def __init__(self, history: History, upto: int) -> None:
        self._history = history
        self._upto = upto

    def changes(self, name: str, query: HistoryQuery, visibility: Visibility) -> ChangePage:
        return self._history.changes(name, replace(query, after=(self._upto + 1, 0)), visibility)
