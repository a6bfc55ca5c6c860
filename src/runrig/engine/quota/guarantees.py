"""Guarantees from cohorts with their own quota: a second tree that counts only guaranteed work (rule P2).

A cohort shares its own quota among the pools below it. Guaranteed work uses the quota of its pool first, then that of the
nearest cohort, and so on. This is the arithmetic of the quota tree with all lending limits at 0: a node keeps its quota for the
nodes below it, and passes on only the excess. So each cohort that shares quota, and each node below it, gets a twin in the
second tree.
"""

from collections.abc import Iterator, Mapping

from runrig.domain.pools import Quota
from runrig.engine.quota.quota_node import LAYERS, NodeKind, QuotaLeaf, QuotaNode, add_on_trial, headroom, potential
from runrig.engine.quota.tree import follow_path, given, hang, prepare, receive, renumber, sum_up_all

_NONE: Mapping[QuotaNode, QuotaNode] = {}


def guarantees(
    top: QuotaNode, above: QuotaNode, shared: frozenset[int], known: Mapping[QuotaNode, QuotaNode] = _NONE
) -> Iterator[QuotaNode]:
    """Creates twins for *top* and the nodes below it, except LOW leaves, and yields them, parents first and not summed up.

    *above*: the parent of the new twins. *shared*: indices for which a cohort above *top* has quota; without any, a node gets
    no twin. *known*: node → twin object to reuse. Guaranteed leaves lose their own borrowing limit for shared indices: their
    twins enforce it. O(nodes × flavors × resources).
    """
    if top.kind is NodeKind.LOW:
        return
    shared |= shares(top)
    if shared:
        above = _twin(top, above, shared, known.get(top))
        yield above
    for child in top.children:
        yield from guarantees(child, above, shared, known)


def shares(node: QuotaNode) -> frozenset[int]:
    """The indices for which *node* is a cohort with quota for all pools below it."""
    if node.kind is not NodeKind.COHORT:
        return frozenset()
    return frozenset(index for index, nominal in enumerate(node.nominal) if nominal)


def _twin(node: QuotaNode, above: QuotaNode, shared: frozenset[int], known: QuotaNode | None) -> QuotaNode:
    width = len(node.nominal)
    quotas = {index: quota_of_twin(node, index) for index in range(width)}
    kind = type(node)
    twin = known or kind.__new__(kind)
    kind.__init__(twin, node.kind, node.name, quotas, width, 1)
    if isinstance(node, QuotaLeaf):
        assert isinstance(twin, QuotaLeaf)
        node.twin = twin
        node.borrowing = [None if index in shared else limit for index, limit in enumerate(node.borrowing)]
    node.guarantee = twin
    hang(twin, above)
    return twin


def quota_of_twin(node: QuotaNode, index: int) -> Quota:
    """The quota of the twin of *node*, which lends nothing."""
    limit = None if isinstance(node, QuotaLeaf) else node.borrowing[index]
    return Quota(node.nominal[index], limit, lending_limit=0)


# ---------------------------------------------------------------- in a tree in use


def add_guarantees(top: QuotaNode, root: QuotaNode, known: Mapping[QuotaNode, QuotaNode]) -> None:
    """Like `guarantees`, for a tree in use: also copies usage. *root*: the twin of the root. O(depth) per node below *top*.

    *known*: the twins that `drop_guarantees` removed. The objects are reused, because buckets may be asleep at them.
    """
    above = next((node.guarantee for node in top.path[1:] if node.guarantee is not None), root)
    twins = list(guarantees(top, above, frozenset().union(*(shares(node) for node in top.path[1:])), known))
    for twin in twins:
        follow_path(twin)
    sum_up_all(twins[::-1])
    for twin in twins:
        if isinstance(twin, QuotaLeaf):
            prepare(twin)
    for node in nodes_under(top) if twins else ():
        if isinstance(node, QuotaLeaf) and node.twin is not None:
            for index, limit in enumerate(node.borrowing):
                renumber(node, index, Quota(node.nominal[index], limit))
            for layer in LAYERS:
                held = tuple((index, amount) for index, amount in enumerate(node.usage[layer]) if amount)
                add_on_trial(node.twin, held, layer)


def drop_guarantees(top: QuotaNode) -> dict[QuotaNode, QuotaNode]:
    """Removes the twins of *top* and the nodes below it; the inverse of `add_guarantees`. Returns the twins by node."""
    gone: dict[QuotaNode, QuotaNode] = {}
    twins: set[QuotaNode] = set()
    for node in nodes_under(top):
        twin, node.guarantee = node.guarantee, None
        if twin is None:
            continue
        gone[node] = twin
        twins.add(twin)
        if twin.parent not in twins:
            take_down(twin)
        if isinstance(node, QuotaLeaf):
            node.twin = None
            for index, nominal in enumerate(node.nominal):
                renumber(node, index, Quota(nominal, 0))
    return gone


def nodes_under(top: QuotaNode) -> Iterator[QuotaNode]:
    """Yields *top* and all nodes below it, parents first."""
    waiting = [top]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node.children


def take_down(node: QuotaNode) -> None:
    """Detaches *node* from its parent and subtracts what it lends and uses; the inverse of `hang`."""
    parent, node.parent = node.parent, None
    assert parent is not None
    parent.children.remove(node)
    parent.over.pop(node, None)
    for index in range(len(node.nominal)):
        receive(parent, index, given(node, index), sign=-1)


def shared_by(leaf: QuotaLeaf, index: int) -> tuple[tuple[str, int], ...]:
    """(cohort, amount) that cohorts guarantee to *leaf* in addition to its own quota, nearest cohort first.

    Other pools may be using these amounts. Empty if nothing is shared, or if a borrowing limit of 0 prevents its use.
    """
    if leaf.twin is None:
        return ()
    left = potential(leaf.twin, index) - leaf.twin.local[index]
    shared: dict[str, int] = {}
    for node in leaf.twin.path[1:]:
        part = min(left, node.local[index])
        if part > 0:
            shared[node.name] = shared.get(node.name, 0) + part
            left -= part
    return tuple(shared.items())


def overdrawn(node: QuotaNode, index: int) -> int:
    """How far guaranteed work of *node* exceeds its guarantee, after a guarantee above it was cut."""
    return node.asked_above(index) - node.drawn(index)


def is_cut(twin: QuotaNode, index: int) -> bool:
    """Whether guaranteed work uses more than the guarantee of *twin* or a node above it. O(depth²)."""
    return any(headroom(node, index) < 0 for node in twin.path)
