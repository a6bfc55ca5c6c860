"""The numbers of pools that usage sums up: quota, drawn, borrowed and lent, of the pool's own node, without its subpools.

And of a pool that has subpools, together with these: what they lend to each other is neither borrowed nor lent by it.
"""

from collections.abc import Collection, Iterator, Mapping

from runrig.domain.usage import QUOTA, TREE, Key
from runrig.engine.quota.numbers import borrowed, debt_by_child, lent_by_all
from runrig.engine.quota.pool_tree import QuotaTree
from runrig.engine.quota.quota_node import REAL, NodeKind, QuotaNode

MOST_SUMMED = 100_000
"""GPUs. A quota above it means no limit. A day of a thousand such pools fits in the 64 bits of a database."""


class QuotaSums:
    """Remembers the numbers, and yields those that changed, as (key, value)."""

    def __init__(self) -> None:
        self._known: dict[Key, int] = {}
        self._used: dict[tuple[QuotaNode, int], int] = {}
        self._lent: dict[tuple[QuotaNode, int], dict[QuotaNode, int]] = {}
        self._drawing: set[QuotaNode] = set()

    def declared(self, tree: QuotaTree) -> Iterator[tuple[Key, int]]:
        """After a declaration: everything. O(nodes × depth × flavors)."""
        for known in (self._drawing, self._used, self._lent):
            known.clear()
        lends, nothing = lent_by_all(tree.root), [0] * len(tree.keys)
        for node, parts in lends.items():
            for at in tree.gpus:
                if node.parent is not None and parts[at]:
                    self._lent.setdefault((node.parent, at), {})[node] = parts[at]
        gone = dict.fromkeys(self._known, 0)
        for node, quota in _quotas(tree).items():
            for index in tree.gpus:
                key = (_table(node), node.name, tree.keys[index].flavor)
                now = [("quota", quota[index]), *self._of_node(node, index)]
                now.append(("lent", lends.get(node, nothing)[index]))
                for column, value in now:
                    gone.pop((*key, column), None)
                    yield from self._changed((*key, column), value)
        for each in gone:
            yield from self._changed(each, 0)

    def used(self, tree: QuotaTree, pools: Collection[str]) -> Iterator[tuple[Key, int]]:
        """After the usage of *pools* changed. O(nodes on their paths, with siblings, + pools that draw)."""
        moved = set()
        on_paths = {node for name in pools for node in _counted(_own(tree.firm[name]))}
        # If a guarantee was cut, pools off the path can draw more or less.
        for node in sorted(self._drawing | on_paths, key=lambda node: (node.name, node.kind.value)):
            for index in tree.gpus:
                for column, value in self._of_node(node, index):
                    yield from self._changed((_table(node), node.name, tree.keys[index].flavor, column), value)
                if self._used.get((node, index)) != node.usage[REAL][index]:
                    self._used[node, index] = node.usage[REAL][index]
                    moved.add(index)
        below: dict[QuotaNode | None, set[QuotaNode]] = {}
        for node in {node for name in pools for node in _own(tree.firm[name]).path}:
            below.setdefault(node.parent, set()).add(node)
        for index in sorted(moved):
            yield from self._lend(tree, index, below)

    def _of_node(self, node: QuotaNode, index: int) -> list[tuple[str, int]]:
        drawn = node.drawn(index)
        if node.asked_above(index):
            self._drawing.add(node)
        return [("drawn", drawn), ("borrowed", borrowed(node, index))]

    def _lend(
        self, tree: QuotaTree, index: int, below: Mapping[QuotaNode | None, Collection[QuotaNode]]
    ) -> Iterator[tuple[Key, int]]:
        """The changed amounts that nodes lend: children of changed nodes (*below*: parent → those of its children), and nodes
        below a node whose amount changed.
        """
        waiting = [(tree.root, 0)]
        while waiting:
            node, owed = waiting.pop()
            now, before = dict(debt_by_child(node, index, owed)), self._lent.get((node, index), {})
            self._lent[node, index] = now
            for child in {*(child for child, _ in now.items() ^ before.items()), *below.get(node, ())}:
                part = now.get(child, 0)
                if child.kind is not NodeKind.COHORT:
                    # A pool without subpools lends what its own node lends.
                    yield from self._changed((_table(child), child.name, tree.keys[index].flavor, "lent"), part)
                if child.kind is NodeKind.COHORT or _has_subpools(child):
                    waiting.append((child, part))

    def _changed(self, key: Key, value: int) -> Iterator[tuple[Key, int]]:
        value = min(value, MOST_SUMMED)
        if value != self._known.get(key, 0):
            self._known[key] = value
            yield key, value


def _quotas(tree: QuotaTree) -> dict[QuotaNode, list[int]]:
    """The nodes with sums, and the quotas of the own nodes in them."""
    found: dict[QuotaNode, list[int]] = {}
    for firm in tree.firm.values():
        own = _own(firm)
        for node in _counted(own):
            quota = found.setdefault(node, [0] * len(tree.keys))
            for index in tree.gpus:
                quota[index] += max(0, own.subtree[index])
    return found


def _counted(own: QuotaNode) -> Iterator[QuotaNode]:
    yield own
    yield from filter(_has_subpools, own.path)


def _has_subpools(node: QuotaNode) -> bool:
    return node.kind is NodeKind.POOL and len(node.children) > 1


def _table(node: QuotaNode) -> str:
    return TREE if _has_subpools(node) else QUOTA


def _own(firm: QuotaNode) -> QuotaNode:
    assert firm.parent is not None
    return firm.parent
