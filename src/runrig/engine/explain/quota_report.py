"""The quota tree for people: what each cohort and pool was given, holds, borrows and lends (laws Q3-Q6, Q8).

Everything counts what is held now, gangs that are stopping included.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from runrig.domain.quantities import UNLISTED_IS_UNCOUNTED, FlavorResource
from runrig.engine.quota.pool_tree import QuotaTree
from runrig.engine.quota.quota_node import REAL, Kind, QuotaNode, headroom, potential
from runrig.engine.state.state import State


@dataclass(frozen=True, slots=True)
class NodeBalance:
    """Of one (flavor, resource) at one node of the tree.

    *subtree*: its nominal and what its children lend it; *local*: the part of that which its lending limit keeps inside;
    *usage*: what its subtree holds beyond the local parts of its children; *balance*: T of law Q3, negative while it borrows;
    *headroom*, *potential*: law Q4, both 0 where parents run in a circle; *used*: held by HIGH and NORMAL below, *total*: by all;
    *borrowed*, *lent*: from and to the rest of the tree; *pools_over_nominal*: how far it is beyond what an admission would be granted.
    """

    nominal: int
    borrowing_limit: int | None
    lending_limit: int | None
    subtree: int
    local: int
    usage: int
    balance: int
    headroom: int
    potential: int
    used: int
    total: int
    borrowed: int
    lent: int
    over: int


@dataclass(frozen=True, slots=True)
class TreeRow:
    """*kind*: "root", "cohort" or "pool"; *parent* "" for what hangs under the root; *active* False: law Q5."""

    name: str
    kind: str
    parent: str
    active: bool
    declared: bool
    balances: Mapping[FlavorResource, NodeBalance]


def tree_rows(state: State) -> tuple[TreeRow, ...]:
    """The root, the cohorts and the pools (what is inside a pool left out), by kind and name."""
    tree = state.ledger.tree
    nodes = [
        tree.root,
        *(node for _, node in sorted(tree.cohorts.items())),
        *(node for _, node in sorted(tree.pools.items())),
    ]
    sums = _Sums(tree)
    return tuple(_row(state, node, sums) for node in nodes)


def overpromised(state: State) -> Mapping[FlavorResource, int]:
    """How much more cohorts and pools were promised than all registered nodes have, up or down (law Q8).

    Of what some node of the flavor does not limit there is no end.
    """
    tree, nodes = state.ledger.tree, state.nodes.values()
    capacity = state.ledger.nodes.capacity({key.resource for key in tree.keys})
    endless = {
        FlavorResource(node.flavor, resource)
        for node in nodes
        for resource in UNLISTED_IS_UNCOUNTED
        if resource not in node.resources
    }
    over = {key: tree.promised(index) - capacity.get(key, 0) for index, key in enumerate(tree.keys)}
    return {key: amount for key, amount in over.items() if amount > 0 and nodes and key not in endless}


class _Sums:
    """What is held and lent, per node, worked out for the whole tree at once: O(nodes x depth x keys)."""

    def __init__(self, tree: QuotaTree) -> None:
        width = len(tree.keys)
        self.used = {id(node): [0] * width for node in tree.nodes()}
        self.total = {id(node): [0] * width for node in tree.nodes()}
        self.lent = {id(node): [0] * width for node in tree.nodes()}
        for leaf in (*tree.firm.values(), *tree.low.values()):
            for node in leaf.path:
                for index, amount in enumerate(leaf.usage[REAL]):
                    self.total[id(node)][index] += amount
                    self.used[id(node)][index] += amount if leaf.kind is Kind.FIRM else 0
        self._hand_down(tree.root, width)

    def _hand_down(self, root: QuotaNode, width: int) -> None:
        stack = [root]
        while stack:
            node = stack.pop()
            for index in range(width):
                owed = self.lent[id(node)][index]
                # Most of a tree owes nothing: there nobody lends.
                if owed or any(child.usage[REAL][index] > child.subtree[index] for child in node.children):
                    for child, part in _shares_of_debt(node, index, owed):
                        self.lent[id(child)][index] = part
            stack.extend(node.children)


def lent(node: QuotaNode, index: int) -> int:
    """Of the idle promise of *node*, what others hold; of one node without looking at the whole tree."""
    if node.parent is None or not node.active:
        return 0
    parts = _shares_of_debt(node.parent, index, lent(node.parent, index))
    return next(part for child, part in parts if child is node)


def _shares_of_debt(parent: QuotaNode, index: int, owed: int) -> Iterator[tuple[QuotaNode, int]]:
    """(child, what it lends), of all children; *owed*: what *parent* lends to the tree around it.

    Nobody records who borrows from whom, only the sums are certain.  The parent's own quota, which belongs to nobody, goes
    first; the rest is laid on the idle children in the order of their names, on each at most what it may lend.
    """
    balances = [(child, child.balance(index)) for child in parent.children]
    own = 0 if parent.kind is Kind.POOL else parent.nominal[index]
    debt = max(0, owed + sum(-balance for _, balance in balances if balance < 0) - own)
    for child, balance in sorted(balances, key=lambda each: (each[0].name, each[0].kind.value)):
        limit = child.lending[index]
        part = min(debt, max(0, balance if limit is None else min(balance, limit)))
        debt -= part
        yield child, part


def _row(state: State, node: QuotaNode, sums: _Sums) -> TreeRow:
    keys = state.ledger.tree.keys
    balances = {key: _balance(node, index, sums) for index, key in enumerate(keys)}
    parent = node.parent.name if node.parent is not None else ""
    declared = node.kind is not Kind.COHORT or node.name in state.cohorts
    return TreeRow(node.name, node.kind.value, parent, node.active, declared, balances)


def _balance(node: QuotaNode, index: int, sums: _Sums) -> NodeBalance:
    balance, used = node.balance(index), sums.used[id(node)][index]
    return NodeBalance(
        nominal=node.nominal[index],
        borrowing_limit=node.borrowing[index],
        lending_limit=node.lending[index],
        subtree=node.subtree[index],
        local=node.local[index],
        usage=node.usage[REAL][index],
        balance=balance,
        headroom=headroom(node, index, REAL) if node.active else 0,
        potential=potential(node, index) if node.active else 0,
        used=used,
        total=sums.total[id(node)][index],
        borrowed=max(0, -balance),
        lent=sums.lent[id(node)][index],
        over=max(0, *_excesses(node, index, used)),
    )


def _excesses(node: QuotaNode, index: int, used: int) -> Iterable[int]:
    """By how much each rule of the node itself is exceeded; negative: not at all."""
    owes = -node.balance(index)
    limit = 0 if node.kind is Kind.ROOT else node.borrowing[index]
    yield 0 if limit is None else owes - limit
    if node.kind is Kind.POOL:  # law P2: firm work in the pool's own share, and with its subpools in all of it
        yield used - node.nominal[index]
        for own in node.children:
            if own.kind is Kind.OWN:
                yield from (-leaf.balance(index) for leaf in own.children if leaf.kind is Kind.FIRM)
