"""Lost nodes: finds new nodes for their pods, in the domains of the remaining pods of the gang (rules T1, T2).

The search is that of a whole gang, but only the lost pods need room. In each group, one anchor stands for all remaining pods: a
pod that requests nothing and fits on one node only. So a required group with remaining pods cannot move, a group that lost all
pods can, and a preference is first tried near the remaining pods.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from runrig.domain.gangs import NodeShare, Placement
from runrig.domain.nodes import NO_FLAVOR
from runrig.domain.replacing import replace
from runrig.engine.ledger.fit import layers_of
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.queue import Entry
from runrig.engine.nodes.topology import ROOT, TopologyIndex
from runrig.engine.placement.constraint_tree import ConstraintNode
from runrig.engine.placement.demand import PodRequest
from runrig.engine.placement.place import Asked, place
from runrig.engine.placement.pod_slots import PodSlot, shares_of, slots_of

Pod = tuple[str, int]
"""(name of its pod set, index)."""


def find_replacement(ledger: Ledger, entry: Entry, lost: Collection[Pod], staying: Collection[Pod]) -> Placement | None:
    """The placement of the admitted *entry* with new nodes for the pods in *lost*; None if they do not fit. Never preempts.

    Pods neither in *lost* nor in *staying* have ended: they keep their slots, and other pods need not be near them.
    """
    constraints = ledger.constraints(entry, entry.placement)
    if constraints is None:
        return None
    gone: list[list[int]] = [[] for _ in entry.placement]
    stays: list[dict[int, str]] = [{} for _ in entry.placement]
    for at, each in enumerate(entry.placement):
        for index, slot in enumerate(slots_of(each.shares)):
            if (each.pod_set, index) in lost:
                gone[at].append(index)
            elif (each.pod_set, index) in staying:
                stays[at][index] = slot.node
    topology = ledger.nodes.topology(constraints.labels)
    rest = _Remaining(topology, gone, stays)
    root = rest.of(constraints.root)
    if root is None or not rest.whole:
        return None
    wanted = [
        PodRequest(pod_set.requests, each.flavor, len(indices))
        for each, pod_set, indices in zip(entry.placement, entry.gang.pod_sets, gone, strict=True)
    ]
    anchors = (PodRequest((), NO_FLAVOR, 1, only_on=node) for node in rest.anchors)
    asked = Asked((*wanted, *anchors), replace(constraints, root=root))
    shares = place(ledger.nodes, asked, layers_of(ledger)).shares
    return None if shares is None else _with_new_slots(ledger, entry, gone, shares)


def _with_new_slots(
    ledger: Ledger, entry: Entry, gone: Sequence[Sequence[int]], shares: Sequence[Sequence[NodeShare]]
) -> Placement:
    """The placement of *entry* with new slots, from *shares*, for the pods that are *gone*."""
    reserved: dict[str, int] = {}
    moved = []
    for at, (each, pod_set) in enumerate(zip(entry.placement, entry.gang.pod_sets, strict=True)):
        slots = slots_of(each.shares)
        fresh: list[PodSlot] = slots_of(ledger.nodes.with_gpus(shares[at], pod_set.requests, reserved))
        for index, slot in zip(gone[at], fresh, strict=True):
            slots[index] = slot
        moved.append(replace(each, shares=shares_of(slots)))
    return tuple(moved)


# ---------------------------------------------------------------- what is left to place


@dataclass(slots=True)
class _Remaining:
    """Reduces a tree to the lost pods.

    *gone*, *stays*: per pod set. *anchors*: nodes of the anchors, which stand for remaining pods.
    *whole*: the remaining pods of every required group checked so far are in one domain.
    """

    topology: TopologyIndex
    gone: Sequence[Sequence[int]]
    stays: Sequence[dict[int, str]]
    anchors: list[str] = field(default_factory=list)
    whole: bool = True
    _next: Counter[int] = field(default_factory=Counter)

    def of(self, root: ConstraintNode) -> ConstraintNode | None:
        """None if nothing is lost."""
        return self._pared(root)[0]

    def _pared(self, node: ConstraintNode) -> tuple[ConstraintNode | None, Counter[str]]:
        """(*node* with the lost pods and an anchor for the remaining ones; the nodes of the remaining ones)."""
        pared = [self._pared(each) for each in node.parts]
        parts = tuple(part for part, _ in pared if part is not None)
        stay = Counter[str]()
        for _, each in pared:
            stay += each
        pods = tuple(self._pods(node, stay))
        if not parts and not pods:
            return None, stay
        if stay and node.required:
            self.whole = self.whole and len({self._domain(name, node.level) for name in stay}) == 1
        if stay and not any(part is not None and each for part, each in pared):
            anchor = (self._anchor(node, stay), 1)
            if parts:
                parts = (*parts, ConstraintNode(ROOT, False, (anchor,)))
            else:
                pods = (*pods, anchor)
        return replace(node, pods=pods, parts=parts), stay

    def _pods(self, node: ConstraintNode, stay: Counter[str]) -> Iterator[tuple[int, int]]:
        """Yields the lost pods of a leaf; adds the nodes of the others to *stay*."""
        for at, count in node.pods:
            indices = range(self._next[at], self._next[at] + count)
            self._next[at] += count
            stay.update(self.stays[at][index] for index in indices if index in self.stays[at])
            lost = sum(index in indices for index in self.gone[at])
            if lost:
                yield at, lost

    def _anchor(self, group: ConstraintNode, stay: Counter[str]) -> int:
        """Creates an anchor in the domain with most remaining pods; without a level, in one of the finest level. Returns its index."""
        level = group.level if group.level > ROOT else max(self.topology.node_level - 1, 0)
        domains = Counter[int]()
        for node, count in stay.items():
            domains[self._domain(node, level)] += count
        most = min(domains, key=lambda each: (-domains[each], each))
        inside = [node for node in stay if self._domain(node, level) == most]
        self.anchors.append(min(inside, key=lambda node: (-stay[node], node)))
        return len(self.gone) + len(self.anchors) - 1

    def _domain(self, node: str, level: int) -> int:
        return int(self.topology.of[level][self.topology.index[node]])
