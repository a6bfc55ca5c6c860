"""Domain records ⇄ table rows. Columns are the fields; only a gang is flattened into one row."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from sqlalchemy import RowMapping, Table

from runrig.domain.budgets import Spent
from runrig.domain.gangs import Gang
from runrig.domain.limits import Limits
from runrig.domain.nodes import Flavor, Node
from runrig.domain.pools import Cohort, Pool
from runrig.domain.records import Event, GangRow, Note
from runrig.domain.subjects import pool_of, workflow_of
from runrig.domain.times import FOLLOWS
from runrig.domain.workflows import Group, Task, Workflow
from runrig.store import schema
from runrig.store.codec import decode_action, encode_action

Row = tuple[Any, ...]
"""Values in the order of the table's columns."""


@dataclass(frozen=True, slots=True)
class RowKind:
    """How one class of records is stored. The primary key of *table* is the key of a change, in the same order.

    *of_columns*: creates records from the values of their fields, by column.
    """

    table: Table
    to_row: Callable[[Any], Row]
    of_row: Callable[[RowMapping], Any]
    of_columns: Callable[[Mapping[str, Iterable[Any]]], Iterable[Any]]


def same_fields(record: type, table: Table) -> RowKind:
    """The kind of a record whose fields are the columns of *table*."""
    fields = dataclasses.fields(record)
    names = tuple(field.name for field in fields)
    by_name = any(field.kw_only for field in fields)
    make: Callable[..., Any] = (lambda *values: record(**dict(zip(names, values, strict=True)))) if by_name else record
    return RowKind(
        table,
        attrgetter(*table.columns.keys()),
        lambda row: record(**{name: row[name] for name in names}),
        lambda columns: map(make, *(columns[name] for name in names)),
    )


_GANG = tuple(field.name for field in dataclasses.fields(Gang) if not field.metadata.get(FOLLOWS))
_GANG_ROW = tuple(field.name for field in dataclasses.fields(GangRow) if field.name != "gang")
_of_gang = attrgetter(*(name if name in _GANG_ROW else f"gang.{name}" for name in schema.gangs.columns.keys()))  # noqa: SIM118


def _to_gang(row: RowMapping) -> GangRow:
    return GangRow(Gang(**{name: row[name] for name in _GANG}), **{name: row[name] for name in _GANG_ROW})


def _to_gangs(columns: Mapping[str, Iterable[Any]]) -> Iterable[GangRow]:
    return map(GangRow, map(Gang, *(columns[name] for name in _GANG)), *(columns[name] for name in _GANG_ROW))


KINDS: Mapping[str, RowKind] = {
    "Flavor": same_fields(Flavor, schema.flavors),
    "Node": same_fields(Node, schema.nodes),
    "Cohort": same_fields(Cohort, schema.cohorts),
    "Pool": same_fields(Pool, schema.pools),
    "Limits": same_fields(Limits, schema.limits),
    "Spent": same_fields(Spent, schema.spent),
    "Workflow": same_fields(Workflow, schema.workflows),
    "Group": same_fields(Group, schema.groups),
    "Task": same_fields(Task, schema.tasks),
    "GangRow": RowKind(schema.gangs, _of_gang, _to_gang, _to_gangs),
    "Note": same_fields(Note, schema.notes),
}
"""Kinds by the name of the record's class, each after those it refers to."""


def event_row(event: Event) -> Row:
    action = event.action
    kind, plain = encode_action(action)
    whose = workflow_of(action), pool_of(action)
    return event.revision, event.seq, event.time, event.actor, kind, plain, event.law, *whose


def event_of(row: RowMapping) -> Event:
    action = decode_action(row["kind"], row["action"])
    return Event(row["revision"], row["seq"], row["time"], row["actor"], action, row["law"])
