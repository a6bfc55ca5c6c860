"""The log of the whole cluster in pages, limited to what a user may see.

Many readers request new events at the same time. So the latest events are cached, most of them when they are committed,
and the store is rarely queried.
"""

import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from operator import attrgetter

from runrig.domain.plan import MoveGroup, MoveTask, MoveWorkflow, Preempt
from runrig.domain.records import Event
from runrig.domain.shown.events import ClusterEvent
from runrig.domain.subjects import pool_of, workflow_of
from runrig.domain.value import at
from runrig.ports.store import Store
from runrig.service.queries.event_filter import EVERYTHING, EventFilter, Placements, Subjects
from runrig.service.queries.events import in_words, ruled_out_of, unnumbered
from runrig.service.queries.redaction import Names, preemptors
from runrig.service.queries.visibility import Visibility
from runrig.service.runtime.transactor import Transactor

_REVISION = attrgetter("revision")

KEPT = 5_000
"""Latest events in memory."""
PAGE = 1_000
AT_FIRST = 400
"""Revisions before the first query that are cached as well."""


@dataclass(frozen=True, slots=True)
class FeedPage:
    """*events*: the visible ones in the log up to *revision*; no more match if *revision* is *newest*."""

    events: tuple[ClusterEvent, ...]
    revision: int
    newest: int


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
        self._subjects = Subjects(store)

    def newest(self) -> int:
        """Returns the revision of the last commit."""
        with self._transactor.reading() as state:
            return state.revision

    def head(self) -> str | None:
        """Returns the hash of the newest commit; None if the log has none yet."""
        return self._store.log.head() or None

    def page(
        self,
        after: int,
        visibility: Visibility,
        *,
        most: int = PAGE,
        query: EventFilter = EVERYTHING,
        newest: int | None = None,
    ) -> FeedPage:
        """Returns the events of *query* after revision *after*. Reads about *most* log entries, and never part of a
        revision.

        *newest*: the last stored revision to read; None: the last one. Finding the beginning and end of *query* takes
        about log2(revisions) reads. With kinds or a workflow, the database skips all other entries.
        """
        newest = self.newest() if newest is None else newest
        after, end = query.span(self._store, after, newest)
        found = self._events(after, end, most, query)
        revision = found[-1].revision if len(found) >= most else newest
        return FeedPage(tuple(self._seen(filter(query.takes, found), visibility, query)), revision, newest)

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

    def _events(self, after: int, end: int, most: int, query: EventFilter) -> list[Event]:
        """Returns events after revision *after*, up to *end*, with all that match *query*. *end* has been stored."""
        if after >= end:
            return []
        with self._lock:
            self._take_in(end)
            if after >= self._from:
                first = bisect_right(self._kept, after, key=_REVISION)
                return _whole(self._kept[first : bisect_right(self._kept, end, key=_REVISION)], most)
        log = self._store.log
        found = log.events(after=after, limit=most, workflow=query.workflow, actions=query.actions)
        return list(found[: bisect_right(found, end, key=_REVISION)])

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

    def _seen(
        self, found: Iterable[Event], visibility: Visibility, query: EventFilter = EVERYTHING
    ) -> Iterator[ClusterEvent]:
        told: dict[str, Names] = {}
        placements = Placements(self._store)
        for event in found:
            workflow, pool, owner = workflow_of(event.action), pool_of(event.action), None
            if workflow is not None:
                owner = self._subjects.owner(workflow, event)
                pool = None if owner is None else owner.pool
            if not _sees(visibility, pool, about_cluster=workflow is None and pool is None):
                continue
            if not query.takes_pool(pool) or not self._subjects.matches(event, owner, query, placements):
                continue
            if not visibility.whole and workflow is not None:
                event = self._names(workflow, event, visibility, told).event(event)
            if not self._numbered:
                event = replace(event, action=unnumbered(event.action))
            yield _in_words(event, workflow, pool)

    def _names(self, workflow: str, event: Event, visibility: Visibility, told: dict[str, Names]) -> Names:
        """Returns the names that *event* can contain: a message can name any gang that preempted its workflow."""
        if not isinstance(event.action, MoveTask | MoveGroup | MoveWorkflow):
            return Names(visibility, self._subjects.pool)
        if workflow not in told:
            found = self._store.log.events(workflow=workflow, actions=(Preempt.__name__,))
            told[workflow] = Names(visibility, self._subjects.pool, preemptors(found))
        return told[workflow]


def _in_words(event: Event, workflow: str | None, pool: str | None) -> ClusterEvent:
    action = event.action
    by, ruled_out = (action.by, ruled_out_of(action)) if isinstance(action, Preempt) else (None, ())
    return ClusterEvent(
        event.revision,
        event.seq,
        at(event.time),
        event.actor,
        type(action).__name__,
        event.law,
        in_words(action),
        workflow,
        pool,
        by,
        ruled_out,
    )


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
