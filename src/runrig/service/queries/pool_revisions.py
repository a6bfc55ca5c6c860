"""All pools together, revision by revision, as the reference client's `config` commands ask: read from the event log (law S6)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from runrig.domain.errors import NotFound
from runrig.domain.plan import PutPool
from runrig.domain.pools import Pool, PoolState
from runrig.domain.records import Event, Note
from runrig.ports.store import Store
from runrig.service.queries.history import change_of
from runrig.service.queries.visibility import ALL, Visibility

MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class PoolRevision:
    """One change of pools.  *pools*: what changed, by name; *said*: by the one who made it, else what happened in a few words."""

    revision: int
    time: float
    by: str
    pools: tuple[str, ...]
    said: str
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RevisionQuery:
    """Empty tuples and None do not filter.  *tags*: with one of these.  *created_after* is still in it, *created_before* is not.

    *at*: only the one that held at that time.  A page begins at the oldest, or with *newest_first* at the newest.
    """

    name: str | None = None
    revision: int | None = None
    tags: tuple[str, ...] = ()
    created_after: float | None = None
    created_before: float | None = None
    at: float | None = None
    newest_first: bool = False
    limit: int = 20
    offset: int = 0

    def takes(self, found: PoolRevision) -> bool:
        return (
            self.name in (None, *found.pools)
            and self.revision in (None, found.revision)
            and (not self.tags or not set(self.tags).isdisjoint(found.tags))
            and (self.created_after is None or found.time >= self.created_after)
            and (self.created_before is None or found.time < self.created_before)
            and (self.at is None or found.time <= self.at)
        )


class PoolRevisions:
    """Each question reads all changes of pools there ever were."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def page(self, query: RevisionQuery, visibility: Visibility = ALL) -> tuple[PoolRevision, ...]:
        found = [each for each in self._all(visibility) if query.takes(each)]
        if query.at is not None:
            found = found[-1:]
        if query.newest_first:
            found.reverse()
        return tuple(found[query.offset : query.offset + query.limit])

    def pools_at(self, revision: int, visibility: Visibility = ALL) -> Mapping[str, Pool]:
        """The pools that were not ARCHIVED after *revision*, by name.  Raises NotFound unless it changed one that is seen."""
        known = [each.revision for each in self._all(visibility)]
        if revision not in known:
            last = ", ".join(str(each) for each in known[-MOST_NAMED:]) or "none"
            raise NotFound(f"there is no revision {revision} of pools: the latest are {last}")
        pools: dict[str, Pool] = {}
        for event in self._events(visibility):
            if event.revision > revision:
                break
            assert isinstance(event.action, PutPool), "a change of a pool"
            pools[event.action.pool.name] = event.action.pool
        return {name: pool for name, pool in sorted(pools.items()) if pool.state is not PoolState.ARCHIVED}

    def _events(self, visibility: Visibility) -> Iterator[Event]:
        for event in self._store.log.every_pool_change():
            if isinstance(event.action, PutPool) and visibility.sees(event.action.pool.name):
                yield event

    def _all(self, visibility: Visibility) -> Iterator[PoolRevision]:
        """The oldest first."""
        notes = self._store.log.notes()
        for revision, events in groupby(self._events(visibility), key=lambda event: event.revision):
            yield _revision(tuple(events), notes.get(revision))


def _revision(events: Sequence[Event], note: Note | None) -> PoolRevision:
    changes = [change_of(event) for event in events]
    first, names = changes[0], tuple(change.pool for change in changes)
    happened = "; ".join(f"{change.pool} {' and '.join(change.what)}" for change in changes[:MOST_NAMED])
    rest = len(changes) - MOST_NAMED
    words = happened + (f"; and {rest} more" if rest > 0 else "")
    said = words if note is None or not note.description else note.description
    return PoolRevision(first.revision, first.time, first.by, names, said, () if note is None else note.tags)
