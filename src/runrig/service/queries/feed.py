"""The log of the whole cluster, a page at a time, limited to what a user may see.

Many readers ask for what is new at the same moment: the latest events are kept, most of them as they were committed, so that the store is
asked rarely, and once for all.
"""

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile

from runrig.domain.errors import NotFound
from runrig.domain.plan import MoveGroup, MoveTask, MoveWorkflow, Reassign, Submit
from runrig.domain.pools import SUBPOOL_DELIMITER
from runrig.domain.records import Event
from runrig.domain.shown.events import ClusterEvent
from runrig.domain.subjects import pool_of, workflow_of
from runrig.domain.value import at
from runrig.ports.store import Store
from runrig.service.queries.event_kinds import Kind, is_of
from runrig.service.queries.events import in_words, unnumbered
from runrig.service.queries.lookup import known_pool
from runrig.service.queries.redaction import Names, preemptors
from runrig.service.queries.visibility import Visibility
from runrig.service.runtime.transactor import Transactor

KEPT = 5_000
"""Latest events in memory."""
PAGE = 1_000
AT_FIRST = 400
"""Revisions before the first question that are kept too."""
_MOST_POOLS = 20_000
_STEP_S = 1e-6
"""Times are whole microseconds."""


@dataclass(frozen=True, slots=True)
class FeedPage:
    """*events*: those that are seen of the log up to *revision*, all of it if *revision* is *newest*."""

    events: tuple[ClusterEvent, ...]
    revision: int
    newest: int


@dataclass(frozen=True, slots=True)
class FeedQuery:
    """Which events are wanted; the default: all.

    *since*, *until*: seconds since the epoch, both still wanted.  *pool*: with its subpools.  *kinds*: none means every kind.
    """

    since: float | None = None
    until: float | None = None
    pool: str | None = None
    kinds: frozenset[Kind] = frozenset()

    def takes(self, event: Event) -> bool:
        """Whether time and kind of *event* are wanted."""
        early = self.since is not None and event.time < self.since
        late = self.until is not None and event.time > self.until
        return not early and not late and is_of(event.action, self.kinds)

    def takes_pool(self, pool: str | None) -> bool:
        return self.pool is None or (pool is not None and self.pool in (pool, pool.partition(SUBPOOL_DELIMITER)[0]))


EVERYTHING = FeedQuery()


