"""The log of the whole cluster in pages, limited to what a user may see.

Many readers request new events at the same time. So the latest events are cached, most of them when they are committed,
and the store is rarely queried.
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
"""Revisions before the first query that are cached as well."""
_MOST_POOLS = 20_000
_STEP_S = 1e-6
"""Times are whole microseconds."""


@dataclass(frozen=True, slots=True)
class FeedPage:
    """*events*: the visible ones in the log up to *revision*; the page reaches the end if *revision* is *newest*."""

    events: tuple[ClusterEvent, ...]
    revision: int
    newest: int


@dataclass(frozen=True, slots=True)
class FeedQuery:
    """A filter for events; by default, all.

    *since*, *until*: seconds since the epoch, inclusive. *pool*: with its subpools. *kinds*: empty means every kind.
    """

    since: float | None = None
    until: float | None = None
    pool: str | None = None
    kinds: frozenset[Kind] = frozenset()

    def takes(self, event: Event) -> bool:
        """Returns True if time and kind of *event* match."""
        early = self.since is not None and event.time < self.since
        late = self.until is not None and event.time > self.until
        return not early and not late and is_of(event.action, self.kinds)

    def takes_pool(self, pool: str | None) -> bool:
        return self.pool is None or (pool is not None and self.pool in (pool, pool.partition(SUBPOOL_DELIMITER)[0]))


EVERYTHING = FeedQuery()


class Feed:
    """*numbered*: GPU indices have a meaning."""

    def __init__(self, transactor: Transactor, store: Store, *, numbered: bool) -> None:
        self._transactor = transactor
        self._store = store
        self._numbered = numbered
        self._lock = threading.Lock()
        self._kept: list[Event] = []
        self._from = -1
        """Events after this revision, up to `_to`, are cached."""
        self._to = -1
        self._pools: OrderedDict[str, str | None] = OrderedDict()

    def newest(self) -> int:
        """Returns the revision of the last commit."""
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
        """Returns the events of *query* after revision *after*. Reads about *most* log entries, and never part of a
        revision.

        *newest*: the last stored revision to read; None: the last one. Finding the beginning of *query* takes about
        log2(revisions) reads. Raises NotFound for an unknown or hidden pool.
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
        """Returns the last *most* visible events, oldest first, except kinds in *without*.

        Searches the last *within* revisions from the end, at most the `KEPT` events in memory.
        """
        newest = self.newest()
        with self._lock:
            self._take_in(newest)
            kept = self._kept
        recent = takewhile(lambda event: event.revision > newest - within, reversed(kept))
        wanted = (event for event in recent if not isinstance(event.action, without))
        return tuple(islice(self._seen(wanted, visibility), most))[::-1]

    def seen(self, events: Sequence[Event], visibility: Visibility) -> tuple[ClusterEvent, ...]:
        """Returns the visible events among *events*, in their order."""
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
        """Replaces the list instead of changing it, because others may be reading it."""
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
        """Returns the names that *event* can contain: a message can name any gang that preempted its workflow."""
        if not isinstance(event.action, MoveTask | MoveGroup | MoveWorkflow):
            return Names(visibility, self._pool)
        if workflow not in told:
            told[workflow] = Names(visibility, self._pool, preemptors(self._store.log.events(workflow=workflow)))
        return told[workflow]

    def _pool(self, workflow: str, event: Event | None = None) -> str | None:
        """Returns None for a workflow that was deleted by retention."""
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
    """Returns the first *most* of *found*, and the rest of the last revision among them."""
    if len(found) <= most:
        return found
    last = found[most - 1].revision
    end = next((at for at in range(most, len(found)) if found[at].revision != last), len(found))
    return found[:end]


def _sees(visibility: Visibility, pool: str | None, *, about_cluster: bool) -> bool:
    """Users who see everything also see nodes, flavors, cohorts, and workflows of unknown pools."""
    if about_cluster or pool is None:
        return visibility.everything
    return visibility.sees(pool)
