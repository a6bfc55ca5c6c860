"""Cohorts and pools as they are declared, and the quota tree that follows them."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from runrig.domain.pools import Cohort, Pool
from runrig.domain.quantities import FlavorResource
from runrig.engine.quota.pool_tree import QuotaTree
from runrig.engine.quota.quota_node import QuotaNode
from runrig.engine.quota.tree_edits import BuildAnew, TreeEdit


class Followed(NamedTuple):
    """*recounted*: pools whose gangs ask something else of the tree than before; None after it was built anew, holding nothing.

    *numbers*: the nodes of which numbers have changed; *more*: those below which more has.
    *same_nodes*: every node of the tree that was there is there.
    """

    recounted: Collection[str] | None
    numbers: Collection[QuotaNode]
    more: Collection[QuotaNode]
    same_nodes: bool


class DeclaredTree:
    """*tree*: None until `follow` is asked.  Several edits are taken over together, for between them a tree may have no shape:
    a subpool may be declared before its parent, or archived after it."""

    def __init__(self) -> None:
        self.cohorts: dict[str, Cohort] = {}
        self.pools: dict[str, Pool] = {}
        self.tree: QuotaTree | None = None
        self._changed_cohorts: set[str] = set()
        self._changed_pools: set[str] = set()

    def put_cohort(self, cohort: Cohort) -> bool:
        """True if nothing but its quotas has changed."""
        before = self.cohorts.get(cohort.name)
        self.cohorts[cohort.name] = cohort
        self._changed_cohorts.add(cohort.name)
        return before is not None and replace(before, quotas=cohort.quotas) == cohort

    def drop_cohort(self, name: str) -> None:
        del self.cohorts[name]
        self._changed_cohorts.add(name)

    def put_pool(self, pool: Pool) -> bool:
        """True if nothing but its quotas has changed, or its queueing, which the tree does not know."""
        before = self.pools.get(pool.name)
        self.pools[pool.name] = pool
        self._changed_pools.add(pool.name)
        return before is not None and replace(before, quotas=pool.quotas, queueing=pool.queueing) == pool

    def follow(self, capacity: Mapping[FlavorResource, int]) -> Followed:
        """Brings *tree* up to date, with *capacity* of all nodes."""
        try:
            if self.tree is None:
                raise BuildAnew
            edit = TreeEdit(self.tree, self.cohorts, self.pools)
            edit.run(self._changed_cohorts, self._changed_pools, capacity)
            followed = Followed(edit.recounted, edit.numbers, edit.more, edit.same_nodes)
        except BuildAnew:
            self.tree = None  # it may be half changed
            self.tree = QuotaTree(self.cohorts.values(), self.pools.values(), capacity)
            followed = Followed(None, (), (), same_nodes=False)
        self._changed_cohorts, self._changed_pools = set(), set()
        return followed
