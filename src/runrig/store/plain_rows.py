"""Rows of a backup: allowed values and references.

A backup can come from anywhere, so each row is treated as untrusted and checked before the first one is stored.
"""

import gzip
import math
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import IO, Any

from sqlalchemy import BigInteger, Boolean, Column, Double, Integer, LargeBinary, Table

from runrig.domain.access import Grant
from runrig.domain.errors import InvalidInput
from runrig.domain.pools import SUBPOOL_DELIMITER, name_problem, run_time_problem
from runrig.domain.quantities import LARGEST
from runrig.domain.settings import SETTINGS
from runrig.domain.subjects import pool_of, workflow_of
from runrig.store import schema
from runrig.store.codec import Undecodable, decode, decode_action
from runrig.store.columns import Encoded, OneOf, UtcDateTime, Words
from runrig.store.text import bytes_of, checked_dumps

Fields = Mapping[str, Any]
"""Values of a row, by column."""

LONGEST_LINE = 128 * 1024 * 1024
"""Bytes, for a snapshot of half a million pending workflows."""
MOST_VALUES = 2_000_000
"""In a line. The largest workflow has a tenth of that."""
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}")
_PATH_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_NAMES = {
    schema.workflows: ("name", "pool"),
    schema.groups: ("name",),
    schema.tasks: ("name", "group", "spec"),
    schema.gangs: ("pool",),
    schema.nodes: ("name",),
    schema.flavors: ("name",),
    schema.past_numbers: ("name",),
    schema.pruned: ("workflow",),
}
"""Names that become folders, files or Kubernetes objects, or identify an owner."""
_FROM_ONE = frozenset({"number"})
_FROM_MINUS = frozenset({"exit_code"})


def lines(stream: IO[bytes]) -> Iterator[bytes]:
    """Yields the lines of the gzip file *stream*. Raises Undecodable, before it takes much memory, for a line that would: a small
    file can unpack to any size.
    """
    file = gzip.GzipFile(fileobj=stream, mode="rb")
    while line := file.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE or sum(map(line.count, (b",", b"[", b"{"))) > MOST_VALUES:
            raise Undecodable("a line is too long")
        yield line


def ordering(ours: list[str], theirs: list[str]) -> Callable[[list[Any]], tuple[Any, ...]]:
    """Returns what puts a row into our order of columns: releases with the same tables may name them in different orders."""
    if theirs == ours:
        return tuple
    places = [theirs.index(name) for name in ours]
    return lambda row: tuple(row[at] for at in places) if len(row) == len(places) else tuple(row)


class RowChecker:
    """Checks the rows of a whole backup, in the order of its tables. *revision*: from its header."""

    def __init__(self, revision: int) -> None:
        self._revision = revision
        self._keys: dict[Table, set[tuple[Any, ...]]] = {}
        self._last: dict[Table, tuple[Any, ...]] = {}
        self._own: Mapping[Table, Callable[[Fields], None]] = {
            schema.meta: self._meta,
            schema.events: self._event,
            schema.pools: self._pool,
            schema.cohorts: lambda row: _refuse("name", name_problem("cohort", row["name"])),
            schema.workflows: _workflow,
            schema.gangs: _gang,
            schema.grants: _grant,
        }

    def check(self, table: Table, values: Sequence[Any]) -> None:
        """Raises Undecodable with what is wrong with the row."""
        if len(values) != len(table.columns):
            raise Undecodable(f"{len(values)} fields for {len(table.columns)} columns")
        row = {column.name: _checked(column, value) for column, value in zip(table.columns, values, strict=True)}
        for name in _NAMES.get(table, ()):
            if not _PATH_SAFE.fullmatch(row[name]):
                raise Undecodable(f"{name}: invalid name {row[name]!r:.80}; allowed: letters, digits, '_', '.' and '-'")
        if (own := self._own.get(table)) is not None:
            own(row)
        self._key(table, row)
        self._references(table, row)

    def _key(self, table: Table, row: Fields) -> None:
        key = tuple(row[column.name] for column in table.primary_key)
        # As in a backup: pools after their parents, everything by its key.
        place = (row["parent"] is not None, *key) if table is schema.pools else key
        if table in self._last and place <= self._last[table]:
            raise Undecodable("duplicate or in the wrong place")
        self._last[table] = place
        if table in _NAMED:
            self._keys.setdefault(table, set()).add(key)

    def _references(self, table: Table, row: Fields) -> None:
        for constraint in table.foreign_key_constraints:
            key = tuple(row[column] for column in constraint.column_keys)
            if None not in key and key not in self._keys.get(constraint.referred_table, ()):
                what = " and ".join(
                    f"{name} {value!r:.80}" for name, value in zip(constraint.column_keys, key, strict=True)
                )
                raise Undecodable(f"{what}: no such row in {constraint.referred_table.name}")

    # ------------------------------------------------------------ single tables

    def _meta(self, row: Fields) -> None:
        if row["id"] != 1 or row["revision"] != self._revision:
            raise Undecodable(f"revision: {row['revision']} differs from {self._revision} in the header")

    def _event(self, row: Fields) -> None:
        if not 1 <= row["revision"] <= self._revision:
            raise Undecodable(f"revision: {row['revision']} is not from 1 to {self._revision}")
        action = decode_action(row["kind"], row["action"])
        if (row["workflow"], row["pool"]) != (workflow_of(action), pool_of(action)):
            raise Undecodable("workflow, pool: do not match the action")

    def _pool(self, row: Fields) -> None:
        parent, short = row["parent"], row["subpool_name"]
        if (parent is None) != (short is None) or (parent is None and SUBPOOL_DELIMITER in row["name"]):
            raise Undecodable("parent, subpool_name: a subpool needs both")
        if parent is not None and row["name"] != f"{parent}{SUBPOOL_DELIMITER}{short}":
            raise Undecodable(f"name: {row['name']!r:.80} does not match the subpool {short!r:.80} of {parent!r:.80}")
        _refuse("name", name_problem("pool", short or row["name"]))
        for setting in SETTINGS:
            _refuse(setting.name, setting.kind.problem(row[setting.name]))
        _refuse("default_run_time_s", run_time_problem(row["default_run_time_s"], row["max_run_time_s"]))


