"""The changes of pools, read from the event log (law S6).

What is asked is asked of the index on (pool, revision, seq), so that it costs by the changes of these pools and not by the log.
"""

from typing import Any

from sqlalchemy import Connection, Select, and_, func, or_, select

from runrig.domain.records import Event
from runrig.ports.store import ChangesQuery
from runrig.store import schema
from runrig.store.rows import event_of

_EVENT = schema.events.c
_POOL = schema.pools.c


def pool_changes(connection: Connection, query: ChangesQuery) -> tuple[tuple[Event, ...], bool]:
    """As `ports.store.Store.pool_changes`."""
    # Keys first: a sort that drags the actions along costs several times as much.  All of them before the page is cut: PostgreSQL
    # would else walk the whole log from its end, in the hope of soon having a page.
    keys = (
        select(_EVENT.revision, _EVENT.seq)
        .where(_of_pool(query.pool, alone=query.alone), *_filters(query))
        .cte()
        .prefix_with("MATERIALIZED", dialect="postgresql")
    )
    page = select(keys.c.revision, keys.c.seq).order_by(keys.c.revision.desc(), keys.c.seq.desc())
    events = _with_keys(connection, page.limit(query.limit + 1))
    return events[: query.limit], len(events) > query.limit


def pools_at(connection: Connection, pool: str, at: float) -> tuple[Event, ...]:
    """As `ports.store.Store.pools_at`."""
    newest = func.row_number().over(partition_by=_EVENT.pool, order_by=(_EVENT.revision.desc(), _EVENT.seq.desc()))
    ranked = (
        select(_EVENT.revision, _EVENT.seq, newest.label("nth"))
        .where(_of_pool(pool, alone=False), _EVENT.time <= at)
        .subquery()
    )
    return _with_keys(connection, select(ranked.c.revision, ranked.c.seq).where(ranked.c.nth == 1))


def _with_keys(connection: Connection, keys: Select[Any]) -> tuple[Event, ...]:
    """Newest first."""
    wanted = keys.subquery()
    statement = (
        select(schema.events)
        .join(wanted, and_(_EVENT.revision == wanted.c.revision, _EVENT.seq == wanted.c.seq))
        .order_by(_EVENT.revision.desc(), _EVENT.seq.desc())
    )
    return tuple(event_of(row) for row in connection.execute(statement).mappings())


def _of_pool(name: str, *, alone: bool) -> Any:
    if alone:
        return _EVENT.pool == name
    return _EVENT.pool.in_(select(_POOL.name).where(or_(_POOL.name == name, _POOL.parent == name)))


def _filters(query: ChangesQuery) -> list[Any]:
    filters: list[Any] = []
    if query.actors:
        filters.append(_EVENT.actor.in_(query.actors))
    if query.since is not None:
        filters.append(_EVENT.time >= query.since)
    if query.until is not None:
        filters.append(_EVENT.time <= query.until)
    if query.before is not None:
        revision, seq = query.before
        filters.append(_EVENT.revision <= revision)
        filters.append(or_(_EVENT.revision < revision, _EVENT.seq < seq))
    return filters
