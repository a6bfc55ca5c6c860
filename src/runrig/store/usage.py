"""Usage in the database: sums per hour and day, and how far the log is folded into them."""

import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, and_, delete, func, insert, or_, select
from sqlalchemy import literal as constant

from runrig.domain.pools import SUBPOOL_DELIMITER
from runrig.domain.records import Event, Loaded
from runrig.domain.usage import (
    COLUMNS,
    FLAVOR,
    HOUR_S,
    KEYS,
    MICROSECONDS,
    QUOTA,
    TOTALS,
    TREE,
    WORK,
    Folded,
    Hour,
    Key,
    Sums,
    totals,
)
from runrig.ports.past import Declared
from runrig.ports.usage import Position, Summed, SumsQuery
from runrig.store import schema
from runrig.store.checkpoints import cluster_of, gangs_of, packed_cluster, packed_gangs
from runrig.store.codec import dumps, loads
from runrig.store.dialect import insert_rows, put_rows
from runrig.store.past import STEPS
from runrig.store.rows import Row, event_of
from runrig.store.transactions import Tables

DAY_S = 24 * HOUR_S
TABLES: Mapping[str, Table] = {
    WORK: schema.usage_work,
    QUOTA: schema.usage_quota,
    TREE: schema.usage_tree,
    FLAVOR: schema.usage_flavor,
    TOTALS[WORK]: schema.usage_work_total,
    TOTALS[QUOTA]: schema.usage_quota_total,
}
_CURSOR = schema.usage_cursor.c
_KEY = schema.usage_keys.c
_NAMES = KEYS[WORK]
_EVENT = schema.events.c
_WORKFLOW = schema.workflows.c
_AT_ONCE = 500
_PART = 2**31

Rows = Mapping[str, Sequence[Row]]
"""By table: the key and the amounts of each row."""


