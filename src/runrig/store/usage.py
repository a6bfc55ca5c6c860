"""Usage in the database: sums per hour and day, and how far the log is folded into them."""

import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, count
from operator import sub
from struct import error as struct_error
from struct import pack, unpack

from sqlalchemy import ColumnElement, Connection, and_, delete, insert, or_, select

from runrig.domain.quantities import LARGEST
from runrig.domain.records import Event, Loaded
from runrig.domain.usage import (
    COLUMNS,
    DAY_S,
    HOUR_S,
    KEYS,
    MICROSECONDS,
    TOTALS,
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
from runrig.store.codec import dumps, loads, unpacked
from runrig.store.dialect import insert_rows, put_rows
from runrig.store.filters import below
from runrig.store.log import EVENTS, whole_revisions
from runrig.store.past import STEPS
from runrig.store.rows import Row
from runrig.store.transactions import Tables, in_parts

_CURSOR = schema.usage_cursor.c
_KEY = schema.usage_keys.c
_SUMS = schema.usage_sums.c
_NAMES = KEYS[WORK]
_EVENT = schema.events.c
_WORKFLOW = schema.workflows.c
_AT_ONCE = 500

Amounts = Sequence[Counter[int]]
"""For each column of a table: id of a key → sum."""

Rows = dict[tuple[int, int], list[Row]]
"""(hours, begin) → the rows of that hour or day."""


class SqlUsage(Tables):
    """`ports.usage.UsageStore`."""

    # ------------------------------------------------------------ the position

    def position(self) -> Position | None:
        if not (rows := self._rows(select(schema.usage_cursor))):
            return None
        (row,) = rows
        declared, rest = cluster_of(row.cluster), loads(unpacked(row.rest))
        gangs = gangs_of(row.gangs, [node.name for node in declared.nodes])
        cluster = Loaded(row.revision, declared.flavors, declared.nodes, declared.cohorts, declared.pools, gangs=gangs)
        sums = {tuple(key): amount for *key, amount in rest["open"]}
        return Position(Folded(cluster, row.at, rest["users"], rest["causes"], sums), row.since, row.version)

    def save(self, position: Position, hours: Iterable[Hour], *, keep_hours: int, keep_days: int) -> None:
        # All rows are encoded first: commits of the server wait for this transaction.
        cursor, (keys, written) = _row(position), self._encoded((1, hour) for hour in hours)
        written |= self._days(written, keep_days, _day(position.folded.at // MICROSECONDS), position.since)
        written = {at: rows for at, rows in written.items() if at[1] >= (keep_hours if at[0] == 1 else keep_days)}
        with self._transactions.writing() as connection:
            _write(connection, keys, written, cursor)
            for length, keep in ((1, keep_hours), (24, keep_days)):
                connection.execute(delete(schema.usage_sums).where(_SUMS.hours == length, _SUMS.begin < keep))
            unused = _KEY.day <= min(keep_hours, keep_days) - DAY_S
            connection.execute(delete(schema.usage_keys).where(unused))

    def replace(self, position: Position, sums: Iterable[tuple[int, Hour]]) -> None:
        cursor, (keys, written) = _row(position), self._encoded(sums)
        with self._transactions.writing() as connection:
            _write(connection, keys, written, cursor)

    def stored(self, hours: int, begin: int) -> Sums:
        found: dict[Key, int] = {}
        with self._transactions.reading() as connection:
            rows = connection.execute(
                select(_SUMS.name, _SUMS.packed).where(
                    _SUMS.name.in_(COLUMNS), _SUMS.hours == hours, _SUMS.begin == begin
                )
            )
            tables = {name: _unpacked(name, packed) for name, packed in rows}
            names = _names_of(connection, {id for ids, _ in tables.values() for id in ids})
        for name, (ids, columns) in tables.items():
            for column, amounts in zip(COLUMNS[name], columns, strict=True):
                for id, amount in zip(ids, amounts, strict=True):
                    if amount and id in names:
                        found[(name, *(names[id][_NAMES.index(key)] for key in KEYS[name]), column)] = amount
        return found

    def _encoded(self, sums: Iterable[tuple[int, Hour]]) -> tuple[list[Row], Rows]:
        """Returns the rows of keys that are new or have a later day, and the rows of the *sums*."""
        known = {tuple(row[2:]): (row[0], row[1]) for row in self._rows(select(schema.usage_keys))}
        free, changed = count(1 + max((id for id, _ in known.values()), default=0)), set[tuple[str, ...]]()
        written = Rows()
        for hours, hour in sums:
            whole, day = {**hour.sums, **totals(hour.sums)}, _day(hour.begin)
            named = {key: _named(key) for key in whole}
            for names in sorted(set(named.values())):
                id, last = known.get(names) or (next(free), -1)
                if last < day:
                    known[names] = id, day
                    changed.add(names)
            tables = _nothing_summed()
            for key, amount in whole.items():
                tables[key[0]][COLUMNS[key[0]].index(key[-1])][known[named[key]][0]] = amount
            written[hours, hour.begin] = _rows(hours, hour.begin, tables)
        return [(*known[names], *names) for names in sorted(changed)], written

    def _days(self, hours: Rows, begin: int, end: int, since: int) -> Rows:
        """The sums of the days from *begin* to *end* that are not added up yet, from those of their hours, which are all closed."""
        found, of_days = Rows(), defaultdict[int, list[Row]](list)
        for (_, hour), of in hours.items():
            of_days[_day(hour)] += of
        with self._transactions.reading() as connection:
            before = connection.execute(select(_CURSOR.at)).scalar_one_or_none()
            first = _day((since if before is None else before) // MICROSECONDS)
            for day in range(max(begin, first), end, DAY_S):
                of_day = and_(_SUMS.name.in_(COLUMNS), _SUMS.hours == 1, _SUMS.begin >= day, _SUMS.begin < day + DAY_S)
                stored = connection.execute(select(schema.usage_sums).where(of_day)).all()
                rows = [tuple(row) for row in stored if (1, row.begin) not in hours]
                tables = _nothing_summed()
                for name, _, _, packed in rows + of_days[day]:
                    _add(tables[name], *_unpacked(name, packed))
                found[24, day] = _rows(24, day, tables)
        return found

    def log_is_whole(self) -> bool:
        return self._value(select(schema.past_numbers.c.name).limit(1)) is None

    def unfolded_since(self) -> float | None:
        revision = select(_CURSOR.revision).scalar_subquery()
        first = (
            select(_EVENT.time)
            .where(_EVENT.revision > revision, _EVENT.kind.in_(STEPS))
            .order_by(_EVENT.revision, _EVENT.seq)
            .limit(1)
        )
        return self._value(first)

    # ------------------------------------------------------------ the log

    def steps(self, after: int, limit: int) -> tuple[Event, ...]:
        with self._transactions.reading() as connection:
            return whole_revisions(connection, EVENTS.where(_EVENT.revision > after, _EVENT.kind.in_(STEPS)), limit)

    def submitters(self, workflows: Collection[str]) -> Mapping[str, str]:
        found = dict[str, str]()
        with self._transactions.reading() as connection:
            for ids in in_parts(sorted(workflows)):
                those = select(_WORKFLOW.id, _WORKFLOW.submitted_by).where(_WORKFLOW.id.in_(ids))
                found.update(connection.execute(those).all())
        return found

    # ------------------------------------------------------------ sums

    def sums(self, query: SumsQuery) -> Sequence[Summed]:
        table = _shortest(query)
        buckets = defaultdict[int, Amounts](lambda: [Counter() for _ in COLUMNS[table]])
        groups = dict[tuple[str, ...], int]()
        with self._transactions.reading() as connection:
            keys = select(_KEY.id, *(_KEY[name] for name in query.by)).where(*_filters(table, query))
            # Several ids can have the same group.
            group = {id: groups.setdefault(tuple(names), len(groups)) for id, *names in connection.execute(keys)}
            closed = connection.execute(select(_CURSOR.at)).scalar_one_or_none() or 0
            rows = select(_SUMS.begin, _SUMS.packed).where(
                _SUMS.name == table, _spans(query, _day(closed // MICROSECONDS))
            )
            for begin, packed in connection.execute(rows.execution_options(yield_per=_AT_ONCE)):
                bucket = query.begin if query.buckets is None else begin - begin % query.buckets
                ids, columns = _unpacked(table, packed)
                _add(buckets[bucket], [group.get(id, -1) for id in ids], columns)
        names = list(groups)
        return [
            (bucket, names[at], tuple(column[at] for column in amounts))
            for bucket, amounts in buckets.items()
            for at in sorted(set().union(*amounts) - {-1})
        ]


def _nothing_summed() -> dict[str, Amounts]:
    return {table: [Counter() for _ in columns] for table, columns in COLUMNS.items()}


def _add(amounts: Amounts, keys: Sequence[int], columns: Iterable[Sequence[int]]) -> None:
    """Adds the rows with *keys* to the *amounts*."""
    for found, column in zip(amounts, columns, strict=True):
        for key, amount in zip(keys, column, strict=True):
            if amount:
                found[key] += amount


def _packed(amounts: Amounts) -> bytes:
    """All ids, each as the difference from the one before, then column by column: this compresses well. A sum of more than 64 bits
    counts as the largest.
    """
    ids = sorted(set().union(*amounts))
    numbers = [*map(sub, ids, [0, *ids]), *(min(column[id], LARGEST) for column in amounts for id in ids)]
    return zlib.compress(pack(f"<{len(numbers)}q", *numbers))


def _unpacked(table: str, packed: bytes) -> tuple[Sequence[int], Sequence[Sequence[int]]]:
    """Returns the ids, and for each column their sums. A damaged row has none, and does not stop others: `admin usage check` finds it."""
    parts = 1 + len(COLUMNS[table])
    numbers: Sequence[int] = ()
    with suppress(zlib.error, struct_error, TypeError):
        data = zlib.decompress(packed)
        numbers = unpack(f"<{len(data) // 8}q", data)
    rows = 0 if len(numbers) % parts else len(numbers) // parts
    return [*accumulate(numbers[:rows])], [numbers[at * rows : (at + 1) * rows] for at in range(1, parts)]


def _names_of(connection: Connection, ids: Collection[int]) -> dict[int, tuple[str, ...]]:
    found = dict[int, tuple[str, ...]]()
    for some in in_parts(sorted(ids)):
        rows = select(_KEY.id, *(_KEY[name] for name in _NAMES)).where(_KEY.id.in_(some))
        found |= {row[0]: tuple(row[1:]) for row in connection.execute(rows)}
    return found


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


def _named(key: Key) -> tuple[str, ...]:
    """The names of a sum, "" for those that its table does not have."""
    of = dict(zip(KEYS[key[0]], key[1:-1], strict=True))
    return tuple(of.get(name, "") for name in _NAMES)


def _rows(hours: int, begin: int, tables: Mapping[str, Amounts]) -> list[Row]:
    return [(name, hours, begin, _packed(amounts)) for name, amounts in tables.items() if any(amounts)]


def _write(connection: Connection, keys: Sequence[Row], rows: Rows, cursor: Row) -> None:
    """Replaces the sums of hours and days, and the position."""
    put_rows(connection, schema.usage_keys, keys)
    for hours, begin in rows:
        connection.execute(delete(schema.usage_sums).where(_SUMS.hours == hours, _SUMS.begin == begin))
    insert_rows(connection, schema.usage_sums, [row for of in rows.values() for row in of])
    connection.execute(delete(schema.usage_cursor))
    connection.execute(insert(schema.usage_cursor).values(cursor))


def _shortest(query: SumsQuery) -> str:
    """The table with the fewest sums that has the answer."""
    asked = {*query.by, *(name for name, values in query.others.items() if values)}
    return TOTALS.get(query.table, query.table) if asked <= {"flavor"} and not query.pools else query.table


def _spans(query: SumsQuery, closed: int) -> ColumnElement[bool]:
    """Selects the whole days of the query, and the hours before and after them. *closed*: when the last day that is added up ends."""
    hours, begin = _SUMS.hours, _SUMS.begin
    first, last = -_day(-query.begin), min(_day(query.end), closed)
    if query.buckets == HOUR_S or first >= last:
        return and_(hours == 1, begin >= query.begin, begin < query.end)
    return or_(
        and_(hours == 24, begin >= first, begin < last),
        and_(hours == 1, begin >= query.begin, begin < first),
        and_(hours == 1, begin >= last, begin < query.end),
    )


def _filters(table: str, query: SumsQuery) -> list[ColumnElement[bool]]:
    found = [_KEY[name] == "" for name in _NAMES if name not in KEYS[table]]
    found += [_KEY[name].in_(values) for name, values in query.others.items() if values]
    if query.pools:
        found.append(below(_KEY.pool, query.pools))
    return found
