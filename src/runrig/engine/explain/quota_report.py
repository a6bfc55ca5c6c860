"""The quota tree for people: what each cohort and pool was given, holds, borrows and lends (laws Q3-Q6, Q8).

Everything counts what is held now, gangs that are stopping included.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from runrig.domain.quantities import UNLISTED_IS_UNCOUNTED, FlavorResource
from runrig.engine.quota.guarantees import overdrawn
from runrig.engine.quota.numbers import balance_of, borrowed, held_below, lent_by_all
from runrig.engine.quota.pool_tree import QuotaTree
from runrig.engine.quota.quota_node import Kind, QuotaNode
from runrig.engine.state.state import State


@dataclass(frozen=True, slots=True)
class NodeBalance:
    """Of one (flavor, resource) at one node of the tree.

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

    A resource is skipped if any node of the flavor leaves it unlimited.
    """
    tree, nodes = state.ledger.tree, state.nodes.values()
    capacity = state.ledger.nodes.capacity
    endless = {
        FlavorResource(node.flavor, resource)
        for node in nodes
        for resource in UNLISTED_IS_UNCOUNTED
        if resource not in node.resources
    }
    over = {key: tree.promised[index] - capacity.get(key, 0) for index, key in enumerate(tree.keys)}
    return {key: amount for key, amount in over.items() if amount > 0 and nodes and key not in endless}


class _Sums:
    """What is held and lent, per node, worked out for the whole tree at once: O(nodes x depth x keys)."""

    def __init__(self, tree: QuotaTree) -> None:
        self.nothing = [0] * len(tree.keys)
        self.used = held_below(tree.firm.values())
        self.total = held_below((*tree.firm.values(), *tree.low.values()))
        self.lent = lent_by_all(tree.root)


def _row(state: State, node: QuotaNode, sums: _Sums) -> TreeRow:
    keys = state.ledger.tree.keys
    balances = {key: _balance(node, index, sums) for index, key in enumerate(keys)}
    parent = node.parent.name if node.parent is not None else ""
    declared = node.kind is not Kind.COHORT or node.name in state.cohorts
    return TreeRow(node.name, node.kind.value, parent, node.active, declared, balances)


def _balance(node: QuotaNode, index: int, sums: _Sums) -> NodeBalance:
    now = balance_of(node, index)
    used = sums.used.get(node, sums.nothing)[index]
    return NodeBalance(
        nominal=now.nominal,
        borrowing_limit=node.borrowing[index],
        lending_limit=node.lending[index],
        subtree=now.subtree,
        local=now.local,
        usage=now.usage,
        balance=now.balance,
        headroom=now.available,
        potential=now.potential,
        used=used,
        total=sums.total.get(node, sums.nothing)[index],
        drawn=node.drawn(index),
        borrowed=borrowed(node, index),
        lent=sums.lent.get(node, sums.nothing)[index],
        over=max(0, *_excesses(node, index, used)),
    )


def _excesses(node: QuotaNode, index: int, used: int) -> Iterable[int]:
    """By how much each rule of the node itself is exceeded; negative: not at all."""
    owes = -node.balance(index)
    limit = 0 if node.kind is Kind.ROOT else node.borrowing[index]
    yield 0 if limit is None else owes - limit
    if node.guarantee is not None:
        yield overdrawn(node, index)
    elif node.kind is Kind.POOL:  # law P2: firm work in the pool's own share, and with its subpools in all of it
        yield used - node.nominal[index]
        for own in node.children:
            if own.kind is Kind.OWN:
                yield from (-leaf.balance(index) for leaf in own.children if leaf.kind is Kind.FIRM)
