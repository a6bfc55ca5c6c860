"""Builds quota trees: makes nodes, hangs them together and sums them up (laws Q1, Q3, Q5).

`pool_tree` translates our cohorts and pools into it, `queue_tree` those of Kueue.
"""

from collections.abc import Iterable, Iterator

from runrig.domain.pools import Quotas
from runrig.domain.quantities import LARGEST, FlavorResource
from runrig.engine.quota.quota_node import LAYERS, Kind, QuotaLeaf, QuotaNode, Weight


class TreeBuilder:
    """Nodes are complete after `finish`; from then on only their usage changes.

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
            node.path = tuple(_upwards(node))
            node.active = node.path[-1].parent is None
        for node in sorted(self._nodes, key=lambda node: -len(node.path)):  # children first
            node.height = 1 + max((child.height for child in node.children), default=-1)
            for index in range(len(self.keys)):
                _sum_up(node, index)
        for leaf in self._leaves:
            _prepare(leaf)


def hang(node: QuotaNode, parent: QuotaNode) -> None:
    """Makes *node* the last child of *parent*."""
    node.parent = parent
    parent.children.append(node)


def _upwards(node: QuotaNode) -> Iterator[QuotaNode]:
    """From *node* to its root; stops before it would meet a node twice (law Q5)."""
    seen: set[int] = set()
    above: QuotaNode | None = node
    while above is not None and id(above) not in seen:
        seen.add(id(above))
        yield above
        above = above.parent


def _sum_up(node: QuotaNode, index: int) -> None:
    """What *node* brings: its nominal and what its children lend it.  Sums stay within 64 bits.

    A pool's promise lies in its leaves (law Q1).  The limits of a root mean nothing.
    """
    total = 0 if node.kind is Kind.POOL else node.nominal[index]
    for child in node.children:
        total += child.subtree[index] - child.local[index]
    total = min(total, LARGEST)
    lends, borrows = (None, None) if node.parent is None else (node.lending[index], node.borrowing[index])
    node.subtree[index] = total
    node.local[index] = 0 if lends is None else max(0, total - lends)
    node.room[index] = None if borrows is None else total - node.local[index] + borrows


def _prepare(leaf: QuotaLeaf) -> None:
    """Keeps what `fits`, `add` and `take` would otherwise look up again and again."""
    leaf.limits = tuple(
        tuple(node for node in leaf.path if node.room[index] is not None or node.local[index])
        for index in range(len(leaf.nominal))
    )
    leaf.keeps = any(any(node.local) for node in leaf.path)
    leaf.holding = tuple(tuple(node.usage[layer] for node in leaf.path) for layer in LAYERS)
