"""The numbers of pools that usage sums up: quota, drawn, borrowed and lent, of the pool's own node, without its subpools."""

from collections.abc import Collection, Iterator

from runrig.domain.usage import QUOTA, Key
from runrig.engine.quota.numbers import borrowed, debt_by_child, lent_by_all
from runrig.engine.quota.pool_tree import QuotaTree
from runrig.engine.quota.quota_node import REAL, NodeKind, QuotaNode


class QuotaSums:
    """Remembers the numbers, and yields those that changed, as (key, value)."""

    def __init__(self) -> None:
        self._known: dict[Key, int] = {}
        self._lent: dict[tuple[QuotaNode, int], int] = {}
        self._drawing: set[str] = set()

    def declared(self, tree: QuotaTree) -> Iterator[tuple[Key, int]]:
        """After a declaration: everything. O(nodes × depth × flavors)."""
        self._drawing.clear()
        lends = lent_by_all(tree.root)
        self._lent = {(node, at): parts[at] for node, parts in lends.items() for at in tree.gpus if parts[at]}
        gone = dict.fromkeys(self._known, 0)
        for name, firm in tree.firm.items():
            own = _own(firm)
            for index in tree.gpus:
                key = (QUOTA, name, tree.keys[index].flavor)
                now = [("quota", max(0, own.subtree[index])), *self._of_node(own, index)]
                now.append(("lent", self._lent.get((own, index), 0)))
                for column, value in now:
                    gone.pop((*key, column), None)
                    yield from self._changed((*key, column), value)
        for each in gone:
            yield from self._changed(each, 0)

    def used(self, tree: QuotaTree, pools: Collection[str]) -> Iterator[tuple[Key, int]]:
        """After the usage of *pools* changed. O(nodes on their paths, with siblings, + pools that draw)."""
        path = {node for name in pools for node in tree.firm[name].path}
        # If a guarantee was cut, pools off the path can draw more or less.
        for name in sorted(self._drawing.union(pools)):
            own = _own(tree.firm[name])
            for index in tree.gpus:
                for column, value in self._of_node(own, index):
                    yield from self._changed((QUOTA, name, tree.keys[index].flavor, column), value)
        for index in tree.gpus:
            yield from self._lend(tree, index, path)

    def _of_node(self, own: QuotaNode, index: int) -> list[tuple[str, int]]:
        drawn = own.drawn(index)
        if own.asked_above(index):
            self._drawing.add(own.name)
        return [("drawn", drawn), ("borrowed", borrowed(own, index))]

    def _lend(self, tree: QuotaTree, index: int, path: Collection[QuotaNode]) -> Iterator[tuple[Key, int]]:
        """The changed amounts that nodes lend: children of nodes on *path*, and nodes below a node whose amount changed."""
        waiting = [(tree.root, 0)]
        while waiting:
            node, owed = waiting.pop()
            for child, part in _parts(node, index, owed):
                known = self._lent.get((child, index), 0)
                if part != known:
                    self._lent[child, index] = part
                if child.kind is NodeKind.OWN:
                    yield from self._changed((QUOTA, child.name, tree.keys[index].flavor, "lent"), part)
                elif part != known or child in path:
                    waiting.append((child, part))

    def _changed(self, key: Key, value: int) -> Iterator[tuple[Key, int]]:
        if value != self._known.get(key, 0):
            self._known[key] = value
            yield key, value


def _own(firm: QuotaNode) -> QuotaNode:
    assert firm.parent is not None
    return firm.parent


def _parts(node: QuotaNode, index: int, owed: int) -> Iterator[tuple[QuotaNode, int]]:
    """`debt_by_child`, faster if nothing is borrowed."""
    if owed or any(child.usage[REAL][index] > child.subtree[index] for child in node.children):
        return debt_by_child(node, index, owed)
    return ((child, 0) for child in node.children)
