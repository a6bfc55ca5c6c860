"""Builds quota trees: creates, connects and sums up nodes (rules Q1, Q3, Q5), and changes their numbers.

`pool_tree` builds the tree of pools with it, `runrig.kueue` that of Kueue queues. A changed number is passed up the tree: each
node tells its parent by how much its contribution changed.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from runrig.domain.pools import Quota, Quotas
from runrig.domain.quantities import LARGEST, FlavorResource
from runrig.engine.quota.quota_node import (
    CHARGED,
    LAYERS,
    REAL,
    NodeKind,
    QuotaLeaf,
    QuotaNode,
    Weight,
    tell_parent_of_over,
)

N = TypeVar("N", bound=QuotaNode)


class TreeBuilder:
    """Nodes are complete after `finish`; from then on, only their usage changes, and what `tree_edits` changes.

    *keys*: every (flavor, resource) of the tree, sorted. *index_of*: their index in the lists of a node.
    """

    def __init__(self, keys: Iterable[FlavorResource]) -> None:
        self.keys: tuple[FlavorResource, ...] = tuple(sorted(set(keys)))
        self.index_of: dict[FlavorResource, int] = {key: index for index, key in enumerate(self.keys)}
        self._nodes: list[QuotaNode] = []

    def node(self, kind: NodeKind, name: str, quotas: Quotas, weight: Weight = 1) -> QuotaNode:
        """Creates an inner node, not attached yet."""
        return self.adopt(QuotaNode(kind, name, self._indexed(quotas), len(self.keys), weight))

    def leaf(self, kind: NodeKind, name: str, quotas: Quotas, weight: Weight = 1) -> QuotaLeaf:
        """Creates a leaf, not attached yet."""
        return self.adopt(QuotaLeaf(kind, name, self._indexed(quotas), len(self.keys), weight))

    def _indexed(self, quotas: Quotas) -> dict[int, Quota]:
        return {self.index_of[key]: quotas[key] for key in quotas}

    def adopt(self, node: N) -> N:
        """Includes *node* in `finish`."""
        self._nodes.append(node)
        return node

    def finish(self) -> None:
        """Computes what follows from the shape of the tree. O(nodes × (depth + flavors × resources))."""
        for node in self._nodes:
            follow_path(node)
        sum_up_all(sorted(self._nodes, key=lambda node: -len(node.path)))
        for node in self._nodes:
            if isinstance(node, QuotaLeaf):
                prepare(node)


def hang(node: QuotaNode, parent: QuotaNode) -> None:
    """Makes *node* the last child of *parent*."""
    node.parent = parent
    parent.children.append(node)
    tell_parent_of_over(node)


def upwards(node: QuotaNode) -> Iterator[QuotaNode]:
    """Yields *node* and its ancestors. Stops before it would repeat a node (rule Q5)."""
    seen: set[int] = set()
    above: QuotaNode | None = node
    while above is not None and id(above) not in seen:
        seen.add(id(above))
        yield above
        above = above.parent


def follow_path(node: QuotaNode) -> None:
    node.path = tuple(upwards(node))
    node.active = node.path[-1].parent is None


def prepare(leaf: QuotaLeaf) -> None:
    """Caches on *leaf* what `fits`, `add` and `take` need.

    It depends on the path of *leaf* and on which nodes have limits, not on the numbers.
    """
    below_root = [node for node in leaf.path if node.parent is not None]
    leaf.limits = tuple(
        tuple([node for node in below_root if node.borrowing[index] is not None or node.lending[index] is not None])
        for index in range(len(leaf.nominal))
    )
    leaf.keeps = any(limit is not None for node in below_root for limit in node.lending)
    leaf.holding = tuple(tuple([node.usage[layer] for node in leaf.path]) for layer in LAYERS)


# ---------------------------------------------------------------- numbers

Given = tuple[int, int, int, int]
"""Per index, what a node adds to its parent: lent quota, usage beyond its local part in each layer, pools over nominal."""


def given(node: QuotaNode, index: int) -> Given:
    local = node.local[index]
    decided, held = (max(0, usage[index] - local) for usage in node.usage)
    return node.subtree[index] - local, decided, held, node.pools_over_nominal[index]


def receive(node: QuotaNode | None, index: int, more: Given, *, sign: int = 1) -> None:
    """Adds *more* to the contributions of the children of *node*, or subtracts it if *sign* is -1, and passes the effect up. O(depth)."""
    while node is not None and any(more):
        before = given(node, index)
        _take_in(node, index, more, sign)
        more, sign = _difference(node, index, before), 1
        node = node.parent


def renumber(node: QuotaNode, index: int, quota: Quota) -> None:
    """Sets the quota of *node*. Setting the old quota again is the exact inverse. O(depth)."""
    before = given(node, index)
    node.nominal[index] = quota.nominal
    node.borrowing[index], node.lending[index] = quota.borrowing_limit, quota.lending_limit
    receive(node.parent, index, _difference(node, index, before))


def sum_up_all(nodes: Sequence[QuotaNode]) -> None:
    """Sums up *nodes*, which are new, unused and sorted children first, and adds their contributions to the nodes above."""
    fresh = set(nodes)
    for node in nodes:
        parent = node.parent if node.parent in fresh else None
        for index in range(len(node.nominal)):
            _sum_up(node, index)
            if parent is None:
                receive(node.parent, index, given(node, index))
            else:
                parent.below[index] += node.subtree[index] - node.local[index]
                parent.pools_over_nominal[index] += node.pools_over_nominal[index]


def _take_in(node: QuotaNode, index: int, more: Given, sign: int) -> None:
    lent, decided, held, over = more
    node.below[index] += sign * lent
    node.usage[CHARGED][index] += sign * decided
    node.usage[REAL][index] += sign * held
    node.pools_over_nominal[index] += sign * over


def _difference(node: QuotaNode, index: int, before: Given) -> Given:
    """Sums up *node* after a change. Returns its contribution minus *before*."""
    _sum_up(node, index)
    tell_parent_of_over(node)
    lent, decided, held, over = given(node, index)
    return lent - before[0], decided - before[1], held - before[2], over - before[3]


def _sum_up(node: QuotaNode, index: int) -> None:
    """Recomputes the quota of the subtree: the nominal of *node* and what its children lend. Capped at 64 bits.

    The quota of a pool is counted in its leaves (rule Q1). Limits of a root are ignored.
    """
    total = min(node.below[index] + (0 if node.kind is NodeKind.POOL else node.nominal[index]), LARGEST)
    lends, borrows = (None, None) if node.parent is None else (node.lending[index], node.borrowing[index])
    node.subtree[index] = total
    node.local[index] = 0 if lends is None else max(0, total - lends)
    node.room[index] = None if borrows is None else total - node.local[index] + borrows
    if node.pool is not None and node.pool.parent is None:
        node.pools_over_nominal[index] = int(node.usage[CHARGED][index] > total)
