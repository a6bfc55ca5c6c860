"""The audit trail of pools as answers."""

from datetime import datetime
from enum import Enum
from typing import Any

from runrig import wire
from runrig.api.osmo.answers.pools import quotas
from runrig.domain.pools import TopologyKey, exit_actions
from runrig.service.queries.history import ChangePage, Edit, PoolAt, PoolChange, PoolThen


def page(pool: str, found: ChangePage) -> wire.PoolHistoryAnswer:
    following = None if found.next is None else f"{found.next[0]}.{found.next[1]}"
    return wire.PoolHistoryAnswer(pool=pool, entries=[_change(entry) for entry in found.entries], next=following)


def pool_at(view: PoolAt) -> wire.PoolAtAnswer:
    return wire.PoolAtAnswer(
        at=_at(view.at), pool=_then(view.pool), subpools=[_then(subpool) for subpool in view.subpools]
    )


def _change(entry: PoolChange) -> wire.PoolChangeAnswer:
    return wire.PoolChangeAnswer(
        revision=entry.revision,
        seq=entry.seq,
        time=_at(entry.time),
        by=entry.by,
        via=entry.via,
        pool=entry.pool,
        what=list(entry.what),
        changes=[edit_shown(each) for each in entry.edits],
    )


def edit_shown(edit: Edit) -> wire.PoolEditAnswer:
    return wire.PoolEditAnswer(
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


def _then(view: PoolThen) -> wire.PoolThenAnswer:
    own, inherited = view.pool, view.settings
    return wire.PoolThenAnswer(
        name=own.name,
        description=own.description,
        state=own.state.value,
        cohort=own.cohort,
        parent=own.parent,
        subpool_name=own.subpool_name,
        subpool_state=None if own.parent is None else own.state.value,
        quotas=quotas(own.quotas),
        quota=view.quota,
        unallocated=view.unallocated,
        queueing=inherited.queueing.value,
        weight=own.weight,
        grace_s=inherited.grace_s,
        flavors=list(inherited.flavors),
        topology_keys=[wire.TopologyKeyModel(key=each.key, label=each.label) for each in inherited.topology_keys],
        default_platform=inherited.default_platform,
        default_exit_actions=exit_actions(inherited.default_exit_actions),
        changed=_change(view.changed),
    )


def _at(seconds: float) -> datetime:
    text = wire.utc(seconds)
    assert text is not None
    return text
