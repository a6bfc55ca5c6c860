"""Does a gang fit now, in quota and on nodes, without preemption?"""

from collections.abc import Sequence

from runrig.domain.gangs import Assignment, Gang, Placement
from runrig.domain.steps import Steps
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.options import options
from runrig.engine.ledger.queue import Entry
from runrig.engine.nodes.topology import Domain
from runrig.engine.placement.place import Layout, has_place, place, unmet_need
from runrig.engine.quota.quota_node import CHARGED, LAYERS, REAL, Request, fits

CHARGED_ONLY = (CHARGED,)
CHARGED_AND_HELD = LAYERS


def find_place(ledger: Ledger, entry: Entry, counts: tuple[int, ...]) -> Placement | None:
    """A placement with which *entry* can start immediately with *counts* pods, or None.

    While a gang is nominated, others must fit in both layers: next to what is decided, and next to what is still running (rule
    R4).
    """
    leaf = ledger.leaf(entry)
    if not leaf.active:
        return None
    layers = layers_of(ledger)
    for choice, request in options(ledger, entry, counts, mixed=True):
        if fits(leaf, request, CHARGED) and (layers is CHARGED_ONLY or fits(leaf, request, REAL)):
            placement = place_on_nodes(ledger, entry, choice, layers)
            if placement is not None:
                return placement
    return None


def layers_of(ledger: Ledger) -> tuple[int, ...]:
    """The layers in which a gang must fit to start immediately."""
    return CHARGED_AND_HELD if ledger.skewed else CHARGED_ONLY


def starts_now(ledger: Ledger, entry: Entry) -> bool:
    """Whether the gangs that had to stop for the nominated *entry* no longer use its quota and nodes."""
    return would_start(ledger, entry, entry.placement, entry.request)


def would_start(ledger: Ledger, entry: Entry, placement: Placement, request: Request) -> bool:
    """Whether *placement*, which requests *request* from the tree, fits next to everything that is still running."""
    leaf = ledger.leaf(entry)
    if not leaf.active or not fits(leaf, request, REAL):
        return False
    asked: dict[str, dict[str, int]] = {}
    for each, pod_set in zip(placement, entry.gang.pod_sets, strict=True):
        for share in each.shares:
            total = asked.setdefault(share.node, {})
            for resource, amount in pod_set.requests:
                total[resource] = total.get(resource, 0) + amount * share.count
    return all(ledger.nodes.by_name[name].pods(tuple(total.items()), REAL) >= 1 for name, total in asked.items())


def place_on_nodes(
    ledger: Ledger,
    entry: Entry,
    choice: Placement,
    layers: Sequence[int] = CHARGED_ONLY,
    within: Domain | None = None,
) -> Placement | None:
    """*choice* with nodes inside *within*; None if it does not fit; *choice* itself if quota alone decides."""
    if not ledger.place:
        return choice
    asked = ledger.asked_of_nodes(entry, choice)
    if asked is None:
        return None
    layout = place(ledger.nodes, asked, layers, within)
    ledger.searches.limits += not layout.proven
    return with_nodes(choice, layout)


def counts_for(ledger: Ledger, entry: Entry, choice: Placement, layers: tuple[int, ...] = CHARGED_ONLY) -> Steps[None]:
    """Counts in steps what a placement of *choice* needs, so that the search finds it cached."""
    if ledger.place and (asked := ledger.asked_of_nodes(entry, choice)) is not None:
        for request in asked.requests:
            yield from ledger.nodes.counts_in_steps(asked.constraints.labels, request.shape, layers)


def with_nodes(choice: Placement, layout: Layout) -> Placement | None:
    """*choice* with the nodes of *layout*; None if it has none."""
    if layout.shares is None:
        return None
    return tuple(
        Assignment(each.pod_set, each.flavor, each.count, shares)
        for each, shares in zip(choice, layout.shares, strict=True)
    )


def room_on_nodes(ledger: Ledger, entry: Entry, choice: Placement, within: Domain | None = None) -> bool:
    """Whether `place_on_nodes` finds a placement for *choice*."""
    if not ledger.place:
        return True
    asked = ledger.asked_of_nodes(entry, choice)
    return asked is not None and has_place(ledger.nodes, asked, CHARGED_ONLY, within)


def may_lie(ledger: Ledger, entry: Entry, choice: Placement, layers: tuple[int, ...]) -> bool:
    """Whether in *layers* some domain has room for each group of pods of *choice*, each shape taken alone."""
    if not ledger.place:
        return True
    asked = ledger.asked_of_nodes(entry, choice)
    return asked is not None and unmet_need(ledger.nodes, asked, layers) is None


def with_gpus(ledger: Ledger, gang: Gang, placement: Placement) -> Placement:
    """*placement* with the GPU indices of its pods: the lowest free ones of each node."""
    reserved: dict[str, int] = {}
    return tuple(
        Assignment(
            each.pod_set,
            each.flavor,
            each.count,
            tuple(ledger.nodes.with_gpus(each.shares, pod_set.requests, reserved)),
        )
        for each, pod_set in zip(placement, gang.pod_sets, strict=True)
    )
