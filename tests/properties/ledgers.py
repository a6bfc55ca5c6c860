"""A ledger as plain values, so that one that grew by actions can be compared with one that was loaded."""

from collections.abc import Sequence

from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.sleeping import Sleepers
from runrig.engine.quota.pool_tree import QuotaTree
from runrig.engine.quota.quota_node import QuotaLeaf, QuotaNode
from runrig.engine.state.state import State


def tree_portrait(tree: QuotaTree) -> list[object]:
    return [tree.keys, tree.weighted, list(tree.promised), *(_node(node) for node in tree.nodes())]


def _node(node: QuotaNode) -> tuple[object, ...]:
    twin = node.guarantee
    numbers: list[Sequence[int | None]] = [
        node.nominal,
        node.borrowing,
        node.lending,
        node.below,
        node.subtree,
        node.local,
        node.room,
    ]
    held = [*node.usage, *node.used, node.pools_over_nominal, [node.borrowed]]
    where = [
        sorted(map(repr, node.over)),
        repr(node.path),
        node.active,
        node.declared,
        node.weight,
        node.pool,
        len(node.children),
    ]
    if isinstance(node, QuotaLeaf):
        where += [repr(node.limits), node.keeps, node.outermost_pool.name, repr(node.pools_above), node.guarded]
        where += [node.counted, node.weighed, repr(node.holding)]
    return (
        repr(node),
        [list(column) for column in numbers],
        [list(column) for column in held],
        where,
        None if twin is None else _node(twin),
    )


def portrait(state: State) -> dict[str, object]:
    return ledger_portrait(state.ledger) | {
        "active": sorted(state.active),
        "alive": {pool: count for pool, count in sorted(state.alive.items()) if count},
        "current": {key: dict(sorted(pods.items())) for key, pods in sorted(state.current.items())},
    }


def ledger_portrait(ledger: Ledger) -> dict[str, object]:
    tree = ledger.tree
    return {
        "users": dict(sorted(ledger.users.held.items())),
        "keys": tree.keys,
        "tree": tree_portrait(tree),
        "free": {name: [dict(view) for view in room.free] for name, room in sorted(ledger.nodes.by_name.items())},
        "gpus": {name: room.gpus for name, room in sorted(ledger.nodes.by_name.items())},
        "pending": {repr(key): [entry.gang.id for entry in bucket.waiting] for key, bucket in ledger.pending.items()},
        "ranks": {
            rank: (
                each.gangs,
                {
                    pool: (sorted(repr(bucket.key) for bucket in queue.buckets), list(queue.times))
                    for pool, queue in sorted(each.by_pool.items())
                },
            )
            for rank, each in sorted(ledger.ranks.items())
            if each.gangs
        },
        "placed": sorted(ledger.placed),
        "placed_in": {pool: sorted(placed) for pool, placed in sorted(ledger.placed_in.items())},
        "nominated": sorted(ledger.nominated),
        "stopping": sorted(ledger.stopping),
        "unclaimed": sorted(ledger.unclaimed),
        "preemptible": {
            pool: [(key, entry.gang.id) for key, entry in waiting]
            for pool, waiting in ledger.preemptible.items()
            if waiting
        },
        "entries": {
            name: (
                entry.state,
                entry.charged,
                entry.held,
                entry.request,
                entry.placement,
                entry.waits_for,
                entry.admitted_at,
            )
            for name, entry in sorted(ledger.entries.items())
        },
    }


def sleepers_portrait(sleepers: Sleepers) -> dict[str, object]:
    """The sleeping buckets with their barriers, and what is known about these."""
    buckets = {*sleepers.awake, *sleepers.asleep}
    return {
        "awake": {bucket.key for bucket in sleepers.awake},
        "asleep": {
            bucket.key: (bucket.asleep, {barrier.key: need for barrier, need in bucket.before.items()})
            for bucket in sleepers.asleep
        },
        "parked": {bucket.key: bucket.parked for bucket in buckets},
        "refused": {bucket.key for bucket in sleepers.refused},
        "barriers": {
            key: (each.sleepers, each.rises, each.room(), each.sources) for key, each in sleepers.barriers.items()
        },
        "firsts": {
            (bucket.key, barrier.key): barrier.first(bucket.asleep, need)[0]  # type: ignore[index, arg-type]
            for bucket in sleepers.asleep
            for barrier, need in bucket.before.items()
        },
        "changes": sleepers.changes,
        "risen": [[barrier.key for barrier in risen] for risen in sleepers.risen],
        "eased": set(sleepers.eased),
    }
