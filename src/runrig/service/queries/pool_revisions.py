"""All pools together, revision by revision, for the osmo client's `config` commands; from the event log (rule S6)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from runrig.domain.errors import NotFound
from runrig.domain.plan import PutPool
from runrig.domain.pools import Pool, PoolState
from runrig.domain.quantities import few
from runrig.domain.records import Event, Note
from runrig.ports.store import RevisionsQuery, Store
from runrig.service.queries.history import change_of
from runrig.service.queries.visibility import ALL, Visibility
from runrig.spec.labels import read_tags

MOST_NAMED = 10
MOST_TAGS = 100


@dataclass(frozen=True, slots=True)
class PoolRevision:
    """One change of pools. *pools*: the changed ones, by name; *said*: the user's note, else a short summary."""

    revision: int
    time: float
    by: str
    pools: tuple[str, ...]
    said: str
    tags: tuple[str, ...] = ()


class PoolRevisions:
    """A query costs what it shows, not the length of the history."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def page(self, query: RevisionsQuery, visibility: Visibility = ALL) -> tuple[PoolRevision, ...]:
        """Limits *query.below* to what the user may see."""
        found = self._store.log.pool_revisions(replace(query, below=_below(visibility)))
        return tuple(_revision(*each) for each in found)

    def pools_at(self, revision: int, visibility: Visibility = ALL) -> Mapping[str, Pool]:
        """Returns the pools that were not ARCHIVED after *revision*, by name. Raises NotFound unless it changed a
        visible pool.
        """
        if not self.page(RevisionsQuery(revision=revision), visibility):
            raise self._unknown(revision, visibility)
        pools: dict[str, Pool] = {}
        for event in self._store.log.pools_after(revision, _below(visibility)):
            assert isinstance(event.action, PutPool), "a change of a pool"
            pools[event.action.pool.name] = event.action.pool
        return {name: pool for name, pool in sorted(pools.items()) if pool.state is not PoolState.ARCHIVED}

    def tag(self, revision: int, *, add: Collection[str], remove: Collection[str]) -> tuple[str, ...]:
        """Returns the new tags of *revision*. Raises NotFound, InvalidInput; Conflict if there are too many."""
        added, removed = read_tags(add), read_tags(remove)
        if not self.page(RevisionsQuery(revision=revision)):
            raise self._unknown(revision, ALL)
        return self._store.log.tag_revision(revision, added, removed, MOST_TAGS)

    def _unknown(self, revision: int, visibility: Visibility) -> NotFound:
        latest = self.page(RevisionsQuery(newest_first=True, limit=MOST_NAMED), visibility)
        last = ", ".join(str(each.revision) for each in reversed(latest)) or "none"
        return NotFound(f"revision {revision} did not change pools (latest revisions that did: {last})")


def _below(visibility: Visibility) -> tuple[str, ...] | None:
    return None if visibility.whole else visibility.tops


def _revision(events: Sequence[Event], note: Note | None) -> PoolRevision:
    changes = [change_of(event) for event in events]
    first, names = changes[0], tuple(change.pool for change in changes)
    words = few([f"{change.pool} {' and '.join(change.what)}" for change in changes], MOST_NAMED, "; ")
    said = words if note is None or not note.description else note.description
    return PoolRevision(first.revision, events[0].time, first.by, names, said, () if note is None else note.tags)
