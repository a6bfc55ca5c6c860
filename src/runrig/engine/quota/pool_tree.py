"""The quota tree as declared: cohorts, pools and what is inside a pool, hung together and summed up (laws Q1, Q5, Q6, Q8).

A pool is a small cohort: under its node hang `own`, with a firm and a low leaf, and its subpools beside it.
"""

from collections.abc import Iterable, Iterator, Mapping

from runrig.domain.pools import Cohort, Pool, Quota, Quotas
from runrig.domain.quantities import GPU, FlavorResource
from runrig.engine.quota.quota_node import NO_QUOTA, Kind, QuotaNode, prepare, sum_up, upwards


class QuotaTree:
    """The whole tree.  Built from what is declared; only usage changes afterwards.

    Cost of building: O(nodes x flavors x resources).
    """

    def __init__(
        self, cohorts: Iterable[Cohort], pools: Iterable[Pool], capacity: Mapping[FlavorResource, int]
    ) -> None:
        declared = sorted(cohorts, key=lambda cohort: cohort.name)
        live = sorted((pool for pool in pools if pool.state.value != "ARCHIVED"), key=lambda pool: pool.name)
        keys = {
            key for quotas in (*(each.quotas for each in declared), *(each.quotas for each in live)) for key in quotas
        }
        keys |= set(capacity)
        self.keys: tuple[FlavorResource, ...] = tuple(sorted(keys))
        self.index_of: dict[FlavorResource, int] = {key: index for index, key in enumerate(self.keys)}
        self.root = self._node(Kind.ROOT, "", {})
        self.cohorts: dict[str, QuotaNode] = {}
        self.pools: dict[str, QuotaNode] = {}
        self.firm: dict[str, QuotaNode] = {}
        self.low: dict[str, QuotaNode] = {}
        self._add_cohorts(declared, live)
        self._add_pools(live)
        self._link()
        self._count_resources()
        self._sum_up(capacity)

    def _node(self, kind: Kind, name: str, quotas: Quotas) -> QuotaNode:
        by_index = {self.index_of[key]: quota for key, quota in quotas.items()}
        return QuotaNode(kind, name, by_index, len(self.keys))

    def _add_cohorts(self, declared: list[Cohort], pools: list[Pool]) -> None:
        for cohort in declared:
            self.cohorts[cohort.name] = self._node(Kind.COHORT, cohort.name, cohort.quotas)
        named = {each.parent for each in declared} | {pool.cohort for pool in pools}
        for name in sorted(name for name in named if name is not None and name not in self.cohorts):
            self.cohorts[name] = self._node(Kind.COHORT, name, {})  # law Q6: named but not defined
        for cohort in declared:
            parent = self.cohorts[cohort.parent] if cohort.parent else self.root
            self._hang(self.cohorts[cohort.name], parent)
        for node in self.cohorts.values():
            if node.parent is None:
                self._hang(node, self.root)

    def _add_pools(self, pools: list[Pool]) -> None:
        for pool in pools:
            limits = {key: Quota(0, quota.borrowing_limit, quota.lending_limit) for key, quota in pool.quotas.items()}
            node = self._node(Kind.POOL, pool.name, limits)
            node.pool = pool
            # The guarantee sits in the firm leaves below; the node's own nominal only says what P2 counts against.
            node.nominal = [pool.quotas.get(key, NO_QUOTA).nominal for key in self.keys]
            own = self._node(Kind.OWN, pool.name, {})
            firm = self._node(
                Kind.FIRM, pool.name, {key: Quota(quota.nominal, 0) for key, quota in pool.quotas.items()}
            )
            firm.borrowing = [0] * len(self.keys)
            low = self._node(Kind.LOW, pool.name, {})
            self._hang(own, node)
            self._hang(firm, own)
            self._hang(low, own)
            self.pools[pool.name], self.firm[pool.name], self.low[pool.name] = node, firm, low
        for pool in pools:
            if pool.parent is not None:
                self._hang(self.pools[pool.name], self.pools[pool.parent])
                firm = self.firm[pool.parent]
                for index, key in enumerate(self.keys):
                    firm.nominal[index] -= pool.quotas.get(key, NO_QUOTA).nominal
            else:
                self._hang(self.pools[pool.name], self.cohorts[pool.cohort] if pool.cohort else self.root)

    @staticmethod
    def _hang(node: QuotaNode, parent: QuotaNode) -> None:
        node.parent = parent
        parent.children.append(node)

    def _link(self) -> None:
        for node in self.nodes():
            node.path = tuple(upwards(node))
            node.active = node.path[-1] is self.root
        for name in self.pools:
            firm, low = self.firm[name], self.low[name]
            pools = [above for above in firm.path if above.kind is Kind.POOL]
            firm.outermost_pool = low.outermost_pool = pools[-1]
            firm.pools_above = tuple(above for above in pools if _has_subpools(above))

    def _count_resources(self) -> None:
        """Of a leaf: the resources that its pool or something above it has a quota of, gpu always; nodes alone limit the rest."""
        for name, pool in self.pools.items():
            assert pool.pool is not None
            own = {key.resource for node in pool.path if node.pool is not None for key in node.pool.quotas}
            above = {
                self.keys[index].resource
                for node in pool.path
                if node.kind is Kind.COHORT
                for index in range(len(self.keys))
                if node.nominal[index] or node.borrowing[index] is not None or node.lending[index] is not None
            }
            self.firm[name].counted = self.low[name].counted = frozenset(own | above | {GPU})

    def _sum_up(self, capacity: Mapping[FlavorResource, int]) -> None:
        for index, key in enumerate(self.keys):
            self.root.nominal[index] = max(0, capacity.get(key, 0) - self.promised(index))  # law Q8
        for top in [self.root, *(node for node in self.cohorts.values() if not node.active)]:
            for node in _bottom_up(top):
                self._sum_node(node)
        for leaf in (*self.firm.values(), *self.low.values()):
            prepare(leaf)

    def promised(self, index: int) -> int:
        """What cohorts and top-level pools have as nominal, together."""
        return sum(node.nominal[index] for node in self._promising())

    def _promising(self) -> Iterator[QuotaNode]:
        yield from self.cohorts.values()
        yield from (node for node in self.pools.values() if node.pool is not None and node.pool.parent is None)

    def _sum_node(self, node: QuotaNode) -> None:
        for index in range(len(self.keys)):
            # A pool's promise is its leaves' (law Q1).
            sum_up(node, index, 0 if node.kind is Kind.POOL else node.nominal[index])

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


def _bottom_up(top: QuotaNode) -> Iterator[QuotaNode]:
    """*top* and everything below it, children before parents, each once."""
    order: list[QuotaNode] = []
    seen: set[int] = set()
    stack = [top]
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            seen.add(id(node))
            order.append(node)
            stack.extend(node.children)
    return reversed(order)


def _has_subpools(pool: QuotaNode) -> bool:
    return any(child.kind is Kind.POOL for child in pool.children)
