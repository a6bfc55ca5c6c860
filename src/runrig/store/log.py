"""The event log: of one workflow, of one pool, or complete.

Changes of pools are read from the index on (pool, revision, seq), so the cost depends on these changes, not on the
length of the log.
"""

import re
from collections.abc import Collection, Mapping
from functools import cache
from itertools import groupby
from operator import eq, ge, le, lt
from typing import Any

from sqlalchemy import JSON, Connection, Select, Text, and_, bindparam, cast, func, or_, select, type_coerce

from runrig.domain.errors import Conflict, NotFound
from runrig.domain.plan import DropCohort, PutCohort, PutPool, SetFlavors
from runrig.domain.records import Event, Note
from runrig.ports.store import ChangesQuery, RevisionsQuery
from runrig.store import chain, filters, retention, schema
from runrig.store.dialect import put_rows
from runrig.store.filters import given, one_of
from runrig.store.rows import event_of
from runrig.store.transactions import Tables

_EVENT = schema.events.c
_POOL = schema.pools.c
_NOTE = schema.notes.c


EVENTS = select(schema.events).order_by(_EVENT.revision, _EVENT.seq)


def events(
    connection: Connection, statement: Select[Any], values: Mapping[str, Any] | None = None
) -> tuple[Event, ...]:
    return tuple(map(event_of, connection.execute(statement, values).mappings()))


def whole_revisions(
    connection: Connection, statement: Select[Any], limit: int, values: Mapping[str, Any] | None = None
) -> tuple[Event, ...]:
    """Returns the first *limit* events of *statement*, which is in order, and the other events of the last revision."""
    found = events(connection, statement.limit(limit), values)
    if not found or len(found) < limit:
        return found
    last = found[-1]
    rest = statement.where(_EVENT.revision == last.revision, _EVENT.seq > last.seq)
    return (*found, *events(connection, rest, values))


@cache
def _events_of(a_workflow: bool, a_pool: bool, some_actions: bool) -> Select[Any]:
    """Selects events in order, after revision `after`, optionally of `workflow`, `pool` and `actions`. Built once,
    because building it costs more than running it.
    """
    statement = EVENTS.where(_EVENT.revision > bindparam("after"), retention.counts())
    if a_workflow:
        statement = statement.where(_EVENT.workflow == bindparam("workflow"))
    if a_pool:
        statement = statement.where(_EVENT.pool == bindparam("pool"))
    if some_actions:
        statement = statement.where(_EVENT.kind.in_(bindparam("actions", expanding=True)))
    return statement


