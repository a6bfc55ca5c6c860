"""The quota tree of our own dialect: cohorts, pools and what is inside a pool (laws Q1, Q5, Q6, Q8).

A pool is a small cohort: under its node hang `own`, with a firm and a low leaf, and its subpools beside it.
"""

from collections.abc import Iterable, Iterator, Mapping

from runrig.domain.pools import MOST_WEIGHT, Cohort, Pool, PoolState, Quota
from runrig.domain.quantities import GPU, FlavorResource
from runrig.engine.quota.guarantees import add_guarantees
from runrig.engine.quota.quota_node import NO_QUOTA, Kind, QuotaLeaf, QuotaNode, note_borrowed
from runrig.engine.quota.tree import TreeBuilder, hang


class QuotaTree:
    """The whole tree.  Built from what is declared; only usage changes afterwards.

    *weighted*: not all pools and cohorts have the same weight, so shares order the work that borrows (laws P4, R3).
    Cost of building: O(nodes x flavors x resources).
    """

    def __init__(
        self, cohorts: Iterable[Cohort], pools: Iterable[Pool], capacity: Mapping[FlavorResource, int]
    ) -> None:
        declared = sorted(cohorts, key=lambda cohort: cohort.name)
        live = sorted((pool for pool in pools if pool.state is not PoolState.ARCHIVED), key=lambda pool: pool.name)
        quotas = [*(cohort.quotas for cohort in declared), *(pool.quotas for pool in live)]
        builder = TreeBuilder([*capacity, *(key for each in quotas for key in each)])
        self.keys = builder.keys
        self.index_of = builder.index_of
        self.root = builder.node(Kind.ROOT, "", {})
        self.cohorts: dict[str, QuotaNode] = {}
        self.pools: dict[str, QuotaNode] = {}
        self.firm: dict[str, QuotaLeaf] = {}
        self.low: dict[str, QuotaLeaf] = {}
        self._add_cohorts(builder, declared, live)
        for pool in live:
            self._add_pool(builder, pool)
        for pool in live:
            self._hang_pool(pool)
        for index, key in enumerate(self.keys):
            self.root.nominal[index] = max(0, capacity.get(key, 0) - self.promised(index))  # law Q8
        add_guarantees(builder, self.root)
        builder.finish()
        for name in self.pools:
            self._finish_leaves(name)
        self.weighted = len({node.weight for node in (*self.cohorts.values(), *self.pools.values())}) > 1
        if self.weighted:
            self._keep_borrowed()

    def _add_cohorts(self, builder: TreeBuilder, declared: list[Cohort], pools: list[Pool]) -> None:
        for cohort in declared:
            self.cohorts[cohort.name] = builder.node(Kind.COHORT, cohort.name, cohort.quotas, _weight(cohort))
        named = {cohort.parent for cohort in declared} | {pool.cohort for pool in pools}
        for name in sorted(name for name in named if name is not None and name not in self.cohorts):
            self.cohorts[name] = builder.node(Kind.COHORT, name, {})  # law Q6: named but not defined
        for cohort in declared:
            hang(self.cohorts[cohort.name], self.cohorts[cohort.parent] if cohort.parent else self.root)
        for node in self.cohorts.values():
            if node.parent is None:
                hang(node, self.root)

    def _add_pool(self, builder: TreeBuilder, pool: Pool) -> None:
        """The node of *pool*, with `own` and both leaves under it.

        `own` weighs as much as the pool, and so do its subpools (law S5): they stand beside each other as equals.
        """
        node = builder.node(Kind.POOL, pool.name, pool.quotas, _weight(pool))
        node.pool = pool
        own = builder.node(Kind.OWN, pool.name, {}, _weight(pool))
        firm = builder.leaf(Kind.FIRM, pool.name, {key: Quota(quota.nominal) for key, quota in pool.quotas.items()})
        firm.borrowing = [0] * len(self.keys)
        low = builder.leaf(Kind.LOW, pool.name, {})
        hang(own, node)
        hang(firm, own)
        hang(low, own)
        self.pools[pool.name], self.firm[pool.name], self.low[pool.name] = node, firm, low

    def _hang_pool(self, pool: Pool) -> None:
        if pool.parent is None:
            hang(self.pools[pool.name], self.cohorts[pool.cohort] if pool.cohort else self.root)
            return
        hang(self.pools[pool.name], self.pools[pool.parent])
        firm = self.firm[pool.parent]
        for index, key in enumerate(self.keys):
            firm.nominal[index] -= pool.quotas.get(key, NO_QUOTA).nominal

    def _finish_leaves(self, name: str) -> None:
        firm, low = self.firm[name], self.low[name]
        pools = [node for node in firm.path if node.kind is Kind.POOL]
        firm.outermost_pool = low.outermost_pool = pools[-1]
        firm.pools_above = tuple(pool for pool in pools if _has_subpools(pool))
        firm.guarded = bool(firm.pools_above) or firm.twin is not None
        firm.counted = low.counted = self._counted(self.pools[name])

    def _counted(self, pool: QuotaNode) -> frozenset[str]:
        """The resources that *pool* or something above it has a quota of, gpu always; nodes alone limit the rest."""
        own = {key.resource for node in pool.path if node.pool is not None for key in node.pool.quotas}
        above = {
            self.keys[index].resource
            for node in pool.path
            if node.kind is Kind.COHORT
            for index in range(len(self.keys))
            if node.nominal[index] or node.borrowing[index] is not None or node.lending[index] is not None
        }
        return frozenset(own | above | {GPU})

    def _keep_borrowed(self) -> None:
        gpus = tuple(index for index, key in enumerate(self.keys) if key.resource == GPU)
        for leaf in (*self.firm.values(), *self.low.values()):
            leaf.weighed = gpus
            note_borrowed(leaf)

    def promised(self, index: int) -> int:
        """What cohorts and top-level pools have as nominal, together."""
        return sum(node.nominal[index] for node in self._promising())

    def _promising(self) -> Iterator[QuotaNode]:
        yield from self.cohorts.values()
        yield from (node for node in self.pools.values() if node.pool is not None and node.pool.parent is None)

    def nodes(self) -> Iterator[QuotaNode]:
        """All of them, parents' kinds first: root, cohorts, pools, then what is inside pools."""
        yield self.root
        yield from self.cohorts.values()
        yield from self.pools.values()
        for name, firm in self.firm.items():
            assert firm.parent is not None
            yield firm.parent
            yield firm
            yield self.low[name]


def _weight(declared: Pool | Cohort) -> int:
    """Earlier releases, in which weights decided nothing, took any number over HTTP and stored it."""
    return min(max(1, declared.weight), MOST_WEIGHT)


def _has_subpools(pool: QuotaNode) -> bool:
    return any(child.kind is Kind.POOL for child in pool.children)
