"""Edits a quota tree in use, at a cost that depends on what changed (rules Q1, Q5, Q6, Q8).

A number costs O(depth). A change of the shape (another parent, a first limit, a cohort's first quota, a pool created or
deleted) costs the nodes below it. The result equals a newly built tree with the same leaf objects, so the reverse edit is the
exact inverse. Rare changes rebuild the tree: another set of (flavor, resource), the first or last weight that differs, and
cycles of cohorts.
"""

from collections.abc import Collection, Iterable, Mapping

from runrig.domain.pools import Cohort, Pool, PoolState, Quota, Quotas
from runrig.domain.quantities import FlavorResource
from runrig.engine.quota.guarantees import (
    add_guarantees,
    drop_guarantees,
    is_cut,
    nodes_under,
    quota_of_twin,
    shares,
    take_down,
)
from runrig.engine.quota.pool_tree import QuotaTree, draws_on_nodes, has_subpools, keys_of, left_to_firm, weight_of
from runrig.engine.quota.quota_node import LAYERS, NO_QUOTA, NodeKind, QuotaLeaf, QuotaNode, note_borrowed
from runrig.engine.quota.tree import (
    TreeBuilder,
    follow_path,
    given,
    hang,
    prepare,
    receive,
    renumber,
    sum_up_all,
    upwards,
)


class BuildAnew(Exception):
    """The tree cannot be edited in place and must be rebuilt. It may be partly edited."""