_NAMED = frozenset(
    each.referred_table for table in schema.metadata.sorted_tables for each in table.foreign_key_constraints
)


def _workflow(row: Fields) -> None:
    if row["id"] != f"{row['name']}-{row['number']}":
        raise Undecodable(f"id: {row['id']!r:.80} does not match number {row['number']} of {row['name']!r:.80}")
    try:
        uuid.UUID(row["uuid"])
    except ValueError:
        raise Undecodable(f"uuid: {row['uuid']!r:.80} is not a UUID") from None
    if row["status"].finished != (row["end_time"] is not None):
        raise Undecodable(f"end_time: a workflow has one if it has ended, and this one is {row['status'].value}")


def _gang(row: Fields) -> None:
    workflow, _, group = row["id"].partition("/")
    if workflow != row["workflow"] or not _PATH_SAFE.fullmatch(group):
        raise Undecodable(f"id: {row['id']!r:.80} does not match a group of {row['workflow']!r:.80}")


def _grant(row: Fields) -> None:
    try:
        Grant(row["kind"], row["pool"] or None)
    except AssertionError as error:
        raise Undecodable(f"kind, pool: {error}") from None


def _refuse(name: str, problem: str | None) -> None:
    if problem is not None:
        raise Undecodable(f"{name}: {problem}")


# ---------------------------------------------------------------- single fields


def _checked(column: Column[Any], value: Any) -> Any:
    """Returns *value* of a backup as the value of the column. Raises Undecodable."""
    if value is None and column.nullable:
        return None
    try:
        return _value(column, value)
    except (TypeError, ValueError) as error:
        raise Undecodable(f"{column.name}: {error}") from None


def _value(column: Column[Any], value: Any) -> Any:
    match column.type:
        case Words():
            return _text(value)
        case OneOf() as one_of:
            return decode(one_of.members, _text(value))
        case UtcDateTime():
            return _time(_text(value))
        case Encoded() as encoded:
            return decode(encoded.declared, _storable(value))
        case Boolean():
            return _typed(value, bool)
        case LargeBinary():
            return bytes_of(_typed(value, str))
        case Integer() | BigInteger():
            return _whole(column.name, value)
        case Double():
            number = float(_typed(value, int, float))
            return number if math.isfinite(number) and number >= 0 else _wrong(value, "a number of seconds")
    return _storable(value)


def _typed(value: Any, *types: type) -> Any:
    return value if type(value) in types else _wrong(value, " or ".join(each.__name__ for each in types))


def _text(value: Any) -> str:
    return str(_storable(_typed(value, str)))


def _storable(value: Any) -> Any:
    try:
        checked_dumps(value)
    except (InvalidInput, UnicodeEncodeError):
        _wrong(value, "text that can be stored")
    return value


def _time(text: str) -> datetime:
    if not _TIME.fullmatch(text):
        _wrong(text, "a time, such as 2026-01-31 12:00:00.000000")
    return datetime.fromisoformat(text)


def _whole(name: str, value: Any) -> int:
    number: int = _typed(value, int)
    least = -LARGEST - 1 if name in _FROM_MINUS else int(name in _FROM_ONE)
    return number if least <= number <= LARGEST else _wrong(value, f"a whole number from {least} to {LARGEST}")


def _wrong(value: Any, what: str) -> Any:
    raise TypeError(f"{value!r:.80} is not {what}")
