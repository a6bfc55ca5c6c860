"""Queries about pools, cohorts and nodes, from the state in memory."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from runrig.domain.errors import NotFound
from runrig.domain.nodes import Flavor
from runrig.domain.pools import Pool, PoolState
from runrig.domain.quantities import GPU
from runrig.domain.shown import pools as shown
from runrig.domain.shown.nodes import Node
from runrig.domain.shown.pools import Balances, Cohort, NodeShare, PoolNow, QuotaTree
from runrig.domain.tags import etag_of
from runrig.domain.workflows import Status
from runrig.engine.explain import report
from runrig.engine.explain.quota_report import balances_of_pool, balances_of_pools, overpromised, tree_rows
from runrig.engine.nodes.gpu_counts import GpusByState
from runrig.engine.state.state import State
from runrig.service.queries.lookup import any_subpool, flavors_of, known_pool, live_pool, settings_of
from runrig.service.queries.nodes import NodeWork, Picture, check_node, users_of, work_on
from runrig.service.queries.visibility import ALL, Visibility
from runrig.service.runtime.transactor import Readable

FEW_POOLS = 20
"""From this number of pools on, the balances of all pools are computed together."""


class PoolView(NamedTuple):
    """*pool*: as stored; *settings*: its parent if it is a subpool (rule S5), else the pool; *flavors*: those it can
    use.
    """

    pool: Pool
    settings: Pool
    flavors: tuple[Flavor, ...]
    now: PoolNow

    def shown(self, backend: str) -> shown.Pool:
        return shown.Pool(**shown.fields_of(self.pool, self.settings), backend=backend, **vars(self.now))


class ResourceQueries:
    """Responses name only pools in *visibility*; sums include all pools."""

    """*backend*: the name of the backend."""

    def __init__(self, transactor: Readable, backend: str) -> None:
        self._transactor = transactor
        self._backend = backend

    # ------------------------------------------------------------ pools

    def pools(
        self, *, names: Iterable[str] = (), archived: bool = False, below: bool = False, visibility: Visibility = ALL
    ) -> tuple[PoolView, ...]:
        """Returns the pools *names*, and with *below* their subpools; or all pools. Pools that share nodes are
        adjacent, and subpools follow their parents.

        Raises NotFound if one of *names* does not exist.
        """
        with self._transactor.reading() as state:
            wanted = set(names)
            for name in sorted(wanted):
                (known_pool if archived else live_pool)(state, name, visibility)
            shown = [
                pool
                for pool in state.pools.values()
                if (not wanted or pool.name in wanted or (below and pool.parent in wanted))
                and (archived or pool.state is not PoolState.ARCHIVED)
                and visibility.sees(pool.name)
            ]
            return tuple(_views(state, shown))

    def declared(self, visibility: Visibility = ALL) -> tuple[Pool, ...]:
        """Returns the pools that are not ARCHIVED, without their usage. Subpools follow their parents."""
        with self._transactor.reading() as state:
            found = [pool for pool in state.pools.values() if pool.state is not PoolState.ARCHIVED]
        return tuple(sorted((pool for pool in found if visibility.sees(pool.name)), key=_tree_order))

    def pool(self, name: str, visibility: Visibility = ALL) -> PoolView:
        """Returns the pool *name*, even if it is ARCHIVED. Raises NotFound."""
        with self._transactor.reading() as state:
            return pool_view(state, known_pool(state, name, visibility).name)

    def check_pool(self, name: str, visibility: Visibility, *, live: bool = False) -> Pool:
        """Returns the settings of the pool, which cost less than its view. Raises NotFound with the visible names if it does not
        exist, or with *live*, if it is ARCHIVED.
        """
        with self._transactor.reading() as state:
            return (live_pool if live else known_pool)(state, name, visibility)

    def subpool(self, parent: str, short: str, visibility: Visibility = ALL) -> PoolView:
        """Returns the subpool *short* in any state. Raises NotFound."""
        with self._transactor.reading() as state:
            return pool_view(state, any_subpool(state, parent, short, visibility).name)

    def pools_on_hold(self, visibility: Visibility = ALL) -> frozenset[str]:
        """Returns the pools with workflows on hold (rule W3). O(workflows on hold)."""
        with self._transactor.reading() as state:
            pools = {state.workflows[id].pool for id in state.on_hold}
        return frozenset(pool for pool in pools if visibility.sees(pool))

    # ------------------------------------------------------------ cohorts

    def quota_tree(self, visibility: Visibility = ALL) -> QuotaTree:
        """Returns the tree of visible pools and the cohorts above them."""
        with self._transactor.reading() as state:
            return _tree_view(state, visibility)

    def cohorts(self, visibility: Visibility = ALL) -> tuple[Cohort, ...]:
        return tuple(node for node in self.quota_tree(visibility).nodes if node.kind == "cohort")

    def cohort(self, name: str, visibility: Visibility = ALL) -> Cohort:
        """Returns the cohort with its tag, unless it is only named by others (rule Q6). Raises NotFound."""
        with self._transactor.reading() as state:
            tree, declared = _tree_view(state, visibility), state.cohorts.get(name)
        found = next((node for node in tree.nodes if (node.kind, node.name) == ("cohort", name)), None)
        if found is None:
            raise NotFound(f"cohort {name!r} not found. List cohorts with `runrig cohort list`")
        return found if declared is None else replace(found, etag=etag_of(declared))

    # ------------------------------------------------------------ nodes

    def nodes(
        self,
        *,
        pools: Iterable[str] = (),
        platforms: Iterable[str] = (),
        visibility: Visibility = ALL,
        limit: int | None = None,
        offset: int = 0,
        after: str = "",
    ) -> tuple[tuple[Node, ...], bool]:
        """Returns (nodes sorted by name after *after*, whether there are more).

        *pools*: only nodes that one of them can use, and responses name only these pools. *platforms*: only nodes of
        these flavors. *limit* None: all after *offset*.
        """
        wanted_pools, wanted_flavors = set(pools), set(platforms)
        with self._transactor.reading() as state:
            for name in sorted(wanted_pools):
                live_pool(state, name, visibility)
            users = users_of(state)
            flavors = {node.flavor for node in state.nodes.values()}
            if wanted_pools:
                flavors = {name for name in flavors if not wanted_pools.isdisjoint(visibility.of(users.get(name, ())))}
            if wanted_flavors:
                flavors &= wanted_flavors
            found = sorted(name for name, node in state.nodes.items() if node.flavor in flavors and name > after)
            page = found[offset:] if limit is None else found[offset : offset + limit]
            picture = Picture(state, page, self._backend, users, only=wanted_pools)
        return tuple(picture.shown(visibility)), offset + len(page) < len(found)

    def node(self, name: str, visibility: Visibility = ALL) -> Node:
        """Returns the node. Its ETag depends on the cluster's data, not on usage. Raises NotFound."""
        with self._transactor.reading() as state:
            check_node(state, name)
            picture = Picture(state, [name], self._backend, users_of(state))
            node = state.nodes[name]
        (found,) = picture.shown(visibility)
        return replace(found, etag=etag_of(node))

    def work_on(self, node: str, visibility: Visibility = ALL) -> tuple[NodeWork, ...]:
        """Returns the gangs that use a node. Raises NotFound."""
        with self._transactor.reading() as state:
            check_node(state, node)
            return tuple(work_on(state, node, visibility))

    def pool_names(self, visibility: Visibility = ALL) -> tuple[str, ...]:
        """Returns the names of all current and former pools, sorted."""
        with self._transactor.reading() as state:
            names = sorted(state.pools)
        return visibility.of(names)

    def gpus(self) -> int:
        with self._transactor.reading() as state:
            return sum(node.resources.get(GPU, 0) for node in state.nodes.values())

    def running_tasks(self) -> int:
        """O(tasks)."""
        with self._transactor.reading() as state:
            return sum(task.status is Status.RUNNING for task in state.tasks.records.values())

    def flavors(self) -> tuple[Flavor, ...]:
        """In the order of the cluster file."""
        with self._transactor.reading() as state:
            return tuple(state.flavors.values())