class TreeEdit:
    """One edit of *tree* to what is declared now. Used once.

    *recounted*: pools that now count other resources, so that their gangs' requests change.
    *same_nodes* False: nodes were added or removed, or twins were removed.
    """

    def __init__(self, tree: QuotaTree, cohorts: Mapping[str, Cohort], pools: Mapping[str, Pool]) -> None:
        self._tree, self._cohorts, self._pools = tree, cohorts, pools
        self._builder = TreeBuilder(tree.keys)
        self._changed: dict[QuotaNode, None] = {}  # nodes whose numbers changed, or below which they changed
        # Tops of subtrees to prepare again. True: more than limits changed.
        self._reshaped: dict[QuotaNode, bool] = {}
        # Below these, guaranteed work exceeds its guarantee, before or after the edit.
        self._cut: dict[QuotaNode, None] = {}
        self._left: dict[str, None] = {}  # cohorts that changed or lost a child
        self.recounted: set[str] = set()
        self.same_nodes = True

    def run(self, cohorts: Iterable[str], pools: Iterable[str], capacity: Mapping[FlavorResource, int]) -> None:
        """Applies the changed declarations of *cohorts* and *pools*. Raises BuildAnew."""
        self._left = dict.fromkeys(sorted(cohorts))
        for name in list(self._left):
            self._cohort(name)
        # Names of subpools sort after their parent's: create parents first, remove them last.
        names = sorted(pools)
        for name in reversed(names):
            if self._pools[name].state is PoolState.ARCHIVED and name in self._tree.pools:
                self._remove(name)
        for name in names:
            if self._pools[name].state is not PoolState.ARCHIVED:
                self._pool(self._pools[name])
        self._forget_cohorts()
        self._capacity(capacity)
        for node in self._reshaped:
            above = list(upwards(node))[1:]
            if above and above[-1] is self._tree.root and not any(each in self._reshaped for each in above):
                self._reshape(node)
        if (self._left or names) and self._tree.weights_differ() != self._tree.weighted:
            raise BuildAnew
        if self._tree.weighted:
            self._count_borrowed()

    @property
    def numbers(self) -> Collection[QuotaNode]:
        """The nodes whose numbers changed, and their twins, each with all its ancestors."""
        twins = [node.guarantee for node in self._changed if node.guarantee is not None]
        return dict.fromkeys(each for node in (*self._changed, *twins) for each in node.path).keys()

    @property
    def more(self) -> Collection[QuotaNode]:
        """Nodes below which more than numbers changed. If a guarantee is or was cut, this includes what the pools below it draw."""
        return [*(node for node, offers in self._reshaped.items() if offers), *self._cut]

    # ------------------------------------------------------------ cohorts

    def _cohort(self, name: str) -> QuotaNode:
        """Returns the node of a cohort, brought up to date. Cohorts that are only named exist too (rule Q6)."""
        declared = self._cohorts.get(name, Cohort(name))
        node = self._tree.cohorts.get(name)
        if node is None:
            node = self._tree.cohorts[name] = self._builder.node(NodeKind.COHORT, name, {})
            self._hang(node, self._cohort_named(declared.parent))
            sum_up_all([node])
        elif node.parent is not (parent := self._cohort_named(declared.parent)):
            self._move(node, parent)
        node.weight = weight_of(declared)
        self._number(node, declared.quotas)
        return node

    def _cohort_named(self, name: str | None) -> QuotaNode:
        if name is None:
            return self._tree.root
        return self._tree.cohorts.get(name) or self._cohort(name)

    def _forget_cohorts(self) -> None:
        """Removes cohorts that are neither declared nor named."""
        for name in self._left:
            node = self._tree.cohorts[name]
            if name not in self._cohorts and not node.children:
                self._take_down(node)
                del self._tree.cohorts[name]

    # ------------------------------------------------------------ pools

    def _pool(self, pool: Pool) -> None:
        node = self._tree.pools.get(pool.name)
        if node is None:
            self._add(pool)
            return
        assert node.pool is not None
        if pool.parent != node.pool.parent:
            raise BuildAnew
        parent = node.parent if pool.parent is not None else self._cohort_named(pool.cohort)
        node.pool, before = pool, node.pool
        if parent is not None and node.parent is not parent:
            self._move(node, parent)
        own = self._tree.firm[pool.name].parent
        assert own is not None
        node.weight = own.weight = weight_of(pool)
        if pool.quotas != before.quotas:
            self._number(node, pool.quotas)
            self._tree.firm[pool.name].declared = node.declared
            self._leave_to_firm(node)
            if node.parent is not None:
                self._leave_to_firm(node.parent)

    def _add(self, pool: Pool) -> None:
        if pool.parent is None:
            self._cohort_named(pool.cohort)
        elif pool.parent not in self._tree.pools:
            raise BuildAnew
        self._know(pool.quotas)
        unit = self._tree.add_pool(self._builder, pool)
        parent = self._tree.parent_of(pool)
        first = parent.kind is NodeKind.POOL and not has_subpools(parent)
        self._hang(unit[0], parent)
        sum_up_all(unit[::-1])
        self._tree.uses.update(pool.quotas.keys())
        self._promise(unit[0], 1)
        self._leave_to_firm(unit[0])
        self._leave_to_firm(parent)
        if first:
            self._count_used(parent)

    def _remove(self, name: str) -> None:
        node, parent = self._tree.pools[name], self._tree.pools[name].parent
        assert parent is not None
        assert node.pool is not None
        leaves = (self._tree.firm[name], self._tree.low[name])
        if has_subpools(node) or any(any(leaf.usage[layer]) for leaf in leaves for layer in LAYERS):
            raise BuildAnew
        for by_name in (self._tree.pools, self._tree.firm, self._tree.low):
            del by_name[name]
        self._tree.uses.subtract(node.pool.quotas.keys())
        self._promise(node, -1)
        self._take_down(node)
        self._leave_to_firm(parent)
        if parent.kind is NodeKind.POOL and not has_subpools(parent):
            self._count_used(parent)

    def _count_used(self, pool: QuotaNode) -> None:
        """Updates *used* of *pool*, which got its first subpool or lost its last: only pools with subpools count it."""
        firm = self._tree.firm[pool.name]
        for layer in LAYERS:
            pool.used[layer][:] = firm.usage[layer] if has_subpools(pool) else [0] * len(self._tree.keys)
        assert firm.parent is not None
        self._reshaped[firm.parent] = True

    def _leave_to_firm(self, pool: QuotaNode) -> None:
        if pool.kind is NodeKind.POOL:
            firm = self._tree.firm[pool.name]
            for index, limit in enumerate(firm.borrowing):
                self._renumber(firm, index, Quota(left_to_firm(pool, index), limit))

    # ------------------------------------------------------------ numbers

    def _number(self, node: QuotaNode, quotas: Quotas) -> None:
        """Sets the quotas of a cohort or pool."""
        self._know(quotas)
        keys = self._tree.keys
        before, offers = self._shape(node), self._offers(node)
        self._tree.uses.subtract(keys[index] for index in node.declared)
        self._tree.uses.update(quotas.keys())
        self._promise(node, -1)
        node.declared = frozenset(self._tree.index_of[key] for key in quotas)
        for index, key in enumerate(keys):
            self._renumber(node, index, quotas.get(key, NO_QUOTA))
        self._promise(node, 1)
        if self._shape(node) != before:
            self._reshaped[node] = self._reshaped.get(node, False) or self._offers(node) != offers

    def _know(self, quotas: Quotas) -> None:
        if any(key not in self._tree.index_of for key in quotas):
            raise BuildAnew

    def _shape(self, node: QuotaNode) -> object:
        """The parts of the quotas of *node*, other than numbers, that determine how the nodes below it are prepared."""
        limits = [(limit is None, lent is None) for limit, lent in zip(node.borrowing, node.lending, strict=True)]
        return node.declared, limits, shares(node)

    def _offers(self, node: QuotaNode) -> object:
        """The part of the shape that determines more than limits: the flavors of a pool, what is withheld and what is shared."""
        flavors = node.declared if node.kind is NodeKind.POOL else None
        return flavors, [lent is None for lent in node.lending], shares(node)

    def _renumber(self, node: QuotaNode, index: int, quota: Quota) -> None:
        if (node.nominal[index], node.borrowing[index], node.lending[index]) == (
            quota.nominal,
            quota.borrowing_limit,
            quota.lending_limit,
        ):
            return
        if not node.active:
            raise BuildAnew
        renumber(node, index, quota)
        if node.guarantee is not None:
            was_cut = is_cut(node.guarantee, index)
            renumber(node.guarantee, index, quota_of_twin(node, index))
            if was_cut or is_cut(node.guarantee, index):
                self._cut[[each for each in node.path if each.guarantee is not None][-1]] = None
        self._changed[node] = None

    def _promise(self, node: QuotaNode, sign: int) -> None:
        if draws_on_nodes(node):
            promised = self._tree.promised
            for index, nominal in enumerate(node.nominal):
                promised[index] += sign * nominal

    def _capacity(self, capacity: Mapping[FlavorResource, int]) -> None:
        if keys_of(self._tree.uses, capacity) != self._tree.index_of.keys():
            raise BuildAnew
        for index in range(len(self._tree.keys)):
            self._renumber(self._tree.root, index, Quota(self._tree.left_over(index, capacity)))

    # ------------------------------------------------------------ shape

    def _hang(self, node: QuotaNode, parent: QuotaNode) -> None:
        above = list(upwards(parent))
        if above[-1] is not self._tree.root or node in above:
            raise BuildAnew
        hang(node, parent)
        self._changed[parent] = None
        self._reshaped[node], self.same_nodes = True, False

    def _take_down(self, node: QuotaNode) -> None:
        if not node.active or node.parent is None:
            raise BuildAnew
        self._changed[node.parent], self.same_nodes = None, False
        if node.parent.kind is NodeKind.COHORT:
            self._left[node.parent.name] = None
        self._reshaped.pop(node, None)
        drop_guarantees(node)
        take_down(node)

    def _move(self, node: QuotaNode, parent: QuotaNode) -> None:
        """Moves *node* with everything below it."""
        self._take_down(node)
        self._hang(node, parent)
        for index in range(len(node.nominal)):
            receive(parent, index, given(node, index))

    def _reshape(self, top: QuotaNode) -> None:
        """Prepares *top* and the nodes below it again."""
        twins = drop_guarantees(top)
        below = list(nodes_under(top))
        for node in below:
            follow_path(node)
        add_guarantees(top, self._tree.firm_root, twins)
        self.same_nodes = self.same_nodes and all(node.guarantee is twin for node, twin in twins.items())
        for node in below:
            if isinstance(node, QuotaLeaf):
                prepare(node)
                node.weighed = self._tree.gpus if self._tree.weighted else ()
        for name in sorted({node.name for node in below if isinstance(node, QuotaLeaf)}):
            counted = self._tree.firm[name].counted
            self._tree.finish_leaves(name)
            if counted and counted != self._tree.firm[name].counted:
                self.recounted.add(name)

    def _count_borrowed(self) -> None:
        """Recomputes what nodes borrow, which only matters if weights differ."""
        for top in self._reshaped:
            for node in (*nodes_under(top), *top.path):
                note_borrowed((node,), self._tree.gpus)
        for node in self._changed:
            note_borrowed(node.path, self._tree.gpus)