class Feed:
    """*numbered*: whether GPU indices mean something."""

    def __init__(self, transactor: Transactor, store: Store, *, numbered: bool) -> None:
        self._transactor = transactor
        self._store = store
        self._numbered = numbered
        self._lock = threading.Lock()
        self._kept: list[Event] = []
        self._from = -1
        """Events after this revision, and up to `_to`, are kept."""
        self._to = -1
        self._pools: OrderedDict[str, str | None] = OrderedDict()

    def newest(self) -> int:
        """The revision of the last commit."""
        with self._transactor.reading() as state:
            return state.revision

    def page(
        self,
        after: int,
        visibility: Visibility,
        *,
        most: int = PAGE,
        query: FeedQuery = EVERYTHING,
        newest: int | None = None,
    ) -> FeedPage:
        """The events of *query* after revision *after*; looks at about *most* of the log, never at a part of a revision.

        *newest*: the last revision that is looked at, which is stored; None: the last of all.
        Finding the begin of *query* takes about log2(revisions) reads.  Raises NotFound for an unknown or hidden pool.
        """
        newest = self.newest() if newest is None else newest
        if query.pool is not None:
            with self._transactor.reading() as state:
                known_pool(state, query.pool, visibility)
        if query.since is not None:
            begin = self._store.past.at_time(query.since - _STEP_S)
            after = max(after, 0 if begin is None else begin.revision)
        found = self._events(after, newest, most)
        last = found[-1].revision if found else after
        over = query.until is not None and bool(found) and found[-1].time > query.until
        revision = last if len(found) >= most and not over else max(last, newest)
        seen = self._seen(filter(query.takes, found), visibility)
        events = tuple(each for each in seen if query.takes_pool(each.pool))
        return FeedPage(events, revision, max(revision, newest))

    def latest(
        self, most: int, within: int, visibility: Visibility, *, without: tuple[type[object], ...] = ()
    ) -> tuple[ClusterEvent, ...]:
        """The last *most* events that are seen, oldest first; none of a kind of *without*.

        It looks through the last *within* revisions, at most the `KEPT` events in memory, from the end on, and stops when it has them.
        """
        newest = self.newest()
        with self._lock:
            self._take_in(newest)
            kept = self._kept
        recent = takewhile(lambda event: event.revision > newest - within, reversed(kept))
        wanted = (event for event in recent if not isinstance(event.action, without))
        return tuple(islice(self._seen(wanted, visibility), most))[::-1]

    def seen(self, events: Sequence[Event], visibility: Visibility) -> tuple[ClusterEvent, ...]:
        """The events among *events* that are seen, in their order."""
        return tuple(self._seen(events, visibility))

    def _events(self, after: int, newest: int, most: int) -> list[Event]:
        with self._lock:
            self._take_in(newest)
            if after >= self._from:
                begin = bisect_right(self._kept, after, key=_revision)
                end = bisect_right(self._kept, newest, key=_revision)
                return _whole(self._kept[begin:end], most)
        found = self._store.log.events(after=after, limit=most)
        return list(found[: bisect_right(found, newest, key=_revision)])

    def _take_in(self, newest: int) -> None:
        """The list is replaced, never changed: others may be reading it."""
        if self._from < 0:
            self._from = self._to = max(0, newest - AT_FIRST)
        if self._to < newest and (stored := self._transactor.events_after(self._to)) is not None:
            self._kept = [*self._kept, *stored]
            self._to = max(newest, stored[-1].revision if stored else newest)
        while self._to < newest:
            more = self._store.log.events(after=self._to, limit=PAGE)
            self._kept = [*self._kept, *more]
            last = more[-1].revision if more else newest
            self._to = last if len(more) >= PAGE else max(last, newest)
        if len(self._kept) > KEPT:
            self._from = self._kept[-KEPT - 1].revision
            self._kept = [each for each in self._kept[-KEPT:] if each.revision > self._from]

    # ------------------------------------------------------------ what is seen

    def _seen(self, found: Iterable[Event], visibility: Visibility) -> Iterator[ClusterEvent]:
        told: dict[str, Names] = {}
        for event in found:
            workflow, pool = workflow_of(event.action), pool_of(event.action)
            if workflow is not None:
                pool = self._pool(workflow, event)
            if not _sees(visibility, pool, about_cluster=workflow is None and pool is None):
                continue
            if not visibility.whole and workflow is not None:
                event = self._names(workflow, event, visibility, told).event(event)
            if not self._numbered:
                event = replace(event, action=unnumbered(event.action))
            yield _in_words(event, workflow, pool)

    def _names(self, workflow: str, event: Event, visibility: Visibility, told: dict[str, Names]) -> Names:
        """The names that *event* may contain: a message can name any gang that preempted its workflow."""
        if not isinstance(event.action, MoveTask | MoveGroup | MoveWorkflow):
            return Names(visibility, self._pool)
        if workflow not in told:
            told[workflow] = Names(visibility, self._pool, preemptors(self._store.log.events(workflow=workflow)))
        return told[workflow]

    def _pool(self, workflow: str, event: Event | None = None) -> str | None:
        """None for a workflow that is no longer kept."""
        if event is not None and isinstance(event.action, Submit):
            return self._remember(workflow, event.action.workflow.pool)
        if event is not None and isinstance(event.action, Reassign):
            return self._remember(workflow, event.action.pool)
        if workflow in self._pools:
            return self._pools[workflow]
        try:
            return self._remember(workflow, self._store.head(workflow).pool)
        except NotFound:
            return None

    def _remember(self, workflow: str, pool: str) -> str:
        self._pools[workflow] = pool
        while len(self._pools) > _MOST_POOLS:
            self._pools.popitem(last=False)
        return pool


def _in_words(event: Event, workflow: str | None, pool: str | None) -> ClusterEvent:
    kind, text = type(event.action).__name__, in_words(event.action)
    return ClusterEvent(event.revision, event.seq, at(event.time), event.actor, kind, event.law, text, workflow, pool)


def _revision(event: Event) -> int:
    return event.revision


def _whole(found: list[Event], most: int) -> list[Event]:
    """The first *most* of *found*, and what belongs to the revision of the last of them."""
    if len(found) <= most:
        return found
    last = found[most - 1].revision
    end = next((at for at in range(most, len(found)) if found[at].revision != last), len(found))
    return found[:end]


def _sees(visibility: Visibility, pool: str | None, *, about_cluster: bool) -> bool:
    """Nodes, flavors and cohorts are seen by those who see everything; a workflow whose pool is not known, too."""
    if about_cluster or pool is None:
        return visibility.everything
    return visibility.sees(pool)
