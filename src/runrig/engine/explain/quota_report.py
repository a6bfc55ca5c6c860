"""The quota tree for people: what each cohort and pool has, uses, borrows and lends (rules Q3–Q6, Q8).

All numbers show current usage, including gangs that are stopping.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import add

from runrig.domain.quantities import UNLISTED_IS_UNCOUNTED, FlavorResource
from runrig.domain.shown.pools import Balance, Balances, Cohort, quotas_of
from runrig.engine.quota.guarantees import nodes_under, overdrawn
from runrig.engine.quota.numbers import balance_of, held_below, lent, lent_by_all
from runrig.engine.quota.pool_tree import QuotaTree
from runrig.engine.quota.quota_node import NodeKind, QuotaLeaf, QuotaNode
from runrig.engine.state.state import State


def tree_rows(state: State) -> tuple[Cohort, ...]:
    """The root, the cohorts and the pools, without the nodes inside pools and without children; sorted by kind and name."""
    tree = state.ledger.tree
    keys, sums = _keys(tree), _Sums.of_tree(tree)
    return tuple([_row(state, node, _balances(node, keys, sums)) for node in tree.declared()])


def balances_of_pools(state: State) -> Mapping[str, Balances]:
    tree = state.ledger.tree
    keys, sums = _keys(tree), _Sums.of_tree(tree)
    return {name: _balances(node, keys, sums) for name, node in tree.pools.items()}


def balances_of_pool(state: State, name: str) -> Balances:
    """The balances of one pool; empty if it is not in the tree.

    O(nodes below it + depth × siblings of its ancestors).
    """
    tree = state.ledger.tree
    node = tree.pools.get(name)
    return {} if node is None else _balances(node, _keys(tree), _Sums.of_pool(tree, node))


def overpromised(state: State) -> Mapping[FlavorResource, int]:
    """By how much the quotas of cohorts and pools exceed all registered nodes, ready or not (rule Q8).

    Skips resources that some node of the flavor does not limit.
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
    """Used by guaranteed work, used in total, and lent, per node and index. Nodes without any may be missing. *firm*: by pool."""

    firm: Mapping[str, QuotaLeaf]
    used: Mapping[QuotaNode, Sequence[int]]
    total: Mapping[QuotaNode, Sequence[int]]
    lent: Mapping[QuotaNode, Sequence[int]]

    @classmethod
    def of_tree(cls, tree: QuotaTree) -> "_Sums":
        """Sums for all nodes: O(nodes × depth × indices)."""
        used, low = held_below(tree.firm.values()), held_below(tree.low.values())
        total = used | {node: [*map(add, held, used[node])] if node in used else held for node, held in low.items()}
        return cls(tree.firm, used, total, lent_by_all(tree.root))

    @classmethod
    def of_pool(cls, tree: QuotaTree, pool: QuotaNode) -> "_Sums":
        leaves = [each for each in nodes_under(pool) if isinstance(each, QuotaLeaf)]
        used = held_below(leaf for leaf in leaves if leaf.kind is NodeKind.FIRM)
        return cls(tree.firm, used, held_below(leaves), {pool: [lent(pool, at) for at in range(len(tree.keys))]})


def _row(state: State, node: QuotaNode, balances: Balances) -> Cohort:
    above = node.parent if node.parent is not None and node.parent.kind is not NodeKind.ROOT else None
    pool = state.pools[node.name] if node.kind is NodeKind.POOL else None
    declared = state.cohorts.get(node.name) if node.kind is NodeKind.COHORT else pool
    return Cohort(
        name=node.name,
        kind=node.kind.value,
        parent=None if above is None else above.name,
        parent_kind=None if above is None else above.kind.value,
        children=(),
        declared=declared is not None or node.kind is NodeKind.ROOT,
        active=node.active,
        weight=1 if declared is None else declared.weight,
        quotas={} if declared is None else quotas_of(declared.quotas),
        balances=balances,
        state=None if pool is None else pool.state,
    )


def _keys(tree: QuotaTree) -> list[tuple[str, int]]:
    return [(str(key), index) for key, index in sorted(zip(tree.keys, range(len(tree.keys)), strict=True))]


def _balances(node: QuotaNode, keys: Iterable[tuple[str, int]], sums: _Sums) -> Balances:
    return {key: _balance(node, index, sums) for key, index in keys}


def _balance(node: QuotaNode, index: int, sums: _Sums) -> Balance:
    nominal, subtree, local, usage, balance, headroom, potential, _ = balance_of(node, index)
    used = sums.used[node][index] if node in sums.used else 0
    drawn = node.drawn(index)
    return Balance(
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
        _over(node, index, used, sums),
    )


def _over(node: QuotaNode, index: int, used: int, sums: _Sums) -> int:
    """The largest excess over a rule of the node itself; 0: no rule is exceeded."""
    limit = 0 if node.kind is NodeKind.ROOT else node.borrowing[index]
    over = 0 if limit is None else max(0, -node.balance(index) - limit)
    if node.guarantee is not None:
        return max(over, overdrawn(node, index))
    if node.kind is NodeKind.POOL:  # rule P2: guaranteed work in the pool's own share; with its subpools, in all of it
        return max(over, used - node.nominal[index], -sums.firm[node.name].balance(index))
    return over