class SqlUsage(Tables):
    """`ports.usage.UsageStore`."""

    # ------------------------------------------------------------ the position

    def position(self) -> Position | None:
        with self._transactions.reading() as connection:
            row = connection.execute(select(schema.usage_cursor)).one_or_none()
        if row is None:
            return None
        declared, rest = cluster_of(row.cluster), loads(zlib.decompress(row.rest))
        gangs = gangs_of(row.gangs, [node.name for node in declared.nodes])
        cluster = Loaded(row.revision, declared.flavors, declared.nodes, declared.cohorts, declared.pools, gangs=gangs)
        sums = {tuple(key): amount for *key, amount in rest["open"]}
        return Position(Folded(cluster, row.at, rest["users"], rest["causes"], sums), row.since, row.version)

    def save(self, position: Position, hours: Iterable[Hour], *, keep_hours: int, keep_days: int) -> None:
        # All rows are encoded first: commits of the server wait for this transaction.
        folded, cursor, (keys, written) = position.folded, _row(position), self._encoded((1, hour) for hour in hours)
        with self._transactions.writing() as connection:
            before = connection.execute(select(_CURSOR.at)).scalar_one_or_none()
            put_rows(connection, schema.usage_keys, keys)
            for hour in written:
                _write(connection, *hour)
            day = _day((position.since if before is None else before) // MICROSECONDS)
            for begin in range(day, _day(folded.at // MICROSECONDS), DAY_S):
                _add_up(connection, begin)
            for table in TABLES.values():
                for length, keep in ((1, keep_hours), (24, keep_days)):
                    connection.execute(delete(table).where(table.c.hours == length, table.c.begin < keep))
            unused = _KEY.day <= min(keep_hours, keep_days) - DAY_S
            connection.execute(delete(schema.usage_keys).where(unused))
            _move(connection, cursor)

    def stored(self, hours: int, begin: int) -> Sums:
        found: dict[Key, int] = {}
        with self._transactions.reading() as connection:
            for name, table in TABLES.items():
                keys, columns = [_KEY[key] for key in KEYS[name]], COLUMNS[name]
                rows = select(*keys, *(table.c[column] for column in columns)).where(table.c.key == _KEY.id)
                for row in connection.execute(rows.where(table.c.hours == hours, table.c.begin == begin)):
                    sums = zip(columns, row[len(keys) :], strict=True)
                    found.update(((name, *row[: len(keys)], column), amount) for column, amount in sums if amount)
        return found

    def replace(self, position: Position, sums: Iterable[tuple[int, Hour]]) -> None:
        cursor, (keys, written) = _row(position), self._encoded(sums)
        with self._transactions.writing() as connection:
            put_rows(connection, schema.usage_keys, keys)
            for hour in written:
                _write(connection, *hour)
            _move(connection, cursor)

    def _encoded(self, sums: Iterable[tuple[int, Hour]]) -> tuple[list[Row], list[tuple[int, int, Rows]]]:
        """Returns the rows of keys that are new or have a later day, and (hours, begin, rows) of the *sums*."""
        with self._transactions.reading() as connection:
            known = {tuple(row[2:]): (row[0], row[1]) for row in connection.execute(select(schema.usage_keys))}
        free, changed = count(1 + max((id for id, _ in known.values()), default=0)), set[tuple[str, ...]]()
        written = list[tuple[int, int, Rows]]()
        for hours, hour in sums:
            rows, day = _rows(hour), _day(hour.begin)
            for names in sorted({names for each in rows.values() for names, _ in each}):
                id, last = known.get(names) or (next(free), -1)
                if last < day:
                    known[names] = id, day
                    changed.add(names)
            # In the order of the primary key, which fills the pages of SQLite.
            ordered = {
                name: sorted((known[names][0], *amounts) for names, amounts in each) for name, each in rows.items()
            }
            written.append((hours, hour.begin, ordered))
        return [(*known[names], *names) for names in sorted(changed)], written

    def log_is_whole(self) -> bool:
        with self._transactions.reading() as connection:
            gone = select(schema.past_numbers.c.name).limit(1)
            return connection.execute(gone).first() is None

    def unfolded_since(self) -> float | None:
        revision = select(_CURSOR.revision).scalar_subquery()
        first = (
            select(_EVENT.time)
            .where(_EVENT.revision > revision, _EVENT.kind.in_(STEPS))
            .order_by(_EVENT.revision, _EVENT.seq)
            .limit(1)
        )
        with self._transactions.reading() as connection:
            found: float | None = connection.execute(first).scalar_one_or_none()
        return found

    # ------------------------------------------------------------ the log

    def steps(self, after: int, limit: int) -> tuple[Event, ...]:
        found = select(schema.events).where(_EVENT.revision > after, _EVENT.kind.in_(STEPS))
        found = found.order_by(_EVENT.revision, _EVENT.seq)
        with self._transactions.reading() as connection:
            rows = list(connection.execute(found.limit(limit)).mappings())
            if len(rows) == limit:
                last = rows[-1]
                rest = found.where(_EVENT.revision == last["revision"], _EVENT.seq > last["seq"])
                rows += connection.execute(rest).mappings()
            return tuple(event_of(row) for row in rows)

    def submitters(self, workflows: Collection[str]) -> Mapping[str, str]:
        ids, found = sorted(workflows), dict[str, str]()
        with self._transactions.reading() as connection:
            for at in range(0, len(ids), _AT_ONCE):
                those = _WORKFLOW.id.in_(ids[at : at + _AT_ONCE])
                rows = connection.execute(select(_WORKFLOW.id, _WORKFLOW.submitted_by).where(those))
                found.update((row[0], row[1]) for row in rows)
        return found

    # ------------------------------------------------------------ sums

    def sums(self, query: SumsQuery) -> Sequence[Summed]:
        table = TABLES[_shortest(query)]
        bucket: ColumnElement[int] = constant(query.begin)
        if query.buckets is not None:
            bucket = table.c.begin if query.buckets == HOUR_S else table.c.begin - table.c.begin % query.buckets
        keys = [_KEY[name] for name in query.by]
        groups = keys if query.buckets is None else [bucket, *keys]
        statement = (
            select(bucket, *keys, *(part for name in COLUMNS[query.table] for part in _summed(table.c[name])))
            .where(table.c.key == _KEY.id, *_filters(query))
            .group_by(*groups)
        )
        if not groups:
            statement = statement.having(func.count() > 0)
        with self._transactions.reading() as connection:
            closed = connection.execute(select(_CURSOR.at)).scalar_one_or_none() or 0
            rows = connection.execute(statement.where(_spans(table, query, _day(closed // MICROSECONDS)))).all()
        width = 1 + len(keys)
        return [(int(row[0]), tuple(row[1:width]), tuple(_whole(row[width:]))) for row in rows]


def _summed(column: ColumnElement[int]) -> tuple[ColumnElement[int], ColumnElement[int]]:
    """The sum of *column* in two parts: SQLite fails where a sum does not fit in 64 bits."""
    return func.sum(column // _PART), func.sum(column % _PART)


def _whole(parts: Sequence[Any]) -> Iterator[int]:
    """The sums of such parts. PostgreSQL adds up BIGINT as NUMERIC."""
    return (int(high) * _PART + int(low) for high, low in zip(parts[::2], parts[1::2], strict=True))


def _day(seconds: int) -> int:
    return seconds - seconds % DAY_S


def _row(position: Position) -> Row:
    folded, cluster = position.folded, position.folded.cluster
    rest = {
        "users": dict(folded.users),
        "causes": dict(folded.causes),
        "open": [[*key, amount] for key, amount in sorted(folded.open.items())],
    }
    names = [node.name for node in cluster.nodes]
    declared = packed_cluster(Declared(cluster.flavors, cluster.nodes, cluster.cohorts, cluster.pools))
    gangs, packed = packed_gangs(cluster.gangs, names), zlib.compress(dumps(rest).encode())
    return 1, folded.revision, folded.at, position.since, position.version, declared, gangs, packed


def _rows(hour: Hour) -> Mapping[str, Sequence[tuple[tuple[str, ...], Sequence[int]]]]:
    """By table: the names and the amounts of each row."""
    found: dict[tuple[str, ...], dict[str, int]] = {}
    for (*key, column), amount in (*hour.sums.items(), *totals(hour.sums).items()):
        found.setdefault(tuple(key), {})[column] = amount
    rows: dict[str, list[tuple[tuple[str, ...], Sequence[int]]]] = {name: [] for name in TABLES}
    for (name, *key), sums in found.items():
        named = dict(zip(KEYS[name], key, strict=True))
        names = tuple(named.get(each, "") for each in _NAMES)
        rows[name].append((names, [sums.get(column, 0) for column in COLUMNS[name]]))
    return rows


def _move(connection: Connection, cursor: Row) -> None:
    connection.execute(delete(schema.usage_cursor))
    connection.execute(insert(schema.usage_cursor).values(cursor))


def _write(connection: Connection, hours: int, begin: int, rows: Rows) -> None:
    """Replaces the sums of an hour or day."""
    for name, table in TABLES.items():
        connection.execute(delete(table).where(table.c.hours == hours, table.c.begin == begin))
        insert_rows(connection, table, [(hours, begin, *row) for row in rows[name]])


def _add_up(connection: Connection, day: int) -> None:
    """Writes the sums of a day from those of its hours, which are all closed."""
    for name, table in TABLES.items():
        connection.execute(delete(table).where(table.c.hours == 24, table.c.begin == day))
        sums = [func.sum(table.c[column]) for column in COLUMNS[name]]
        of_day = and_(table.c.hours == 1, table.c.begin >= day, table.c.begin < day + DAY_S)
        rows = select(constant(24), constant(day), table.c.key, *sums).where(of_day).group_by(table.c.key)
        connection.execute(insert(table).from_select(table.columns.keys(), rows))


def _shortest(query: SumsQuery) -> str:
    """The table with the fewest rows that has the answer."""
    asked = {*query.by, *(name for name, values in query.others.items() if values)}
    return TOTALS.get(query.table, query.table) if asked <= {"flavor"} and not query.pools else query.table


def _spans(table: Table, query: SumsQuery, closed: int) -> ColumnElement[bool]:
    """Selects the whole days of the query, and the hours before and after them. *closed*: when the last day that is added up ends."""
    hours, begin = table.c.hours, table.c.begin
    if query.buckets == HOUR_S:
        return and_(hours == 1, begin >= query.begin, begin < query.end)
    first, last = -_day(-query.begin), min(_day(query.end), closed)
    if first >= last:
        return and_(hours == 1, begin >= query.begin, begin < query.end)
    return or_(
        and_(hours == 24, begin >= first, begin < last),
        and_(hours == 1, begin >= query.begin, begin < first),
        and_(hours == 1, begin >= last, begin < query.end),
    )


def _filters(query: SumsQuery) -> list[Any]:
    found: list[Any] = [_KEY[name].in_(values) for name, values in query.others.items() if values]
    if query.pools:
        names = _KEY.pool
        below = (names.startswith(f"{pool}{SUBPOOL_DELIMITER}", autoescape=True) for pool in query.pools)
        found.append(or_(names.in_(query.pools), *below))
    return found
