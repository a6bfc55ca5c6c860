"""What is declared, and what gangs use of it: the quota tree and the nodes, updated in both layers.

Callers that try something (`uncharge`, `charge`, `as_if_gone`) undo it themselves.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

from runrig.domain.gangs import GangState, Placement
from runrig.domain.nodes import Flavor, Node
from runrig.domain.pools import Cohort, Pool
from runrig.domain.quantities import GPU, FlavorResource
from runrig.engine.ledger.candidate_columns import CandidateColumns
from runrig.engine.ledger.holding_columns import HoldingColumns
from runrig.engine.ledger.queue import Entry
from runrig.engine.ledger.sleeping import Sleepers
from runrig.engine.nodes.cluster_nodes import ClusterNodes
from runrig.engine.placement.constraint_tree import PlacementConstraints, constraints_of
from runrig.engine.placement.demand import PodRequest
from runrig.engine.placement.place import Asked
from runrig.engine.quota.declared_tree import DeclaredTree
from runrig.engine.quota.pool_tree import QuotaTree, summed
from runrig.engine.quota.quota_node import CHARGED, REAL, QuotaLeaf, Request, add


class Accounts:
    """The quota tree, the nodes and the gangs that use them.

    *place* False: there are no nodes; quota alone decides. *sleepers*: which waiting gangs need not be evaluated.
    *placed*: gangs with a placement. *placed_in*: the same by pool; pools without any are missing.
    *unclaimed*: stopping gangs that are still charged, because no nomination waits for them.
    *candidates*: gangs that can be preempted. *holdings*: gangs that use nodes.
    """

    def __init__(self, *, place: bool = True) -> None:
        self.place = place
        self.flavors: dict[str, Flavor] = {}
        self._declarations = DeclaredTree()
        self.cohorts: Mapping[str, Cohort] = self._declarations.cohorts
        self.pools: Mapping[str, Pool] = self._declarations.pools
        self.nodes = ClusterNodes()
        self.entries: dict[str, Entry] = {}
        self.placed: dict[str, Entry] = {}
        self.placed_in: dict[str, dict[str, Entry]] = {}
        self.unclaimed: dict[str, Entry] = {}
        self.on_node: dict[str, dict[str, Entry]] = {}  # node → id → gangs placed there
        self.candidates = CandidateColumns()
        self.holdings = HoldingColumns()
        self.sleepers = Sleepers(self.leaf, self.nodes)
        self._tree: QuotaTree | None = None  # None if it does not reflect the latest declarations

    # ------------------------------------------------------------ what is declared

    def set_flavors(self, flavors: Iterable[Flavor]) -> None:
        self.flavors = {each.name: each for each in sorted(flavors, key=lambda flavor: (flavor.position, flavor.name))}
        self.nodes.set_flavors(self.flavors)
        self._declarations.tree = None
        self._declared()

    def put_cohort(self, cohort: Cohort) -> None:
        self._declared(only_quotas=self._declarations.put_cohort(cohort))

    def drop_cohort(self, name: str) -> None:
        self._declarations.drop_cohort(name)
        self._declared()

    def put_pool(self, pool: Pool) -> None:
        before = self.pools.get(pool.name)
        self._declared(only_quotas=self._declarations.put_pool(pool))
        if before is not None and before.queueing is not pool.queueing:
            self.sleepers.queueing_changed(pool.name)

    def put_node(self, node: Node) -> None:
        """Adds or replaces *node*; gangs keep what they use there. O(gangs on it)."""
        room = self.nodes.by_name.get(node.name)
        before = node if room is None else room.node
        if self.nodes.put(node):
            for entry in self.on_node.get(node.name, {}).values():
                for each, pod_set in zip(entry.placement, entry.gang.pod_sets, strict=True):
                    here = [share for share in each.shares if share.node == node.name]
                    for layer in entry.layers:
                        self.nodes.hold(here, pod_set.requests, layer)
                    if entry.held:
                        self.nodes.take_gpus(here)
        self._tree = None
        self.sleepers.nodes_changed({node.flavor, before.flavor})

    def drop_node(self, name: str) -> None:
        self._tree = None
        self.sleepers.nodes_changed({self.nodes.drop(name).flavor})

    def _declared(self, *, only_quotas: bool = False) -> None:
        """Marks the tree as outdated; it is updated when it is next read. Any gang may fit now.

        *only_quotas*: at most quotas, and the queueing policy of a pool, changed; the update of the tree then wakes the
        affected gangs.
        """
        self._tree = None
        if not only_quotas:
            self.sleepers.wake_all()

    @property
    def tree(self) -> QuotaTree:
        """The quota tree, with all usage."""
        if self._tree is None:
            capacity = {FlavorResource(flavor, GPU): 0 for flavor in self.flavors} | self.nodes.capacity
            followed = self._declarations.follow(capacity)
            self._tree = self._declarations.tree
            assert self._tree is not None
            self._recount(followed.recounted)
            self.sleepers.quotas_changed(followed)
        return self._tree

    def _recount(self, pools: Collection[str] | None) -> None:
        """Recomputes the requests of gangs of *pools*; None: of all gangs, in a new tree without usage."""
        if pools is None or pools:
            self.candidates.forget()
            self.holdings.forget()
        for entry in self.placed.values() if pools is None or pools else ():
            if pools is None or entry.gang.pool in pools:
                before, entry.request = entry.request, self.request_of(entry, entry.placement)
                for layer in entry.layers:
                    if pools is not None:
                        add(self.leaf(entry), before, layer, -1)
                    add(self.leaf(entry), entry.request, layer)

    # ------------------------------------------------------------ reading

    def leaf(self, entry: Entry) -> QuotaLeaf:
        tree = self._tree or self.tree
        return (tree.firm if entry.bucket.firm else tree.low)[entry.gang.pool]

    def request_of(self, entry: Entry, placement: Placement) -> Request:
        """The request of *placement* to the tree, summed per (flavor, resource)."""
        asked, counted, pod_sets = self.tree.asked, self.leaf(entry).counted, entry.gang.pod_sets
        if len(placement) == 1:
            return asked(counted, placement[0].flavor, pod_sets[0].requests, placement[0].count)
        chosen = zip(placement, pod_sets, strict=False)
        return summed(asked(counted, each.flavor, pod_set.requests, each.count) for each, pod_set in chosen)

    def constraints(self, entry: Entry, placement: Placement) -> PlacementConstraints | None:
        """Which pods must be placed together; None if the pool no longer has a topology key that the gang requests."""
        counts = tuple([each.count for each in placement])
        return constraints_of(self.pools[entry.gang.pool].topology_keys, entry.gang.pod_sets, counts)

    def asked_of_nodes(self, entry: Entry, placement: Placement) -> Asked | None:
        """The request of *placement* to the nodes; None: see `constraints`."""
        constraints = self.constraints(entry, placement)
        if constraints is None:
            return None
        pairs = zip(placement, entry.gang.pod_sets, strict=True)
        return Asked(tuple([PodRequest(asks.requests, each.flavor, each.count) for each, asks in pairs]), constraints)

    # ------------------------------------------------------------ holding and letting go

    def _record(self, entry: Entry, layer: int, *, give_back: bool, on_nodes: bool = True) -> None:
        add(self.leaf(entry), entry.request, layer, -1 if give_back else 1)
        if self.place and on_nodes:
            for each, pod_set in zip(entry.placement, entry.gang.pod_sets, strict=True):
                self.nodes.hold(each.shares, pod_set.requests, layer, give_back=give_back)

    def charge(self, entry: Entry, *, on_nodes: bool = True) -> None:
        """Counts the gang in decisions. *on_nodes* False: only in quota."""
        assert not entry.charged, f"{entry.gang.id} is charged twice"
        self._record(entry, CHARGED, give_back=False, on_nodes=on_nodes)
        entry.charged = True
        self.candidates.note_charged(entry)
        if entry.state is GangState.STOPPING:
            self.unclaimed[entry.gang.id] = entry

    def uncharge(self, entry: Entry, *, on_nodes: bool = True) -> None:
        """Makes decisions ignore the gang: the inverse of `charge`."""
        assert entry.charged, f"{entry.gang.id} is not charged"
        self._record(entry, CHARGED, give_back=True, on_nodes=on_nodes)
        entry.charged = False
        self.candidates.note_charged(entry)
        if entry.state is GangState.STOPPING:
            del self.unclaimed[entry.gang.id]

    @contextmanager
    def as_if_gone(self, entries: Iterable[Entry]) -> Iterator[None]:
        """Within this context, *entries* use nothing in layer REAL."""
        held = [entry for entry in entries if entry.held]
        for entry in held:
            self._record(entry, REAL, give_back=True)
        try:
            yield
        finally:
            for entry in held:
                self._record(entry, REAL, give_back=False)

    def _hold(self, entry: Entry) -> None:
        self._record(entry, REAL, give_back=False)
        entry.held = True
        self.holdings.add(entry)
        for each in entry.placement:
            self.nodes.take_gpus(each.shares)

    def _let_go(self, entry: Entry) -> None:
        self._record(entry, REAL, give_back=True)
        entry.held = False
        self.holdings.remove(entry)
        for each in entry.placement:
            self.nodes.return_gpus(each.shares)
