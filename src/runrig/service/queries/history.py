"""The audit trail of pools: who changed what and when, and the settings of a pool at an earlier time (rule S6).

Both are read from the event log, which is never truncated. Its order is that of revisions: if the clock was set back,
the later revision counts.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Literal

from runrig.domain.errors import InvalidInput, NotFound
from runrig.domain.meant import suggested
from runrig.domain.plan import PutPool
from runrig.domain.pools import Pool, PoolState, Quota
from runrig.domain.quantities import GPU
from runrig.domain.records import Event
from runrig.domain.settings import named
from runrig.domain.shown.history import PoolChange, PoolFieldEdit, PoolPast, PoolThen
from runrig.domain.shown.pools import fields_of
from runrig.domain.value import at as to_time
from runrig.engine.lifecycle.subpools import children_of
from runrig.ports.clock import Clock
from runrig.ports.store import ChangesQuery, Store
from runrig.service.queries.visibility import ALL, Visibility
from runrig.service.runtime.transactor import APPLY, ENGINE, Transactor

RUNRIG = "runrig"
"""The author of automatic changes: the end of a drain."""

END_OF_SECOND = 999_999
"""Microseconds to add to a time that means its whole second."""
SLACK_S = 1.0
"""A time without a fraction means the whole second, which may not be over yet."""

_NEVER_CHANGE = ("name", "parent", "subpool_name")

Via = Literal["command", "apply", "engine"]
What = Literal["created", "resized", "moved", "changed", "unchanged", "deleted", "draining", "archived", "reactivated"]

_STATE_WORDS: Mapping[tuple[PoolState, PoolState], tuple[What, ...]] = {
    (PoolState.ACTIVE, PoolState.DELETING): ("deleted", "draining"),
    (PoolState.ACTIVE, PoolState.ARCHIVED): ("deleted", "archived"),
    (PoolState.DELETING, PoolState.ARCHIVED): ("archived",),
    (PoolState.ARCHIVED, PoolState.ACTIVE): ("reactivated",),
}
_KINDS: Mapping[str, What] = {"nominal": "resized", "cohort": "moved"}
"""By field; "changed" for the others."""


class History:
    def __init__(self, transactor: Transactor, store: Store, clock: Clock) -> None:
        self._transactor = transactor
        self._store = store
        self._clock = clock

    def changes(
        self,
        name: str,
        visibility: Visibility = ALL,
        *,
        subpool: str | None = None,
        by: str | None = None,
        since: float | None = None,
        until: float | None = None,
        before: tuple[int, int] | None = None,
        limit: int = 50,
    ) -> tuple[tuple[PoolChange, ...], bool]:
        """Returns (a page of changes of a pool and its subpools, newest first, also of an ARCHIVED pool; whether there are more).

        *subpool*: only this one, by its short or full name, or the pool alone by its own name. *since*, *until*: inclusive.
        *before*: only entries older than this (revision, seq). Raises NotFound; InvalidInput if *since* is after *until*.
        """
        pool = self._known(name, visibility).name
        if subpool is not None:
            pool = self._chosen(pool, subpool)
        if since is not None and until is not None and since > until:
            raise InvalidInput.one(f"since ({_utc(since)}) must be before until ({_utc(until)})", "since")
        page, more = self._store.log.pool_changes(
            ChangesQuery(pool, subpool is not None, _actors(by), since, until, before, limit)
        )
        return tuple(map(change_of, page)), more

    def pool_at(self, name: str, at: float, visibility: Visibility = ALL) -> PoolPast:
        """Returns the pool *name* at the time *at*, after everything committed at exactly that time.

        Raises NotFound for an unknown pool or one that did not exist yet, InvalidInput for a future time.
        """
        now = self._clock.now()
        if at >= now + SLACK_S:
            raise InvalidInput.one(f"{_utc(at)} is in the future (now: {_utc(now)}). Use a past time", "at")
        pool = self._known(name, visibility)
        events = {change.pool: (action, change) for action, change in self._stood(pool.parent or name, at)}
        if name not in events:
            raise self._not_there_yet(name, at)
        pools = {each: action.pool for each, (action, _) in events.items()}
        views = {each: _then(pools, each, change) for each, (_, change) in events.items()}
        return PoolPast(to_time(at), views[name], tuple(views[each.name] for each in children_of(pools, name)))

    def _stood(self, top: str, at: float) -> Iterator[tuple[PutPool, PoolChange]]:
        for event in self._store.log.pools_at(top, at):
            assert isinstance(event.action, PutPool), "only changes of pools have a pool in the log"
            yield event.action, change_of(event)

    def _not_there_yet(self, name: str, at: float) -> NotFound:
        first = self._store.log.events(pool=name, limit=1)[0]
        by, _ = _who(first.actor)
        return NotFound(
            f"pool {name!r} did not exist at {_utc(at)}: {by} created it at {_utc(first.time)}",
            {"pool": name, "created_at": _moment(first.time).isoformat(), "created_by": by},
        )

    def _known(self, name: str, visibility: Visibility) -> Pool:
        """Returns the pool *name*, even if it is ARCHIVED. Raises NotFound."""
        with self._transactor.reading() as state:
            pool, seen = state.pools.get(name), visibility.of(sorted(state.pools))
        if pool is None or not visibility.sees(name):
            there = suggested(name, seen, f" (pools: {', '.join(seen) or visibility.none_there})")
            raise NotFound(f"unknown pool {name!r}{there}")
        return pool

    def _chosen(self, name: str, subpool: str) -> str:
        with self._transactor.reading() as state:
            family = {pool.name: pool for pool in state.pools.values() if name in (pool.name, pool.parent)}
        for each in family.values():
            if subpool in (each.name, each.subpool_name):
                return each.name
        short = sorted(each.subpool_name for each in family.values() if each.subpool_name is not None)
        there = suggested(subpool, short, f" (subpools: {', '.join(short) or 'none'})")
        raise NotFound(f"pool {name!r} has no subpool {subpool!r}{there}")


# ---------------------------------------------------------------- people and times


def _actors(person: str | None) -> tuple[str, ...]:
    """Returns the actors of *person* in the log: for commands, and for cluster files."""
    if person is None:
        return ()
    return (person, APPLY + person, *((ENGINE,) if person == RUNRIG else ()))


def _who(actor: str) -> tuple[str, Via]:
    if actor == ENGINE:
        return RUNRIG, "engine"
    if actor.startswith(APPLY):
        return actor.removeprefix(APPLY), "apply"
    return actor, "command"


def _moment(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC).replace(tzinfo=None)


def _utc(at: float) -> str:
    """Formats a time; the end of a second is written as the second."""
    moment = _moment(at)
    return f"{(moment.replace(microsecond=0) if moment.microsecond == END_OF_SECOND else moment).isoformat(' ')} UTC"


# ---------------------------------------------------------------- changes


def change_of(event: Event) -> PoolChange:
    """Returns *event*, a change of a pool, as an entry of the trail."""
    assert isinstance(event.action, PutPool), "only changes of pools have a pool in the log"
    pool, before = event.action.pool, event.action.before
    by, via = _who(event.actor)
    changed = tuple(edits(before, pool))
    what = _what(before, pool, changed)
    return PoolChange(event.revision, event.seq, to_time(event.time), by, via, pool.name, what, changed)


def edits(before: Pool | None, after: Pool) -> Iterator[PoolFieldEdit]:
    """Yields the changes, quotas first; for a new pool, the differences from the defaults."""
    old = Pool(after.name) if before is None else before
    for key in sorted({*old.quotas, *after.quotas}):
        pair = old.quotas.get(key), after.quotas.get(key)
        for each in fields(Quota):
            values = [None if quota is None else getattr(quota, each.name) for quota in pair]
            if values[0] != values[1]:
                yield PoolFieldEdit(each.name, str(key), values[0], values[1])
    for field in fields(Pool):
        values = [getattr(pool, field.name) for pool in (old, after)]
        if field.name not in (*_NEVER_CHANGE, "quotas") and values[0] != values[1]:
            if (setting := named(field.name)) is not None:
                values = [setting.of(pool) for pool in (old, after)]
            yield PoolFieldEdit(field.name, None, None if before is None else values[0], values[1])


def _what(before: Pool | None, after: Pool, edits: tuple[PoolFieldEdit, ...]) -> tuple[What, ...]:
    if before is None:
        return ("created",)
    kinds = {_KINDS.get(edit.field, "changed") for edit in edits if edit.field != "state"}
    words = _STATE_WORDS[before.state, after.state] if before.state is not after.state else ()
    return words + tuple(kind for kind in (*_KINDS.values(), "changed") if kind in kinds) or ("unchanged",)


# ---------------------------------------------------------------- the cluster at an earlier time


def _then(pools: Mapping[str, Pool], name: str, changed: PoolChange) -> PoolThen:
    pool = pools[name]
    quota = _gpus(pool) if pool.state is PoolState.ACTIVE else 0
    unallocated = quota - sum(_gpus(each) for each in children_of(pools, name))
    settings = fields_of(pool, pools[pool.parent] if pool.parent else pool)
    return PoolThen(**settings, quota=quota, unallocated=unallocated, changed=changed)


def _gpus(pool: Pool) -> int:
    return sum(quota.nominal for key, quota in pool.quotas.items() if key.resource == GPU)
