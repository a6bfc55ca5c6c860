"""Gangs that a scheduler of the cluster's own did not take where they were placed here (law T7)."""

from collections.abc import Collection
from dataclasses import replace

from runrig.domain.plan import Queue, Release
from runrig.engine.ledger.ledger import Entry, Ledger
from runrig.engine.quota.quota_node import REAL


def retry_rejected(ledger: Ledger, pools: Collection[str]) -> list[str]:
    """Gangs of *pools* that were refused, and wait for that or still stop, will not wait any longer: their ids.  O(buckets + stopping)."""
    leaving = [entry for entry in ledger.stopping.values() if entry.gang.refused and entry.gang.pool in pools]
    for entry in leaving:
        entry.gang = replace(entry.gang, refused="")
    refused = [bucket for bucket in ledger.pending.values() if bucket.key.refused and bucket.pool in pools]
    found = [entry for bucket in refused for _, entry in bucket.waiting]
    for entry in found:
        retry(ledger, entry)
    return [entry.gang.id for entry in (*leaving, *found)]


def retry(ledger: Ledger, entry: Entry) -> None:
    """A pending gang waits no longer for that."""
    ledger.apply(Release(entry.gang.id), 0)
    ledger.apply(Queue(replace(entry.gang, refused="")), 0)


def flavors_freed(entry: Entry) -> set[str]:
    """Of nodes that the gang makes free with its end: a cluster's scheduler may count there what is not counted here.

    None, if that scheduler refused it: then nothing has changed for others.
    """
    return {each.flavor for each in entry.placement if each.shares} if entry.held and not entry.gang.refused else set()


def place_is_free(ledger: Ledger, entry: Entry) -> bool:
    """By our own books every node of its place is there for it, with no more held on it than it has."""
    return all(
        ledger.nodes.takes(share.node, each.flavor)
        and min(ledger.nodes.by_name[share.node].free[REAL].values(), default=0) >= 0
        for each in entry.placement
        for share in each.shares
    )