class SqlLog(Tables):
    """`ports.store.EventLog`."""

    def events(
        self,
        *,
        workflow: str | None = None,
        pool: str | None = None,
        actions: Collection[str] = (),
        after: int = 0,
        limit: int | None = None,
    ) -> tuple[Event, ...]:
        """As `ports.store.EventLog.events`, in order. *pool*: changes of the pool itself (rule S6), not of workflows in
        it.

        *limit* never splits a revision: the last one is returned whole, so that the next page begins after it.
        """
        statement = _events_of(workflow is not None, pool is not None, bool(actions))
        values = {"after": after, "workflow": workflow, "pool": pool, "actions": list(actions)}
        with self._transactions.reading() as connection:
            if limit is None:
                return events(connection, statement, values)
            return whole_revisions(connection, statement, limit, values)

    def latest(self, workflow: str, most: int) -> tuple[tuple[Event, ...], int]:
        counted = select(func.count()).where(_EVENT.workflow == workflow, retention.counts())
        statement = _events_of(True, False, False).order_by(None).order_by(_EVENT.revision.desc(), _EVENT.seq.desc())
        with self._transactions.reading() as connection:
            newest = events(connection, statement.limit(most), {"after": 0, "workflow": workflow})
            return newest[::-1], connection.execute(counted).scalar_one()

    def last_time(self) -> float | None:
        newest = select(_EVENT.time).order_by(_EVENT.revision.desc(), _EVENT.seq.desc()).limit(1)
        return self._value(newest)

    def head(self) -> str:
        with self._transactions.reading() as connection:
            return chain.head_text(connection)

    def pool_changes(self, query: ChangesQuery) -> tuple[tuple[Event, ...], bool]:
        # Keys first: sorting with the actions costs several times as much. All keys before the page is cut, because
        # PostgreSQL would otherwise scan the whole log from its end to fill a page.
        keys = (
            select(_EVENT.revision, _EVENT.seq)
            .where(_of_pool(query.pool, alone=query.alone), *_filters(query))
            .cte()
            .prefix_with("MATERIALIZED", dialect="postgresql")
        )
        page = select(keys.c.revision, keys.c.seq).order_by(keys.c.revision.desc(), keys.c.seq.desc())
        with self._transactions.reading() as connection:
            found = _with_keys(connection, page.limit(query.limit + 1))
        return found[: query.limit], len(found) > query.limit

    def cohort_changes(self) -> tuple[Event, ...]:
        return self._of_kind(PutCohort)

    def declarations(self, *, after: int) -> tuple[Event, ...]:
        return self._of_kind(PutPool, PutCohort, DropCohort, SetFlavors, after=after)

    def _of_kind(self, *actions: type, after: int = 0) -> tuple[Event, ...]:
        """O(changes of the cluster): the index on workflows skips all events of workflows."""
        kinds = [action.__name__ for action in actions]
        of_kind = EVENTS.where(_EVENT.workflow.is_(None), _EVENT.kind.in_(kinds), _EVENT.revision > after)
        return self._all(event_of, of_kind)

    def pool_revisions(self, query: RevisionsQuery) -> tuple[tuple[tuple[Event, ...], Note | None], ...]:
        # Keys first, from the index on events of pools; full rows only for the page.
        page = select(_EVENT.revision).where(*_revision_filters(query)).distinct().order_by(_EVENT.revision)
        if query.newest_first or query.at is not None:
            page = page.order_by(None).order_by(_EVENT.revision.desc())
        page = page.limit(query.limit).offset(query.offset) if query.at is None else page.limit(1)
        with self._transactions.reading() as connection:
            found = list(connection.execute(page).scalars())
            if query.at is not None:
                found = found[query.offset : query.offset + query.limit]
            noted = connection.execute(select(schema.notes).where(_NOTE.revision.in_(found))).mappings()
            notes = {row["revision"]: Note(**row) for row in noted}
            of_pools = EVENTS.where(_EVENT.revision.in_(found), _PUTS_POOL, _of_pools(_EVENT.pool, query.below))
            changed = events(connection, of_pools)
            changes = {revision: tuple(each) for revision, each in groupby(changed, lambda event: event.revision)}
        return tuple((changes[revision], notes.get(revision)) for revision in found)

    def pools_after(self, revision: int, below: tuple[str, ...] | None) -> tuple[Event, ...]:
        newest = (
            select(func.max(_EVENT.revision))
            .where(_EVENT.pool == _POOL.name, _PUTS_POOL, _EVENT.revision <= revision)
            .correlate(schema.pools)
            .scalar_subquery()
        )
        last = select(_POOL.name, newest.label("revision")).where(_of_pools(_POOL.name, below)).subquery()
        same = and_(_EVENT.pool == last.c.name, _PUTS_POOL, _EVENT.revision == last.c.revision)
        return self._all(event_of, EVENTS.join(last, same))

    def tag_revision(self, revision: int, add: Collection[str], remove: Collection[str], most: int) -> tuple[str, ...]:
        changed = select(_EVENT.revision).where(_EVENT.revision == revision, _PUTS_POOL).limit(1)
        with self._transactions.writing() as connection:
            if connection.execute(changed.with_for_update()).scalar_one_or_none() is None:
                raise NotFound(f"revision {revision} did not change pools")
            row = connection.execute(select(schema.notes).where(_NOTE.revision == revision)).mappings().one_or_none()
            before = Note(revision, "") if row is None else Note(**row)
            tags = tuple(sorted({*before.tags, *add} - {*remove}))
            if len(tags) > most:
                raise Conflict(
                    f"too many tags for revision {revision} ({len(tags)}, maximum {most}). Remove some first"
                )
            put_rows(connection, schema.notes, [(revision, before.description, tags)])
            return tags

    def pools_at(self, pool: str, at: float) -> tuple[Event, ...]:
        newest = func.row_number().over(partition_by=_EVENT.pool, order_by=(_EVENT.revision.desc(), _EVENT.seq.desc()))
        ranked = (
            select(_EVENT.revision, _EVENT.seq, newest.label("nth"))
            .where(_of_pool(pool, alone=False), _EVENT.time <= at)
            .subquery()
        )
        with self._transactions.reading() as connection:
            return _with_keys(connection, select(ranked.c.revision, ranked.c.seq).where(ranked.c.nth == 1))


def _with_keys(connection: Connection, keys: Select[Any]) -> tuple[Event, ...]:
    """Returns the events with *keys*, newest first."""
    wanted = keys.subquery()
    statement = (
        select(schema.events)
        .join(wanted, and_(_EVENT.revision == wanted.c.revision, _EVENT.seq == wanted.c.seq))
        .order_by(_EVENT.revision.desc(), _EVENT.seq.desc())
    )
    return events(connection, statement)


_PUTS_POOL = _EVENT.kind == PutPool.__name__
"""The event changes its pool. Records of its budget are in the log too."""


def _of_pool(name: str, *, alone: bool) -> Any:
    if alone:
        return and_(_EVENT.pool == name, _PUTS_POOL)
    names = select(_POOL.name).where(or_(_POOL.name == name, _POOL.parent == name))
    return and_(_EVENT.pool.in_(names), _PUTS_POOL)


def _of_pools(name: Any, below: tuple[str, ...] | None) -> Any:
    """Returns a condition: column *name* names a pool; with *below*, one of these top-level pools or their subpools."""
    return name.is_not(None) if below is None else filters.below(name, below)


def _revision_filters(query: RevisionsQuery) -> list[Any]:
    found = given(
        (_EVENT.pool, eq, query.name),
        (_EVENT.revision, eq, query.revision),
        (_EVENT.time, ge, query.since),
        (_EVENT.time, lt, query.until),
        (_EVENT.time, le, query.at),
    )
    if query.tags:  # Neither JSON nor LIKE patterns escape characters that tags can contain.
        words = "|".join(map(re.escape, query.tags))
        tagged = cast(type_coerce(_NOTE.tags, JSON), Text).regexp_match(f'"(?:{words})"')
        found.append(_EVENT.revision.in_(select(_NOTE.revision).where(tagged)))
    return [_of_pools(_EVENT.pool, query.below), _PUTS_POOL, *found]


def _filters(query: ChangesQuery) -> list[Any]:
    found = given((_EVENT.actor, one_of, query.actors), (_EVENT.time, ge, query.since), (_EVENT.time, le, query.until))
    if query.before is not None:
        revision, seq = query.before
        found.append(_EVENT.revision <= revision)
        found.append(or_(_EVENT.revision < revision, _EVENT.seq < seq))
    return found
