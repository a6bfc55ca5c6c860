"""What firm work is promised where cohorts have quota of their own: a second tree that counts firm work alone (law P2).

A cohort shares its own quota among the pools below it.  Firm work uses its pool's quota first, then that of the nearest cohort,
and so on up.  That is the arithmetic of the quota tree with every lending limit at 0: each node keeps what it has for those
below it, and only what goes beyond reaches its parent.  So each cohort that shares, and each node below it, gets a twin.
"""

from collections.abc import Iterator, Mapping

from runrig.domain.pools import Quota
from runrig.engine.quota.quota_node import LAYERS, Kind, QuotaLeaf, QuotaNode, add_on_trial, headroom, potential
from runrig.engine.quota.tree import follow_path, given, hang, prepare, receive, renumber, sum_up_all

_NONE: Mapping[QuotaNode, QuotaNode] = {}


def guarantees(
    top: QuotaNode, above: QuotaNode, shared: frozenset[int], known: Mapping[QuotaNode, QuotaNode] = _NONE
) -> Iterator[QuotaNode]:
    """Gives twins to *top* and the nodes under it, except to low leaves, and yields them, parents first; they are not summed up yet.

    *above*: the twin that they hang under.  *shared*: the indices of which cohorts above *top* have quota; nodes for which none
    has get no twin.  *known*: twins that are made anew in place.  Firm leaves lose their own limit where a cohort shares: their
    twins have it.  O(nodes x flavors x resources).
    """
    if top.kind is Kind.LOW:
        return
    shared |= shares(top)
    if shared:
        above = _twin(top, above, shared, known.get(top))
        yield above
    for child in top.children:
        yield from guarantees(child, above, shared, known)


def shares(node: QuotaNode) -> frozenset[int]:
    """The indices of which *node* has quota for all below it: a cohort's nominal."""
    if node.kind is not Kind.COHORT:
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
    """It keeps all that it has for those below."""
    limit = None if isinstance(node, QuotaLeaf) else node.borrowing[index]
    return Quota(node.nominal[index], limit, lending_limit=0)


# ---------------------------------------------------------------- in a tree in use


def add_guarantees(top: QuotaNode, root: QuotaNode, known: Mapping[QuotaNode, QuotaNode]) -> None:
    """As `guarantees`, with what their nodes hold; *root*: the twin of the root.  O(depth) for each node under *top*.

    *known*: the twins that were taken down before.  They are the same objects again, for somebody may sleep before them.
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
    """Takes the twins of *top* and the nodes under it out of the tree; the inverse of `add_guarantees`.  Returns them by node."""
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
    """*top* and all below it, parents first."""
    waiting = [top]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node.children


def take_down(node: QuotaNode) -> None:
    """The inverse of hanging up a node and giving what it brings and holds to its parent."""
    parent, node.parent = node.parent, None
    assert parent is not None
    parent.children.remove(node)
    parent.over.pop(node, None)
    for index in range(len(node.nominal)):
        receive(parent, index, given(node, index), sign=-1)


def shared_by(leaf: QuotaLeaf, index: int) -> tuple[tuple[str, int], ...]:
    """(cohort, amount) of all that cohorts promise the firm work of *leaf* beyond its own quota, nearest first.

    Others may have drawn on it; empty if nothing is shared, or a borrowing limit of 0 keeps it away.
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
    """How far firm work of *node* is beyond what it was promised, after some promise above was cut."""
    return node.asked_above(index) - node.drawn(index)


def is_cut(twin: QuotaNode, index: int) -> bool:
    """True if *twin* or a node above it was promised less than firm work holds by now.  O(depth²)."""
    return any(headroom(node, index) < 0 for node in twin.path)
