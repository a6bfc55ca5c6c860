"""Pools and cohorts as answers."""

from enum import Enum
from typing import Any

from runrig.domain.pools import TopologyKey, exit_actions
from runrig.domain.shown.pools import declared
from runrig.service.queries.history import ChangePage, Edit, PoolAt, PoolChange, PoolThen
from runrig.wire import v1

# ---------------------------------------------------------------- the audit trail


def changes(found: ChangePage) -> list[v1.PoolChange]:
    return [_change(each) for each in found.entries]


def _change(entry: PoolChange) -> v1.PoolChange:
    return v1.PoolChange(
        revision=entry.revision,
        seq=entry.seq,
        time=v1.at(entry.time),
        by=entry.by,
        via=entry.via,
        pool=entry.pool,
        what=list(entry.what),
        changes=[_edit(each) for each in entry.edits],
    )


def _edit(edit: Edit) -> v1.PoolFieldEdit:
    return v1.PoolFieldEdit(
        field=edit.field,
        resource=None if edit.resource is None else str(edit.resource),
        before=_plain(edit.field, edit.before),
        after=_plain(edit.field, edit.after),
    )


def _plain(field: str, value: object) -> Any:
    """*value* as the same field shows it in the settings of a pool."""
    if field == "default_exit_actions" and isinstance(value, tuple):
        return exit_actions(value)
    match value:
        case Enum():
            return value.value
        case TopologyKey(key, label):
            return {"key": key, "label": label}
        case tuple():
            return [_plain(field, each) for each in value]
    return value


def past(view: PoolAt) -> v1.PoolPast:
    return v1.PoolPast(at=v1.at(view.at), pool=_then(view.pool), subpools=[_then(subpool) for subpool in view.subpools])


def _then(view: PoolThen) -> v1.PoolThen:
    return v1.PoolThen(
        **declared(view.pool, view.settings),
        quota=view.quota,
        unallocated=view.unallocated,
        changed=_change(view.changed),
    )
