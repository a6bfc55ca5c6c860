"""What firm work is promised where cohorts have quota of their own: a second tree that counts firm work alone (law P2).

A cohort shares its own quota among the pools below it.  Firm work uses its pool's quota first, then that of the nearest cohort,
and so on up.  That is the arithmetic of the quota tree with every lending limit at 0: each node keeps what it has for those
below it, and only what goes beyond reaches its parent.  So each cohort that shares, and each node below it, gets a twin.
"""

from runrig.domain.pools import Quota
from runrig.engine.quota.quota_node import Kind, QuotaLeaf, QuotaNode, potential
from runrig.engine.quota.tree import TreeBuilder, hang


def add_guarantees(builder: TreeBuilder, root: QuotaNode) -> None:
    """Gives twins to the nodes under *root* below which, or at which, a cohort shares quota, except to low leaves.

    Firm leaves lose their own limit where a cohort shares: their twins have it.  The twin of the root has nothing: what nobody
    was promised is for LOW work (law Q8).  Call it before the tree is finished.  O(nodes x flavors x resources).
    """
    top = builder.node(Kind.ROOT, "", {})
    for child in root.children:
        _add_twins(builder, child, top, frozenset())


def _add_twins(builder: TreeBuilder, node: QuotaNode, above: QuotaNode, shared: frozenset[int]) -> None:
    """*shared*: the indices of which cohorts on the way down have quota."""
    if node.kind is Kind.LOW:
        return
    if node.kind is Kind.COHORT:
        shared |= {index for index, nominal in enumerate(node.nominal) if nominal}
    if shared:
        above = _twin(builder, node, above, shared)
    for child in node.children:
        _add_twins(builder, child, above, shared)


def _twin(builder: TreeBuilder, node: QuotaNode, above: QuotaNode, shared: frozenset[int]) -> QuotaNode:
    if isinstance(node, QuotaLeaf):
        quotas = {key: Quota(node.nominal[index], lending_limit=0) for index, key in enumerate(builder.keys)}
        twin: QuotaNode = builder.leaf(node.kind, node.name, quotas)
        assert isinstance(twin, QuotaLeaf)
        node.twin = twin
        node.borrowing = [None if index in shared else limit for index, limit in enumerate(node.borrowing)]
    else:
        limits = enumerate(node.borrowing)
        quotas = {builder.keys[index]: Quota(node.nominal[index], limit, 0) for index, limit in limits}
        twin = builder.node(node.kind, node.name, quotas)
    node.guarantee = twin
    hang(twin, above)
    return twin


def shared_by(leaf: QuotaLeaf, index: int) -> tuple[tuple[str, int], ...]:
    """(cohort, amount) of all that cohorts promise the firm work of *leaf* beyond its own quota, nearest first.

    Others may have drawn on it; empty if nothing is shared, or a borrowing limit of 0 keeps it away.
    """
    if leaf.twin is None:
        return ()
    left = potential(leaf.twin, index) - leaf.twin.local[index]
    shared = []
    for node in leaf.twin.path[1:]:
        part = min(left, node.local[index])
        if part > 0:
            shared.append((node.name, part))
            left -= part
    return tuple(shared)


def overdrawn(node: QuotaNode, index: int) -> int:
    """How far firm work of *node* is beyond what it was promised, after some promise above was cut."""
    return node.asked_above(index) - node.drawn(index)
