"""The declared cohorts and pools, and the quota tree that follows them."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from runrig.domain.pools import Cohort, Pool
from runrig.domain.quantities import FlavorResource
from runrig.engine.quota.pool_tree import QuotaTree
from runrig.engine.quota.quota_node import QuotaNode
from runrig.engine.quota.tree_edits import BuildAnew, TreeEdit


class Followed(NamedTuple):
    """The result of `DeclaredTree.follow`.

    *recounted*: pools whose gangs now count other resources; None if the tree was rebuilt and has no usage yet.
    *numbers*: nodes whose numbers changed. *more*: nodes below which more than numbers changed.
    *same_nodes*: False if any node of the previous tree is missing.
    """

    recounted: Collection[str] | None
    numbers: Collection[QuotaNode]
    more: Collection[QuotaNode]
    same_nodes: bool


class DeclaredTree:
    """Collects declarations until `follow` is called, and then applies them to the tree together.

    In between, they may not form a tree: a subpool may be declared before its parent, or archived after it. *tree*: None until
    the first `follow`.
    """

    def __init__(self) -> None:
        self.cohorts: dict[str, Cohort] = {}
        self.pools: dict[str, Pool] = {}
        self.tree: QuotaTree | None = None
        self._changed_cohorts: set[str] = set()
        self._changed_pools: set[str] = set()

    def put_cohort(self, cohort: Cohort) -> bool:
        """Whether only quotas changed."""
        before = self.cohorts.get(cohort.name)
        self.cohorts[cohort.name] = cohort
        self._changed_cohorts.add(cohort.name)
        return before is not None and replace(before, quotas=cohort.quotas) == cohort

    def drop_cohort(self, name: str) -> None:
        del self.cohorts[name]
        self._changed_cohorts.add(name)

    def put_pool(self, pool: Pool) -> bool:
        """Whether only quotas or the queueing policy changed; the tree does not depend on the latter."""
        before = self.pools.get(pool.name)
        self.pools[pool.name] = pool
        self._changed_pools.add(pool.name)
        return before is not None and replace(before, quotas=pool.quotas, queueing=pool.queueing) == pool

    def follow(self, capacity: Mapping[FlavorResource, int]) -> Followed:
        """Brings *tree* up to date. *capacity*: the total of all nodes."""
        try:
            if self.tree is None:
                raise BuildAnew
            edit = TreeEdit(self.tree, self.cohorts, self.pools)
            edit.run(self._changed_cohorts, self._changed_pools, capacity)
            followed = Followed(edit.recounted, edit.numbers, edit.more, edit.same_nodes)
        except BuildAnew:
            self.tree = None  # the edit may have been applied only partly
            self.tree = QuotaTree(self.cohorts.values(), self.pools.values(), capacity)
            followed = Followed(None, (), (), same_nodes=False)
        self._changed_cohorts, self._changed_pools = set(), set()
        return followed
