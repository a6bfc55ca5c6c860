"""Explains what the nodes lack for a gang, regardless of quota (rule T1)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from runrig.domain.gangs import Placement
from runrig.domain.reasons import Code, DomainRoom, Reason
from runrig.domain.value import Amounts
from runrig.engine.explain.shortage import shortages
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.queue import Entry
from runrig.engine.nodes.node_capacity import EMPTY
from runrig.engine.nodes.topology import value_of
from runrig.engine.placement.place import Asked, may_hold, place, pods_that_fit
from runrig.engine.quota.quota_node import CHARGED


def no_place(ledger: Ledger, entry: Entry, choice: Placement, layer: int = CHARGED) -> Reason:
    """The first of `shape_reasons`: why *choice* does not fit on nodes, counting what is free in *layer*."""
    return next(shape_reasons(ledger, entry, choice, layer))


def shape_reasons(ledger: Ledger, entry: Entry, choice: Placement, layer: int = CHARGED) -> Iterator[Reason]:
    """Yields a reason for each required group that does not fit into a domain; if each fits alone, that not all of them do."""
    need = sum(each.count for each in choice)
    asked = ledger.asked_of_nodes(entry, choice)
    if asked is None:
        yield Reason(Code.KEYS_CHANGED, "T3", where=f"pool {entry.gang.pool}")
        return
    if not place(ledger.nodes, asked, (layer,)).proven:
        yield Reason(Code.PLACEMENT_NOT_PROVEN, "T1", resource=choice[0].flavor, need=need)
        return
    short = None
    for short in shortages(ledger.nodes, asked, (layer,)):
        key = ledger.pools[entry.gang.pool].topology_keys[short.level].key
        if short.best is None:
            yield Reason(Code.NOT_ALL_GROUPS_FIT, "T1", where=key, need=need)
        else:
            have = short.best[0].have if short.best else 0
            best = tuple(_spoken_for(ledger, asked.constraints.labels, room) for room in short.best)
            yield Reason(Code.NO_DOMAIN_FITS, "T1", where=key, have=have, need=short.pods, domains=best)
    if short is None:
        have = min(need - 1, _fitting(ledger, asked, layer))
        yield Reason(Code.NO_ROOM_ON_NODES, "T1", resource=choice[0].flavor, have=have, need=need)


def _spoken_for(ledger: Ledger, labels: Sequence[str], room: DomainRoom) -> DomainRoom:
    """*room* with the part of its *missing* amounts that is reserved on its nodes for nominated gangs."""
    held = dict.fromkeys(room.missing, 0)
    for nominated in ledger.nominated.values():
        for pod_set, assignment in zip(nominated.gang.pod_sets, nominated.placement, strict=True):
            for share in assignment.shares:
                known = ledger.nodes.by_name.get(share.node)
                path = () if known is None else tuple(value_of(known.node, label) for label in labels)
                if path[: len(room.domain)] == room.domain:
                    for resource, amount in pod_set.requests:
                        if resource in held:
                            held[resource] += amount * share.count
    return replace(room, spoken=Amounts({resource: amount for resource, amount in held.items() if amount}))


def never_fits(ledger: Ledger, entry: Entry, choice: Placement) -> Iterator[Reason]:
    """Yields a reason if *choice* provably does not fit even on empty nodes, because nodes were removed after submission (rule P3)."""
    asked = ledger.asked_of_nodes(entry, choice)
    if not ledger.place or asked is None or may_hold(ledger.nodes, asked, (EMPTY,)):
        return
    need = sum(each.count for each in choice)
    have = min(need - 1, _fitting(ledger, asked, EMPTY))
    yield Reason(Code.NO_EMPTY_NODES, "P3", f"pool {entry.gang.pool}", choice[0].flavor, have, need)


def _fitting(ledger: Ledger, asked: Asked, layer: int) -> int:
    """How many pods of *asked* fit on any nodes, each shape counted alone."""
    return sum(pods_that_fit(ledger.nodes, each, (layer,), asked.constraints.labels) for each in asked.requests)
