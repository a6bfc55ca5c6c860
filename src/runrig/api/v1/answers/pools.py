"""Pools and cohorts as answers."""

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

from runrig.api.shown.pools import balances, quotas
from runrig.domain.pools import Pool, TopologyKey, exit_actions
from runrig.service.commands.pool_steps import Deleted
from runrig.service.queries.history import ChangePage, Edit, PoolAt, PoolChange, PoolThen
from runrig.service.queries.resource_queries import CohortView, NodeSet, PoolView, TreeView
from runrig.wire import v1
from runrig.wire.pools import TopologyKeyModel


def with_sets(node_sets: Iterable[NodeSet]) -> Iterator[tuple[PoolView, str]]:
    """Yields each pool with the name of its set."""
    for node_set in node_sets:
        for view in node_set.pools:
            yield view, node_set.pools[0].pool.name


def pool(view: PoolView, backend: str, node_set: str | None = None) -> v1.Pool:
    """*node_set* None: the pool was looked at alone."""
    own, balance = view.pool, view.balance
    return v1.Pool(
        **_declared(own, view.settings),
        backend=backend,
        subpools=list(view.subpools),
        workflows=view.workflows,
        gpus=v1.PoolGpus(**balance._asdict() | {"shared": dict(balance.shared)}),
        nodes=v1.NodeShare(set=node_set or own.name, gpus=view.totals.capacity, free_gpus=view.totals.free),
        balances={} if view.row is None else balances(view.row.balances),
    )


def _declared(own: Pool, settings: Pool) -> dict[str, Any]:
    closed = settings if own.closed_by is None else own
    return {
        "name": own.name,
        "parent": own.parent,
        "state": own.state.value,
        "description": own.description,
        "cohort": own.cohort,
        "quotas": quotas(own.quotas),
        "queueing": settings.queueing.value,
        "weight": own.weight,
        "grace_s": settings.grace_s,
        "flavors": list(settings.flavors),
        "topology_keys": [TopologyKeyModel(key=each.key, label=each.label) for each in settings.topology_keys],
        "default_platform": settings.default_platform,
        "default_exit_actions": exit_actions(settings.default_exit_actions),
        "default_run_time_s": settings.default_run_time_s,
        "max_run_time_s": settings.max_run_time_s,
        "closed_by": closed.closed_by,
        "closed_since": v1.at(closed.closed_since),
        "closed_reason": closed.closed_reason,
    }


def deleted(done: Deleted, backend: str) -> v1.PoolDeleted:
    return v1.PoolDeleted(pool=pool(done.view, backend), cancelled=list(done.cancelled))


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
        **_declared(view.pool, view.settings),
        quota=view.quota,
        unallocated=view.unallocated,
        changed=_change(view.changed),
    )


# ---------------------------------------------------------------- cohorts


def quota_tree(view: TreeView) -> v1.QuotaTree:
    return v1.QuotaTree(
        nodes=[cohort(node) for node in view.nodes],
        root=cohort(view.root),
        overpromised={str(key): amount for key, amount in sorted(view.overpromised.items())},
    )


def cohort(view: CohortView) -> v1.Cohort:
    node = view.cohort or view.pool
    return v1.Cohort(
        name=view.row.name,
        kind=view.row.kind,
        parent=view.row.parent or None,
        parent_kind=view.parent_kind,
        children=list(view.children),
        declared=view.row.declared,
        active=view.row.active,
        weight=1 if node is None else node.weight,
        quotas={} if node is None else quotas(node.quotas),
        balances=balances(view.row.balances),
    )
