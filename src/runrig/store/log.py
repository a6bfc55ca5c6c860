"""The event log: of one workflow, of one pool, or complete.

Changes of pools are read from the index on (pool, revision, seq), so the cost depends on these changes, not on the
length of the log.
"""

import re
from collections.abc import Collection
from functools import cache
from itertools import groupby
from typing import Any

from sqlalchemy import JSON, Connection, Select, Text, and_, bindparam, cast, func, or_, select, type_coerce

from runrig.domain.errors import Conflict, NotFound
from runrig.domain.plan import DropCohort, PutCohort, PutPool, SetFlavors
from runrig.domain.pools import SUBPOOL_DELIMITER
from runrig.domain.records import Event, Note
from runrig.ports.store import ChangesQuery, RevisionsQuery
from runrig.store import chain, retention, schema
from runrig.store.dialect import put_rows
from runrig.store.rows import event_of
from runrig.store.transactions import Tables

_EVENT = schema.events.c
_POOL = schema.pools.c
_NOTE = schema.notes.c


@cache
def _events_of(a_workflow: bool, a_pool: bool, some_actions: bool) -> Select[Any]:
    """Selects events in order, after revision `after`, optionally of `workflow`, `pool` and `actions`. Built once,
    because building it costs more than running it.
    """
    statement = select(schema.events).where(_EVENT.revision > bindparam("after"), retention.counts())
    if a_workflow:
        statement = statement.where(_EVENT.workflow == bindparam("workflow"))
    if a_pool:
        statement = statement.where(_EVENT.pool == bindparam("pool"))
    if some_actions:
        statement = statement.where(_EVENT.kind.in_(bindparam("actions", expanding=True)))
    return statement.order_by(_EVENT.revision, _EVENT.seq)


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
            page = statement if limit is None else statement.limit(limit)
            rows = connection.execute(page, values).mappings().all()
            if limit is not None and rows and len(rows) == limit:
                last = rows[-1]
                rest = statement.where(_EVENT.revision == last["revision"], _EVENT.seq > last["seq"])
                rows = [*rows, *connection.execute(rest, values).mappings()]
            return tuple(event_of(row) for row in rows)

    def latest(self, workflow: str, most: int) -> tuple[tuple[Event, ...], int]:
        counted = select(func.count()).where(_EVENT.workflow == workflow, retention.counts())
        statement = _events_of(True, False, False).order_by(None).order_by(_EVENT.revision.desc(), _EVENT.seq.desc())
        with self._transactions.reading() as connection:
            rows = connection.execute(statement.limit(most), {"after": 0, "workflow": workflow}).mappings().all()
            return tuple(event_of(row) for row in reversed(rows)), connection.execute(counted).scalar_one()

    def last_time(self) -> float | None:
        newest = select(_EVENT.time).order_by(_EVENT.revision.desc(), _EVENT.seq.desc()).limit(1)
        with self._transactions.reading() as connection:
            found: float | None = connection.execute(newest).scalar_one_or_none()
        return found

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
            events = _with_keys(connection, page.limit(query.limit + 1))
        return events[: query.limit], len(events) > query.limit

    def cohort_changes(self) -> tuple[Event, ...]:
        return self._of_kind(PutCohort)

    def declarations(self, *, after: int) -> tuple[Event, ...]:
        return self._of_kind(PutPool, PutCohort, DropCohort, SetFlavors, after=after)

    def _of_kind(self, *actions: type, after: int = 0) -> tuple[Event, ...]:
        """O(changes of the cluster): the index on workflows skips all events of workflows."""
        kinds = [action.__name__ for action in actions]
        statement = (
            select(schema.events)
            .where(_EVENT.workflow.is_(None), _EVENT.kind.in_(kinds), _EVENT.revision > after)
            .order_by(_EVENT.revision, _EVENT.seq)
        )
        with self._transactions.reading() as connection:
            return tuple(event_of(row) for row in connection.execute(statement).mappings())

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
            statement = (
                select(schema.events)
                .where(_EVENT.revision.in_(found), _PUTS_POOL, _of_pools(_EVENT.pool, query.below))
                .order_by(_EVENT.revision, _EVENT.seq)
            )
            events = (event_of(row) for row in connection.execute(statement).mappings())
            changes = {revision: tuple(each) for revision, each in groupby(events, lambda event: event.revision)}
        return tuple((changes[revision], notes.get(revision)) for revision in found)

    def pools_after(self, revision: int, below: tuple[str, ...] | None) -> tuple[Event, ...]:
        newest = (
            select(func.max(_EVENT.revision))
            .where(_EVENT.pool == _POOL.name, _PUTS_POOL, _EVENT.revision <= revision)
            .correlate(schema.pools)
            .scalar_subquery()
        )
        last = select(_POOL.name, newest.label("revision")).where(_of_pools(_POOL.name, below)).subquery()
        statement = (
            select(schema.events)
            .join(last, and_(_EVENT.pool == last.c.name, _PUTS_POOL, _EVENT.revision == last.c.revision))
            .order_by(_EVENT.revision, _EVENT.seq)
        )
        with self._transactions.reading() as connection:
            return tuple(event_of(row) for row in connection.execute(statement).mappings())

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
    return tuple(event_of(row) for row in connection.execute(statement).mappings())


_PUTS_POOL = _EVENT.kind == PutPool.__name__
"""The event changes its pool. Records of its budget are in the log too."""


def _of_pool(name: str, *, alone: bool) -> Any:
    if alone:
        return and_(_EVENT.pool == name, _PUTS_POOL)
    names = select(_POOL.name).where(or_(_POOL.name == name, _POOL.parent == name))
    return and_(_EVENT.pool.in_(names), _PUTS_POOL)


def _of_pools(name: Any, below: tuple[str, ...] | None) -> Any:
    """Returns a condition: column *name* names a pool; with *below*, one of these top-level pools or their subpools."""
    if below is None:
        return name.is_not(None)
    subpools = (name.startswith(f"{top}{SUBPOOL_DELIMITER}", autoescape=True) for top in below)
    return or_(name.in_(below), *subpools)


def _revision_filters(query: RevisionsQuery) -> list[Any]:
    filters: list[Any] = [_of_pools(_EVENT.pool, query.below), _PUTS_POOL]
    if query.name is not None:
        filters.append(_EVENT.pool == query.name)
    if query.revision is not None:
        filters.append(_EVENT.revision == query.revision)
    if query.tags:  # Neither JSON nor LIKE patterns escape characters that tags can contain.
        words = "|".join(map(re.escape, query.tags))
        tagged = cast(type_coerce(_NOTE.tags, JSON), Text).regexp_match(f'"(?:{words})"')
        filters.append(_EVENT.revision.in_(select(_NOTE.revision).where(tagged)))
    if query.since is not None:
        filters.append(_EVENT.time >= query.since)
    if query.until is not None:
        filters.append(_EVENT.time < query.until)
    if query.at is not None:
        filters.append(_EVENT.time <= query.at)
    return filters


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