# ---------------------------------------------------------------- pools


def _tree_order(pool: Pool) -> tuple[str, str]:
    return (pool.parent or pool.name, pool.name)


def pool_view(state: State, name: str) -> PoolView:
    """Returns the view of the pool *name*. Raises NotFound. O(pools), but only to find its subpools."""
    (found,) = _views(state, [known_pool(state, name)])
    return found


class _Known:
    """Values shared by many views, computed once."""

    def __init__(self, state: State, pools: list[Pool], gpus: Mapping[str, GpusByState]) -> None:
        self.state = state
        self.balances = _balances(state, pools)
        self.gpus = gpus
        tree = state.ledger.tree
        self._keys = [str(tree.keys[index]) for index in tree.gpus]
        self._flavors: dict[tuple[str, ...], tuple[Flavor, ...]] = {}
        self.subpools: dict[str, list[str]] = defaultdict(list)
        for pool in state.pools.values():
            if pool.parent is not None and pool.state is not PoolState.ARCHIVED:
                self.subpools[pool.parent].append(pool.name)

    def view(self, pool: Pool, nodes: NodeShare) -> PoolView:
        state, balances = self.state, self.balances.get(pool.name, {})
        gpus = [balances[key] for key in self._keys] if balances else []
        lends, used = [each.lent for each in gpus] if balances else None, sum([each.used for each in gpus])
        now = PoolNow(
            subpools=tuple(sorted(self.subpools[pool.name])) if pool.name in self.subpools else (),
            workflows=state.alive[pool.name],
            gpus=report.pool_balance(state, pool.name, gpus=self.gpus, lends=lends, subtree_used=used),
            nodes=nodes,
            balances=balances,
        )
        return PoolView(pool, settings_of(state, pool), self._flavors_of(pool), now)

    def _flavors_of(self, pool: Pool) -> tuple[Flavor, ...]:
        """Most pools have the same flavors because they do not set any."""
        names, declared = flavors_of(self.state, pool), self.state.flavors
        found = self._flavors.get(names)
        if found is None:
            found = self._flavors[names] = tuple([declared[name] for name in names if name in declared])
        return found


