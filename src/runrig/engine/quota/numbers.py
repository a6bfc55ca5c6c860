"""The numbers of a node for people: what it has, holds, borrows and lends, as things are now (layer REAL; laws Q3, Q4)."""

from collections.abc import Iterable, Iterator
from operator import add, gt

from runrig.domain.balances import Balance
from runrig.engine.quota.quota_node import REAL, Kind, QuotaLeaf, QuotaNode, headroom, potential


def balance_of(node: QuotaNode, index: int) -> Balance:
    """Headroom and potential are 0 where parents run in a circle (law Q5)."""
    lends, subtree, usage = node.lending[index], node.subtree[index], node.usage[REAL][index]
    return Balance(
        node.nominal[index],
        subtree,
        0 if lends is None else max(0, subtree - lends),
        usage,
        subtree - usage,
        headroom(node, index, REAL) if node.active else 0,
        potential(node, index) if node.active else 0,
    )


def headroom_now(node: QuotaNode, index: int) -> int:
    """0 where parents run in a circle (law Q5)."""
    return headroom(node, index, REAL) if node.active else 0


def borrowed(node: QuotaNode, index: int) -> int:
    """Returns what the subtree holds above what it brings and its firm work draws."""
    return max(0, -node.balance(index) - node.drawn(index))


def held_below(leaves: Iterable[QuotaLeaf]) -> dict[QuotaNode, list[int]]:
    """Per node and index, what *leaves* below it hold; only of nodes below which something is held.  O(leaves x depth x indices).

    A node's own usage leaves out what lending limits keep further down.
    """
    held: dict[QuotaNode, list[int]] = {}
    for leaf in leaves:
        usage = leaf.usage[REAL]
        for node in leaf.path if any(usage) else ():
            known = held.get(node)
            held[node] = list(usage) if known is None else list(map(add, known, usage))
    return held


def lent(node: QuotaNode, index: int) -> int:
    """Returns what others hold of the idle promise of *node*; without looking at the whole tree."""
    if node.parent is None or not node.active:
        return 0
    parts = _debt_by_child(node.parent, index, lent(node.parent, index))
    return next(part for child, part in parts if child is node)


def lent_by_all(root: QuotaNode) -> dict[QuotaNode, list[int]]:
    """`lent` of every node below *root* that lends anything, per index, worked out at once.  O(nodes x indices)."""
    width = len(root.nominal)
    found: dict[QuotaNode, list[int]] = {}
    stack = [root]
    while stack:
        node = stack.pop()
        owed = found.get(node)
        # Most of a tree owes nothing: there nobody lends.
        borrow = False
        for child in node.children:
            borrow = borrow or any(map(gt, child.usage[REAL], child.subtree))
            if child.children:
                stack.append(child)
        if borrow or owed is not None:
            for index in range(width):
                for child, part in _debt_by_child(node, index, 0 if owed is None else owed[index]):
                    found.setdefault(child, [0] * width)[index] = part
    return found


def _debt_by_child(parent: QuotaNode, index: int, owed: int) -> Iterator[tuple[QuotaNode, int]]:
    """(child, what it lends) of all children; *owed*: what *parent* lends to the tree around it.

    Nobody records who borrows from whom, only the sums are certain.  The parent's own quota, which belongs to nobody, goes
    first; the rest is laid on the idle children in the order of their names, on each at most what it may lend.
    """
    balances = [(child, child.balance(index)) for child in parent.children]
    own = 0 if parent.kind is Kind.POOL else parent.nominal[index]
    debt = max(0, owed + sum(-balance for _, balance in balances if balance < 0) - own)
    for child, balance in sorted(balances, key=lambda pair: (pair[0].name, pair[0].kind.value)):
        limit = child.lending[index]
        part = min(debt, max(0, balance if limit is None else min(balance, limit)))
        debt -= part
        yield child, part
