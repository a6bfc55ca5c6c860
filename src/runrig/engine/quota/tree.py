"""Builds quota trees: makes nodes, hangs them together and sums them up (laws Q1, Q3, Q5); and changes numbers in them.

`pool_tree` translates our cohorts and pools into it, `queue_tree` those of Kueue.  A number that changes is passed on from node
to node upwards, each telling its parent by how much it gives more.
"""

from collections.abc import Iterable, Iterator, Sequence

from runrig.domain.pools import Quota, Quotas
from runrig.domain.quantities import LARGEST, FlavorResource
from runrig.engine.quota.quota_node import (
    CHARGED,
    LAYERS,
    REAL,
    Kind,
    QuotaLeaf,
    QuotaNode,
    Weight,
    tell_parent_of_over,
)


class TreeBuilder:
    """Nodes are complete after `finish`; from then on only their usage changes, and what `tree_edits` changes.

    *keys*: every (flavor, resource) of the tree, sorted; *index_of*: where each lies in the lists of a node.
    """

    def __init__(self, keys: Iterable[FlavorResource]) -> None:
        self.keys: tuple[FlavorResource, ...] = tuple(sorted(set(keys)))
        self.index_of: dict[FlavorResource, int] = {key: index for index, key in enumerate(self.keys)}
        self._nodes: list[QuotaNode] = []
        self._leaves: list[QuotaLeaf] = []

    def node(self, kind: Kind, name: str, quotas: Quotas, weight: Weight = 1) -> QuotaNode:
        """An inner node, not hung up yet."""
        node = QuotaNode(kind, name, {self.index_of[key]: quotas[key] for key in quotas}, len(self.keys), weight)
        self._nodes.append(node)
        return node

    def leaf(self, kind: Kind, name: str, quotas: Quotas, weight: Weight = 1) -> QuotaLeaf:
        """A node that holds work, not hung up yet."""
        leaf = QuotaLeaf(kind, name, {self.index_of[key]: quotas[key] for key in quotas}, len(self.keys), weight)
        self._nodes.append(leaf)
        self._leaves.append(leaf)
        return leaf

    def finish(self) -> None:
        """Fills in what follows from the shape of the tree.  O(nodes x (depth + flavors x resources))."""
        for node in self._nodes:
            follow_path(node)
        sum_up_all(sorted(self._nodes, key=lambda node: -len(node.path)))
        for leaf in self._leaves:
            prepare(leaf)

    def adopt(self, node: QuotaNode) -> None:
        """*node* was made elsewhere and is finished with the others."""
        self._nodes.append(node)
        if isinstance(node, QuotaLeaf):
            self._leaves.append(node)


def hang(node: QuotaNode, parent: QuotaNode) -> None:
    """Makes *node* the last child of *parent*."""
    node.parent = parent
    parent.children.append(node)
    tell_parent_of_over(node)


def upwards(node: QuotaNode) -> Iterator[QuotaNode]:
    """From *node* to its root; stops before it would meet a node twice (law Q5)."""
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
    """Keeps what `fits`, `add` and `take` would otherwise look up again and again.

    It follows from the path of *leaf* and from where there are limits on it, not from how high these are.
    """
    below_root = [node for node in leaf.path if node.parent is not None]
    leaf.limits = tuple(
        tuple(node for node in below_root if node.borrowing[index] is not None or node.lending[index] is not None)
        for index in range(len(leaf.nominal))
    )
    leaf.keeps = any(limit is not None for node in below_root for limit in node.lending)
    leaf.holding = tuple(tuple(node.usage[layer] for node in leaf.path) for layer in LAYERS)


# ---------------------------------------------------------------- numbers

Given = tuple[int, int, int, int]
"""What a node gives to its parent, of one index: what it lends, what it holds beyond its local part in each layer, and the pools
over nominal."""


def given(node: QuotaNode, index: int) -> Given:
    local = node.local[index]
    decided, held = (max(0, usage[index] - local) for usage in node.usage)
    return node.subtree[index] - local, decided, held, node.pools_over_nominal[index]


def receive(node: QuotaNode | None, index: int, more: Given, *, sign: int = 1) -> None:
    """A child of *node* gives *more* than before, or with *sign* -1 less; so do the nodes above, as far as that goes.  O(depth)."""
    while node is not None and any(more):
        before = given(node, index)
        _take_in(node, index, more, sign)
        more, sign = _difference(node, index, before), 1
        node = node.parent


def renumber(node: QuotaNode, index: int, quota: Quota) -> None:
    """*node* has *quota* from now on.  Setting the old quota again is the exact inverse.  O(depth)."""
    before = given(node, index)
    node.nominal[index] = quota.nominal
    node.borrowing[index], node.lending[index] = quota.borrowing_limit, quota.lending_limit
    receive(node.parent, index, _difference(node, index, before))


def sum_up_all(nodes: Sequence[QuotaNode]) -> None:
    """Sums up *nodes*, new ones that hold nothing, children first, and gives what they bring to the nodes above."""
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
    """Returns what *node*, in which something has changed, gives more than *before*."""
    _sum_up(node, index)
    tell_parent_of_over(node)
    lent, decided, held, over = given(node, index)
    return lent - before[0], decided - before[1], held - before[2], over - before[3]


def _sum_up(node: QuotaNode, index: int) -> None:
    """Returns what *node* brings: its nominal and what its children lend it.  Sums stay within 64 bits.

    A pool's promise lies in its leaves (law Q1).  The limits of a root mean nothing.
    """
    total = min(node.below[index] + (0 if node.kind is Kind.POOL else node.nominal[index]), LARGEST)
    lends, borrows = (None, None) if node.parent is None else (node.lending[index], node.borrowing[index])
    node.subtree[index] = total
    node.local[index] = 0 if lends is None else max(0, total - lends)
    node.room[index] = None if borrows is None else total - node.local[index] + borrows
    if node.pool is not None and node.pool.parent is None:
        node.pools_over_nominal[index] = int(node.usage[CHARGED][index] > total)
