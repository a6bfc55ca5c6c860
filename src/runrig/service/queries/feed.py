"""The log of the whole cluster in pages, limited to what a user may see.

Many readers request new events at the same time. The transactor has the latest ones in memory, so the store is rarely
queried.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
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

PAGE = 1_000


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
        self, upto: int, most: int, within: int, visibility: Visibility, *, without: tuple[type, ...] = ()
    ) -> tuple[ClusterEvent, ...]:
        """Returns the last *most* visible events of the *within* revisions up to *upto*, oldest first, except kinds in *without*."""
        after = max(0, upto - within)
        found = self._kept(after, upto)
        if found is None:
            found = self._store.past.events_between(after=after, upto=upto, without=without)
        wanted = (event for event in reversed(found) if not isinstance(event.action, without))
        return tuple(islice(self._seen(wanted, visibility), most))[::-1]

    def _events(self, after: int, end: int, most: int, query: EventFilter) -> Sequence[Event]:
        """Returns events after revision *after*, up to *end*, with all that match *query*. *end* has been stored."""
        if after >= end:
            return ()
        if (kept := self._kept(after, end)) is not None:
            return _whole(kept, most)
        log = self._store.log
        found = log.events(after=after, limit=most, workflow=query.workflow, actions=query.actions)
        return found[: bisect_right(found, end, key=_REVISION)]

    def _kept(self, after: int, end: int) -> Sequence[Event] | None:
        """Returns all events after revision *after*, up to *end*, from memory; None if some are no longer there."""
        kept = self._transactor.events_after(after)
        return None if kept is None else kept[: bisect_right(kept, end, key=_REVISION)]

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
            # Users who see everything also see nodes, flavors, cohorts, and workflows of unknown pools.
            if not (visibility.everything if pool is None else visibility.sees(pool)):
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


def _whole(found: Sequence[Event], most: int) -> Sequence[Event]:
    """Returns the first *most* of *found*, and the rest of the last revision among them."""
    if len(found) <= most:
        return found
    last = found[most - 1].revision
    end = next((at for at in range(most, len(found)) if found[at].revision != last), len(found))
    return found[:end]
