"""A ledger as plain values, so that one that grew by actions can be compared with one that was loaded."""

from runrig.engine.quota.quota_node import CHARGED, REAL
from runrig.engine.state.state import State


def portrait(state: State) -> dict[str, object]:
    ledger = state.ledger
    tree = ledger.tree
    return {
        "keys": tree.keys,
        "tree": [
            (
                repr(node),
                node.active,
                node.nominal,
                node.subtree,
                node.local,
                node.room,
                node.usage[CHARGED],
                node.usage[REAL],
                node.used[CHARGED],
                node.used[REAL],
                node.pools_over_nominal,
                node.borrowed,
                None if node.guarantee is None else (node.guarantee.usage, node.guarantee.room, node.guarantee.local),
            )
            for node in tree.nodes()
        ],
        "free": {name: [dict(view) for view in room.free] for name, room in sorted(ledger.nodes.by_name.items())},
        "gpus": {name: room.gpus for name, room in sorted(ledger.nodes.by_name.items())},
        "pending": {
            repr(key): [entry.gang.id for _, entry in bucket.waiting] for key, bucket in ledger.pending.items()
        },
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
        "active": sorted(state.active),
        "alive": {pool: count for pool, count in sorted(state.alive.items()) if count},
        "current": {key: dict(sorted(pods.items())) for key, pods in sorted(state.current.items())},
    }
