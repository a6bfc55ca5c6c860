"""The numbers of a node for people: quota, usage, borrowed and lent, as they are now (layer REAL; rules Q3, Q4)."""

from collections.abc import Iterable, Iterator, Sequence
from operator import add, gt

from runrig.domain.balances import Balance
from runrig.engine.quota.quota_node import REAL, NodeKind, QuotaLeaf, QuotaNode, headroom, potential


def balance_of(node: QuotaNode, index: int) -> Balance:
    """The numbers of rules Q3 and Q4. Headroom and potential are 0 in a cycle of cohorts (rule Q5)."""
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
    """The current headroom of *node*; 0 in a cycle of cohorts (rule Q5)."""
    return headroom(node, index, REAL) if node.active else 0


def borrowed(node: QuotaNode, index: int) -> int:
    """Usage of the subtree above its own quota and the quota that its guaranteed work draws."""
    return max(0, -node.balance(index) - node.drawn(index))


def held_below(leaves: Iterable[QuotaLeaf]) -> dict[QuotaNode, list[int]]:
    """Node → usage per index of *leaves* below it; only nodes with usage. O(leaves × depth × indices).

    Unlike `QuotaNode.usage`, this includes usage that lending limits keep inside lower nodes.
    """
    held: dict[QuotaNode, list[int]] = {}
    for leaf in leaves:
        usage = leaf.usage[REAL]
        for node in leaf.path if any(usage) else ():
            known = held.get(node)
            held[node] = list(usage) if known is None else list(map(add, known, usage))
    return held


def lent(node: QuotaNode, index: int) -> int:
    """How much idle quota of *node* others use. Reads only the path to the root and its siblings."""
    if node.parent is None or not node.active:
        return 0
    parts = debt_by_child(node.parent, index, lent(node.parent, index))
    return next((part for child, part in parts if child is node), 0)


def lent_by_all(root: QuotaNode) -> dict[QuotaNode, list[int]]:
    """`lent` for every node below *root* that lends something, except the leaves of pools, per index. O(nodes × indices)."""
    width = len(root.nominal)
    found: dict[QuotaNode, list[int]] = {}
    stack = [root]
    while stack:
        node = stack.pop()
        owed = found.get(node)
        # Most subtrees lend nothing to each other; skip them.
        borrow = False
        for child in node.children:
            borrow = borrow or any(map(gt, child.usage[REAL], child.subtree))
            if child.children and child.kind is not NodeKind.OWN:
                stack.append(child)
        if borrow or owed is not None:
            for index in range(width):
                for child, part in debt_by_child(node, index, 0 if owed is None else owed[index]):
                    if child not in found:
                        found[child] = [0] * width
                    found[child][index] = part
    return found


def debt_by_child(parent: QuotaNode, index: int, owed: int) -> Iterator[tuple[QuotaNode, int]]:
    """Yields (child, amount that it lends) for the children that lend anything. *owed*: what *parent* lends to the rest of the
    tree.

    Only the sums are certain; who borrows from whom is not recorded. The parent's own quota counts as lent first. The rest is
    divided among the idle children, in proportion to what each can lend (rule U3).
    """
    over = sum([more for child in parent.children if (more := child.usage[REAL][index] - child.subtree[index]) > 0])
    debt = owed + over - (0 if parent.kind is NodeKind.POOL else parent.nominal[index])
    if debt <= 0:
        return
    lenders, rooms = list[QuotaNode](), list[int]()
    for child in parent.children:
        room, limit = child.subtree[index] - child.usage[REAL][index], child.lending[index]
        if limit is not None and limit < room:
            room = limit
        if room > 0:
            lenders.append(child)
            rooms.append(room)
    yield from zip(lenders, rooms if debt >= sum(rooms) else _divided(debt, rooms, lenders), strict=True)


def _divided(debt: int, rooms: Sequence[int], lenders: Sequence[QuotaNode]) -> Sequence[int]:
    """Whole parts of *debt* in proportion to *rooms*, by largest remainder, then by name. *debt* is less than their sum."""
    whole = sum(rooms)
    parts = [debt * room // whole for room in rooms]
    if missing := debt - sum(parts):
        cut = [debt * room % whole for room in rooms]
        least = sorted(cut)[-missing]
        last = [at for at, each in enumerate(cut) if each == least]
        up = [at for at, each in enumerate(cut) if each > least]
        last.sort(key=lambda at: (lenders[at].name, lenders[at].kind.value))
        for at in (*up, *last[: missing - len(up)]):
            parts[at] += 1
    return parts
