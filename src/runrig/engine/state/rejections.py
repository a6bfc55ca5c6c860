"""Gangs that the cluster's own scheduler did not place (rule T7). Does not change the ledger."""

from collections.abc import Callable

from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.queue import Entry
from runrig.engine.quota.quota_node import REAL


def rejected_in(ledger: Ledger, concerned: Callable[[str], bool]) -> list[str]:
    """The refused gangs, by id, whose pool is *concerned*: first those still stopping, then those waiting."""
    stopping = [entry for entry in ledger.stopping.values() if entry.gang.refused and concerned(entry.gang.pool)]
    buckets = [bucket for bucket in ledger.sleepers.refused if concerned(bucket.pool)]
    waiting = [entry for bucket in buckets for entry in bucket.waiting]
    return [entry.gang.id for entry in (*stopping, *waiting)]


def rejected_on(ledger: Ledger, flavors: set[str]) -> list[str]:
    """`rejected_in` for the pools that can use nodes of *flavors*, which have changed."""
    return rejected_in(ledger, lambda name: not (own := ledger.pools[name].flavors) or not flavors.isdisjoint(own))


def flavors_freed(entry: Entry) -> set[str]:
    """Flavors of the nodes that become free when the gang ends, on which the cluster's scheduler may place others.

    Empty if that scheduler refused the gang: then nothing has changed for others.
    """
    if not entry.held or entry.gang.refused:
        return set()
    return {assignment.flavor for assignment in entry.placement if assignment.shares}


def place_is_free(ledger: Ledger, entry: Entry) -> bool:
    """True if, by runrig's own count, all nodes of its placement accept pods and none is overcommitted."""
    return all(
        ledger.nodes.takes(share.node, assignment.flavor)
        and min(ledger.nodes.by_name[share.node].free[REAL].values(), default=0) >= 0
        for assignment in entry.placement
        for share in assignment.shares
    )
