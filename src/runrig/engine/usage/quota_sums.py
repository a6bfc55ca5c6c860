"""The numbers of pools that usage sums up: quota, drawn, borrowed and lent, of the pool's own node, without its subpools."""

from collections.abc import Collection, Iterator, Mapping

from runrig.domain.usage import QUOTA, Key
from runrig.engine.quota.numbers import borrowed, debt_by_child, lent_by_all
from runrig.engine.quota.pool_tree import QuotaTree
from runrig.engine.quota.quota_node import REAL, NodeKind, QuotaNode


class QuotaSums:
    """Remembers the numbers, and yields those that changed, as (key, value)."""

    def __init__(self) -> None:
        self._known: dict[Key, int] = {}
        self._used: dict[tuple[str, int], int] = {}
        self._lent: dict[tuple[QuotaNode, int], dict[QuotaNode, int]] = {}
        self._drawing: set[str] = set()

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
        for name, firm in tree.firm.items():
            own = _own(firm)
            for index in tree.gpus:
                key = (QUOTA, name, tree.keys[index].flavor)
                now = [("quota", max(0, own.subtree[index])), *self._of_node(own, index)]
                now.append(("lent", lends.get(own, nothing)[index]))
                for column, value in now:
                    gone.pop((*key, column), None)
                    yield from self._changed((*key, column), value)
        for each in gone:
            yield from self._changed(each, 0)

    def used(self, tree: QuotaTree, pools: Collection[str]) -> Iterator[tuple[Key, int]]:
        """After the usage of *pools* changed. O(nodes on their paths, with siblings, + pools that draw)."""
        moved = set()
        # If a guarantee was cut, pools off the path can draw more or less.
        for name in sorted(self._drawing.union(pools)):
            own = _own(tree.firm[name])
            for index in tree.gpus:
                for column, value in self._of_node(own, index):
                    yield from self._changed((QUOTA, name, tree.keys[index].flavor, column), value)
                if self._used.get((name, index)) != own.usage[REAL][index]:
                    self._used[name, index] = own.usage[REAL][index]
                    moved.add(index)
        below: dict[QuotaNode | None, set[QuotaNode]] = {}
        for node in {node for name in pools for node in _own(tree.firm[name]).path}:
            below.setdefault(node.parent, set()).add(node)
        for index in sorted(moved):
            yield from self._lend(tree, index, below)

    def _of_node(self, own: QuotaNode, index: int) -> list[tuple[str, int]]:
        drawn = own.drawn(index)
        if own.asked_above(index):
            self._drawing.add(own.name)
        return [("drawn", drawn), ("borrowed", borrowed(own, index))]

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
                # A pool without subpools lends what its own node lends.
                if child.kind is NodeKind.OWN or (child.kind is NodeKind.POOL and len(child.children) == 1):
                    yield from self._changed((QUOTA, child.name, tree.keys[index].flavor, "lent"), part)
                else:
                    waiting.append((child, part))

    def _changed(self, key: Key, value: int) -> Iterator[tuple[Key, int]]:
        if value != self._known.get(key, 0):
            self._known[key] = value
            yield key, value


def _own(firm: QuotaNode) -> QuotaNode:
    assert firm.parent is not None
    return firm.parent
