"""Gangs that the cluster's own scheduler did not take where they were placed (law T7).  Reads the ledger, changes nothing."""

from collections.abc import Callable

from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.queue import Entry
from runrig.engine.quota.quota_node import REAL


def rejected_in(ledger: Ledger, concerned: Callable[[str], bool]) -> list[str]:
    """Gangs that a scheduler refused and whose pool is *concerned*, by id: those that still stop, then those that wait."""
    stopping = [entry for entry in ledger.stopping.values() if entry.gang.refused and concerned(entry.gang.pool)]
    buckets = [bucket for bucket in ledger.sleepers.refused if concerned(bucket.pool)]
    waiting = [entry for bucket in buckets for entry in bucket.waiting]
    return [entry.gang.id for entry in (*stopping, *waiting)]


def rejected_on(ledger: Ledger, flavors: set[str]) -> list[str]:
    """`rejected_in` the pools that could use nodes of *flavors*, which have changed."""
    return rejected_in(ledger, lambda name: not (own := ledger.pools[name].flavors) or not flavors.isdisjoint(own))


def flavors_freed(entry: Entry) -> set[str]:
    """Flavors of the nodes that become free when the gang ends: a cluster's scheduler may count there what is not counted here.

    Empty if that scheduler refused the gang: then nothing has changed for others.
    """
    if not entry.held or entry.gang.refused:
        return set()
    return {assignment.flavor for assignment in entry.placement if assignment.shares}


def place_is_free(ledger: Ledger, entry: Entry) -> bool:
    """True if by our own count every node of its placement takes pods, and none holds more than it has."""
    return all(
        ledger.nodes.takes(share.node, assignment.flavor)
        and min(ledger.nodes.by_name[share.node].free[REAL].values(), default=0) >= 0
        for assignment in entry.placement
        for share in assignment.shares
    )