def _balances(state: State, pools: list[Pool]) -> Mapping[str, Balances]:
    """Returns the balances of the pools by name, without ARCHIVED ones. For a few pools, the rest of the tree is not
    computed.
    """
    if len(pools) < FEW_POOLS:
        return {pool.name: balances_of_pool(state, pool.name) for pool in pools}
    return balances_of_pools(state)


def _views(state: State, pools: list[Pool]) -> Iterator[PoolView]:
    """Yields the connected components of *pools*: two pools are connected by a flavor that both can use and that has
    nodes.
    """
    gpus = report.gpus_by_flavor(state)
    known = _Known(state, pools, gpus)
    for flavors, members in _components(state, pools, set(gpus)):
        capacity, held = sum(gpus[name].capacity for name in flavors), sum(gpus[name].held for name in flavors)
        nodes = NodeShare(members[0].name, capacity, capacity - held)
        yield from [known.view(pool, nodes) for pool in members]


def _components(state: State, pools: list[Pool], with_nodes: set[str]) -> list[tuple[set[str], list[Pool]]]:
    """Returns (flavors, pools that share them), sorted by first pool and within. *with_nodes*: flavors that have nodes."""
    alike: dict[tuple[frozenset[str], str], list[Pool]] = defaultdict(list)
    known: dict[tuple[str, ...], frozenset[str]] = {}
    for pool in pools:
        names = flavors_of(state, pool)
        flavors = known.get(names)
        if flavors is None:
            flavors = known[names] = frozenset(with_nodes.intersection(names))
        alike[flavors, "" if flavors else pool.name].append(pool)
    components: list[tuple[set[str], list[Pool]]] = []
    for (usable, _), own in alike.items():
        joined = [each for each in components if each[0] & usable]
        components = [each for each in components if not each[0] & usable]
        members = [member for each in joined for member in each[1]]
        components.append((set(usable).union(*(each[0] for each in joined)), [*members, *own]))
    ordered = [(flavors, sorted(members, key=_tree_order)) for flavors, members in components]
    return sorted(ordered, key=lambda each: _tree_order(each[1][0]))


# ---------------------------------------------------------------- cohorts and nodes


def _tree_view(state: State, visibility: Visibility) -> QuotaTree:
    rows = _seen_rows(tree_rows(state), visibility)
    children: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in rows:
        if row.kind != "root":
            children[row.parent_kind or "root", row.parent or ""].append(row.name)
    root, *nodes = [replace(row, children=tuple(sorted(children[row.kind, row.name]))) for row in rows]
    return QuotaTree(tuple(nodes), root, {str(key): amount for key, amount in sorted(overpromised(state).items())})


def _seen_rows(rows: Sequence[Cohort], visibility: Visibility) -> Sequence[Cohort]:
    """Returns the root, the visible pools, and everything above them."""
    if visibility.whole:
        return rows
    by_key = {(row.kind, row.name): row for row in rows}
    seen: set[tuple[str, str]] = set()
    for name in visibility.of(name for kind, name in by_key if kind == "pool"):
        above = by_key.get(("pool", name))
        while above is not None and (above.kind, above.name) not in seen:  # The parents can form a cycle (rule Q5).
            seen.add((above.kind, above.name))
            above = by_key.get((above.parent_kind or "root", above.parent or ""))
    return [row for key, row in by_key.items() if row.kind == "root" or key in seen]
