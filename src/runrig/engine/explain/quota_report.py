"""The quota tree for people: what each cohort and pool was given, holds, borrows and lends (laws Q3-Q6, Q8).

Everything counts what is held now, gangs that are stopping included.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import add
from typing import NamedTuple

from runrig.domain.quantities import UNLISTED_IS_UNCOUNTED, FlavorResource
from runrig.engine.quota.guarantees import nodes_under, overdrawn
from runrig.engine.quota.numbers import balance_of, held_below, lent, lent_by_all
from runrig.engine.quota.pool_tree import QuotaTree
from runrig.engine.quota.quota_node import Kind, QuotaLeaf, QuotaNode
from runrig.engine.state.state import State


class NodeBalance(NamedTuple):
    """The numbers of one (flavor, resource) at one node of the tree.

    *subtree*: its nominal and what its children lend it; *local*: the part of that which its lending limit keeps inside;
    *usage*: what its subtree holds beyond the local parts of its children; *balance*: T of law Q3, negative while it borrows;
    *headroom*, *potential*: law Q4, both 0 where parents run in a circle; *used*: held by HIGH and NORMAL below, *total*: by all;
    *drawn*: held by firm work of what cohorts above share (law P2); *borrowed*, *lent*: from and to the rest of the tree;
    *over*: how far it is beyond what an admission would be granted.
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
    drawn: int
    borrowed: int
    lent: int
    over: int


class TreeRow(NamedTuple):
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
    return _rows(state, nodes)


def rows_of_pools(state: State) -> tuple[TreeRow, ...]:
    """Returns the rows of the pools alone, in the tree's order."""
    return _rows(state, state.ledger.tree.pools.values())


def _rows(state: State, nodes: Iterable[QuotaNode]) -> tuple[TreeRow, ...]:
    sums = _Sums.of_tree(state.ledger.tree)
    return tuple([_row(state, node, sums) for node in nodes])


def pool_row(state: State, name: str) -> TreeRow | None:
    """The row of the pool *name*, without those of others; None if it is not in the tree.

    O(what hangs below it + depth x siblings of those above).
    """
    node = state.ledger.tree.pools.get(name)
    return None if node is None else _row(state, node, _Sums.of_node(node))


def overpromised(state: State) -> Mapping[FlavorResource, int]:
    """How much more cohorts and pools were promised than all registered nodes have, up or down (law Q8).

    A resource is skipped if any node of the flavor leaves it unlimited.
    """
    tree, nodes = state.ledger.tree, state.nodes.values()
    capacity = state.ledger.nodes.capacity
    over = {key: tree.promised[index] - capacity.get(key, 0) for index, key in enumerate(tree.keys)}

    def is_endless(key: FlavorResource) -> bool:
        return key.resource in UNLISTED_IS_UNCOUNTED and any(
            node.flavor == key.flavor and key.resource not in node.resources for node in nodes
        )

    return {key: amount for key, amount in over.items() if amount > 0 and nodes and not is_endless(key)}


@dataclass(frozen=True, slots=True)
class _Sums:
    """The amounts held, by firm work and by all, and lent, per node and index; nodes with nothing of it may be left out."""

    used: Mapping[QuotaNode, Sequence[int]]
    total: Mapping[QuotaNode, Sequence[int]]
    lent: Mapping[QuotaNode, Sequence[int]]

    @classmethod
    def of_tree(cls, tree: QuotaTree) -> "_Sums":
        """Sums all nodes at once: O(nodes x depth x indices)."""
        used, low = held_below(tree.firm.values()), held_below(tree.low.values())
        total = used | {node: [*map(add, held, used[node])] if node in used else held for node, held in low.items()}
        return cls(used, total, lent_by_all(tree.root))

    @classmethod
    def of_node(cls, node: QuotaNode) -> "_Sums":
        leaves = [each for each in nodes_under(node) if isinstance(each, QuotaLeaf)]
        lends = [lent(node, index) for index in range(len(node.nominal))]
        return cls(held_below(leaf for leaf in leaves if leaf.kind is Kind.FIRM), held_below(leaves), {node: lends})


def _row(state: State, node: QuotaNode, sums: _Sums) -> TreeRow:
    keys = state.ledger.tree.keys
    balances = {key: _balance(node, index, sums) for index, key in enumerate(keys)}
    parent = node.parent.name if node.parent is not None else ""
    declared = node.kind is not Kind.COHORT or node.name in state.cohorts
    return TreeRow(node.name, node.kind.value, parent, node.active, declared, balances)


def _balance(node: QuotaNode, index: int, sums: _Sums) -> NodeBalance:
    nominal, subtree, local, usage, balance, headroom, potential = balance_of(node, index)
    used = sums.used[node][index] if node in sums.used else 0
    drawn = node.drawn(index)
    return NodeBalance(
        nominal,
        node.borrowing[index],
        node.lending[index],
        subtree,
        local,
        usage,
        balance,
        headroom,
        potential,
        used,
        sums.total[node][index] if node in sums.total else 0,
        drawn,
        max(0, -balance - drawn),
        sums.lent[node][index] if node in sums.lent else 0,
        _over(node, index, used),
    )


def _over(node: QuotaNode, index: int, used: int) -> int:
    """Returns the largest excess over a rule of the node itself; 0: no rule is exceeded."""
    limit = 0 if node.kind is Kind.ROOT else node.borrowing[index]
    over = 0 if limit is None else max(0, -node.balance(index) - limit)
    if node.guarantee is not None:
        return max(over, overdrawn(node, index))
    if node.kind is Kind.POOL:  # law P2: firm work in the pool's own share, and with its subpools in all of it
        over = max(over, used - node.nominal[index])
        for own in node.children:
            if own.kind is Kind.OWN:
                for leaf in own.children:
                    if leaf.kind is Kind.FIRM:
                        over = max(over, -leaf.balance(index))
    return over
