"""The quota tree of runrig's own pools: cohorts, pools and the nodes inside a pool (rules Q1, Q5, Q6, Q8).

A pool is a small cohort: its node has a child `own` with a firm and a low leaf, and its subpools next to it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from runrig.domain.pools import MOST_WEIGHT, Cohort, Pool, PoolState, Quota
from runrig.domain.quantities import GPU, FlavorResource, Requests, totals
from runrig.engine.quota.guarantees import guarantees
from runrig.engine.quota.quota_node import CHARGED, NodeKind, QuotaLeaf, QuotaNode, Request, note_borrowed
from runrig.engine.quota.tree import TreeBuilder, hang

_OF_POOLS = NodeKind.POOL, NodeKind.OWN


class QuotaTree:
    """The whole tree. Only `tree_edits` changes it after construction; everything else changes only usage.

    *uses*: (flavor, resource) → number of quotas for it. `promised`: per index, the nominal quota of all cohorts and
    top-level pools.
    *firm_root*: the twin of the root. It has no quota, since capacity without a guarantee is for LOW work (rule Q8).
    *weighted*: weights differ, so shares determine the order of borrowing work (rules P4, R3).
    Construction costs O(nodes × flavors × resources).
    """

    def __init__(
        self, cohorts: Iterable[Cohort], pools: Iterable[Pool], capacity: Mapping[FlavorResource, int]
    ) -> None:
        """*capacity*: of all nodes. Resources without any quota are left out, except gpu."""
        declared = sorted(cohorts, key=lambda cohort: cohort.name)
        live = sorted((pool for pool in pools if pool.state is not PoolState.ARCHIVED), key=lambda pool: pool.name)
        quotas = [*(cohort.quotas for cohort in declared), *(pool.quotas for pool in live)]
        self.uses = Counter(key for each in quotas for key in each)
        builder = TreeBuilder(keys_of(self.uses, capacity))
        self.keys = builder.keys
        self.index_of = builder.index_of
        self.root, self.firm_root = builder.node(NodeKind.ROOT, "", {}), builder.node(NodeKind.ROOT, "", {})
        self.cohorts: dict[str, QuotaNode] = {}
        self.pools: dict[str, QuotaNode] = {}
        self.firm: dict[str, QuotaLeaf] = {}
        self.low: dict[str, QuotaLeaf] = {}
        self._asked: dict[tuple[frozenset[str], str, Requests, int], Request] = {}
        self._add_cohorts(builder, declared, live)
        for pool in live:
            self.add_pool(builder, pool)
        for pool in live:
            hang(self.pools[pool.name], self.parent_of(pool))
        promising = [node for node in (*self.cohorts.values(), *self.pools.values()) if draws_on_nodes(node)]
        self.promised = [sum(node.nominal[index] for node in promising) for index in range(len(self.keys))]
        self.root.nominal = [self.left_over(index, capacity) for index in range(len(self.keys))]
        for pool in live:
            self.firm[pool.name].nominal = [left_to_firm(self.pools[pool.name], at) for at in range(len(self.keys))]
        for child in self.root.children:
            for twin in guarantees(child, self.firm_root, frozenset()):
                builder.adopt(twin)
        builder.finish()
        for name in self.pools:
            self.finish_leaves(name)
        self.weighted = self.weights_differ()
        if self.weighted:
            for leaf in (*self.firm.values(), *self.low.values()):
                leaf.weighed = self.gpus
                note_borrowed(leaf.path, leaf.weighed)

    def _add_cohorts(self, builder: TreeBuilder, declared: list[Cohort], pools: list[Pool]) -> None:
        for cohort in declared:
            self.cohorts[cohort.name] = builder.node(NodeKind.COHORT, cohort.name, cohort.quotas, weight_of(cohort))
        named = {cohort.parent for cohort in declared} | {pool.cohort for pool in pools if pool.parent is None}
        for name in sorted(name for name in named if name is not None and name not in self.cohorts):
            self.cohorts[name] = builder.node(NodeKind.COHORT, name, {})  # rule Q6: named but not declared
        for cohort in declared:
            hang(self.cohorts[cohort.name], self.cohorts[cohort.parent] if cohort.parent else self.root)
        for node in self.cohorts.values():
            if node.parent is None:
                hang(node, self.root)

    def add_pool(self, builder: TreeBuilder, pool: Pool) -> tuple[QuotaNode, ...]:
        """Creates the node of *pool*, not attached yet, with `own` and both leaves below it; returns all four, parents first.

        `own` has the pool's weight, as do its subpools (rule S5), so they are equals.
        """
        node = builder.node(NodeKind.POOL, pool.name, pool.quotas, weight_of(pool))
        node.pool = pool
        own = builder.node(NodeKind.OWN, pool.name, {}, weight_of(pool))
        firm = builder.leaf(NodeKind.FIRM, pool.name, {key: Quota(quota.nominal) for key, quota in pool.quotas.items()})
        firm.borrowing = [0] * len(self.keys)
        low = builder.leaf(NodeKind.LOW, pool.name, {})
        hang(own, node)
        hang(firm, own)
        hang(low, own)
        self.pools[pool.name], self.firm[pool.name], self.low[pool.name] = node, firm, low
        return node, own, firm, low

    def parent_of(self, pool: Pool) -> QuotaNode:
        if pool.parent is not None:
            return self.pools[pool.parent]
        return self.cohorts[pool.cohort] if pool.cohort else self.root

    def finish_leaves(self, name: str) -> None:
        """Sets what the leaves of a pool keep about the pools and quotas above them."""
        firm, low = self.firm[name], self.low[name]
        pools = [node for node in firm.path if node.kind is NodeKind.POOL]
        firm.outermost_pool = low.outermost_pool = pools[-1]
        firm.nominals = low.nominals = tuple(
            [(node.usage[CHARGED], node.subtree) for node in firm.path if node.kind in _OF_POOLS]
        )
        firm.pools_above = tuple(pool for pool in pools if has_subpools(pool))
        firm.guarded = bool(firm.pools_above) or firm.twin is not None
        firm.counted = low.counted = self._counted(self.pools[name])

    def _counted(self, pool: QuotaNode) -> frozenset[str]:
        """The resources for which *pool* or a node above it has a quota, and gpu. Only nodes limit other resources."""
        own = {key.resource for node in pool.path if node.pool is not None for key in node.pool.quotas}
        above = {
            self.keys[index].resource
            for node in pool.path
            if node.kind is NodeKind.COHORT
            for index in range(len(self.keys))
            if node.nominal[index] or node.borrowing[index] is not None or node.lending[index] is not None
        }
        return frozenset(own | above | {GPU})

    def left_over(self, index: int, capacity: Mapping[FlavorResource, int]) -> int:
        """The capacity that is not guaranteed to any pool or cohort (rule Q8)."""
        return max(0, capacity.get(self.keys[index], 0) - self.promised[index])

    def weights_differ(self) -> bool:
        return len({node.weight for node in (*self.cohorts.values(), *self.pools.values())}) > 1

    @cached_property
    def gpus(self) -> tuple[int, ...]:
        return tuple(index for index, key in enumerate(self.keys) if key.resource == GPU)

    def asked(self, counted: frozenset[str], flavor: str, requests: Requests, count: int) -> Request:
        """The request of *count* pods on *flavor* to the tree. Only resources in *counted* count."""
        key = (counted, flavor, requests, count)
        known = self._asked.get(key)
        if known is None:
            known = self._asked[key] = tuple(
                (self.index_of[FlavorResource(flavor, resource)], amount * count)
                for resource, amount in requests
                if resource in counted and count and FlavorResource(flavor, resource) in self.index_of
            )
        return known

    def declared(self) -> Iterator[QuotaNode]:
        """The root, the cohorts and the pools; each kind sorted by name."""
        yield self.root
        for kind in (self.cohorts, self.pools):
            yield from (node for _, node in sorted(kind.items()))

    def nodes(self) -> Iterator[QuotaNode]:
        """All nodes: `declared`, then the nodes inside pools, sorted by name."""
        yield from self.declared()
        for name, firm in sorted(self.firm.items()):
            assert firm.parent is not None
            yield firm.parent
            yield firm
            yield self.low[name]


def summed(parts: Iterable[Request]) -> Request:
    return tuple(sorted(totals(each for part in parts for each in part).items()))


def keys_of(uses: Mapping[FlavorResource, int], capacity: Mapping[FlavorResource, int]) -> set[FlavorResource]:
    """Every (flavor, resource) with a quota, and those of the nodes whose resource has some quota."""
    used = {key for key, count in uses.items() if count}
    resources = {key.resource for key in used} | {GPU}
    return used | {key for key in capacity if key.resource in resources}


def draws_on_nodes(node: QuotaNode) -> bool:
    """Whether the nominal quota of *node* comes from the capacity of the cluster: a cohort or a top-level pool."""
    return node.kind is NodeKind.COHORT or (node.pool is not None and node.pool.parent is None)


def left_to_firm(pool: QuotaNode, index: int) -> int:
    """The nominal quota of the pool's firm leaf: what its subpools leave; negative if they got more than the pool has."""
    return pool.nominal[index] - sum(child.nominal[index] for child in pool.children if child.kind is NodeKind.POOL)


def weight_of(declared: Pool | Cohort) -> int:
    """The weight, clamped: earlier releases, which ignored weights, stored any number that they got over HTTP."""
    return min(max(1, declared.weight), MOST_WEIGHT)


def has_subpools(pool: QuotaNode) -> bool:
    return any(child.kind is NodeKind.POOL for child in pool.children)
