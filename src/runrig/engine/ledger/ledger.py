"""The ledger: every gang, what it holds of quota and nodes, and who waits; kept as actions apply, never rebuilt per cycle.

A gang holds in two layers.  PENDING: in neither.  NOMINATED: CHARGED only (law R4).  ADMITTED: both.  STOPPING: both, but a
target that a nomination waits for is REAL only, so that what it frees is reserved for once.

Gangs change in two ways only: `apply` takes one decision, `restore` takes the rows of a store.  Trial edits (`uncharge`,
`charge`, `as_if_gone`) are undone by whoever makes them.
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from runrig.domain.gangs import Gang, GangState, Placement
from runrig.domain.nodes import Flavor, Node
from runrig.domain.plan import (
    Admit,
    Decision,
    Nominate,
    Preempt,
    Queue,
    Refuse,
    Release,
    Replace,
    Stop,
    TryAgain,
    Withdraw,
)
from runrig.domain.pools import Cohort, Pool
from runrig.domain.quantities import GPU, FlavorResource
from runrig.domain.records import GangRow
from runrig.domain.transitions import GANG_STATES, illegal_for_gang
from runrig.engine.ledger.queue import Bucket, BucketKey, Entry
from runrig.engine.ledger.sleeping import CANDIDATES, Sleepers, above_nominal
from runrig.engine.nodes.cluster_nodes import ClusterNodes
from runrig.engine.placement.constraint_tree import PlacementConstraints, constraints_of
from runrig.engine.quota.declared_tree import DeclaredTree
from runrig.engine.quota.pool_tree import QuotaTree, summed
from runrig.engine.quota.quota_node import CHARGED, LAYERS, REAL, QuotaLeaf, Request, add, take


class Ledger:
    """*place* False: there are no nodes, quota alone decides.  *sleepers*: who of those who wait need not be looked at.
    *placed*: gangs that have a placement.  *unclaimed*: stopping gangs that are still charged: no nomination waits for them.
    """

    def __init__(self, *, place: bool = True) -> None:
        self.place, self.effort = place, 0  # effort: counts what searches for targets do; cuts long cycles
        self.flavors: dict[str, Flavor] = {}
        self._declarations = DeclaredTree()
        self.cohorts: Mapping[str, Cohort] = self._declarations.cohorts
        self.pools: Mapping[str, Pool] = self._declarations.pools
        self.nodes = ClusterNodes()
        self.entries: dict[str, Entry] = {}
        self.placed: dict[str, Entry] = {}
        self.pending: dict[BucketKey, Bucket] = {}
        self.nominated: dict[str, Entry] = {}
        self.stopping: dict[str, Entry] = {}
        self.unclaimed: dict[str, Entry] = {}
        self.stopping_ids: list[str] = []  # sorted
        self._waiting_for: dict[str, dict[Entry, None]] = {}
        self.preemptible: dict[str, list[tuple[tuple[int, float, str], Entry]]] = {}
        self.on_node: dict[str, dict[str, Entry]] = {}  # node → id → gangs that are placed there
        self.sleepers = Sleepers(self.leaf, self.nodes)
        self._tree: QuotaTree | None = None  # None while something is declared that it does not follow yet

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
        self._declared(only_quotas=self._declarations.put_pool(pool))

    def put_node(self, node: Node) -> None:
        """Adds or replaces *node*; gangs keep what they hold there.  O(gangs on it)."""
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
        """The tree follows when it is read next.  Everybody may fit now; of quotas that is found out then."""
        self._tree = None
        if not only_quotas:
            self.sleepers.wake_all()

    @property
    def tree(self) -> QuotaTree:
        """The quota tree with everything that is held."""
        if self._tree is None:
            capacity = {FlavorResource(flavor, GPU): 0 for flavor in self.flavors} | self.nodes.capacity
            recounted, numbers = self._declarations.follow(capacity)
            self._tree = self._declarations.tree
            assert self._tree is not None
            self._recount(recounted)
            self.sleepers.quotas_changed(numbers)
        return self._tree

    def _recount(self, pools: Collection[str] | None) -> None:
        """Gangs of *pools* ask something else of the tree than before; None: of a new one, which holds nothing yet."""
        for entry in self.placed.values() if pools is None or pools else ():
            if pools is None or entry.gang.pool in pools:
                before, entry.request = entry.request, self.request_of(entry, entry.placement)
                for layer in entry.layers:
                    if pools is not None:
                        take(self.leaf(entry), before, layer)
                    add(self.leaf(entry), entry.request, layer)

    # ------------------------------------------------------------ reading

    def leaf(self, entry: Entry) -> QuotaLeaf:
        tree = self._tree or self.tree
        return (tree.firm if entry.bucket.firm else tree.low)[entry.gang.pool]

    def request_of(self, entry: Entry, placement: Placement) -> Request:
        """What *placement* asks of the tree, summed per (flavor, resource)."""
        asked, counted = self.tree.asked, self.leaf(entry).counted
        chosen = zip(placement, entry.gang.pod_sets, strict=False)
        parts = [asked(counted, each.flavor, pod_set.requests, each.count) for each, pod_set in chosen]
        return parts[0] if len(parts) == 1 else summed(parts)

    def constraints(self, entry: Entry, counts: tuple[int, ...]) -> PlacementConstraints | None:
        """Which of *counts* pods must lie together; None if the pool no longer has a topology key that the gang asks for."""
        return constraints_of(self.pools[entry.gang.pool].topology_keys, entry.gang.pod_sets, counts)

    @property
    def skewed(self) -> bool:
        """True while the layers differ: a gang is nominated, or stops for one that is."""
        return bool(self.nominated)

    def waiting_for(self, gang: str) -> Collection[Entry]:
        """The nominated gangs that wait until *gang* is gone."""
        return self._waiting_for.get(gang, {})

    # ------------------------------------------------------------ holding and letting go

    def _record(self, entry: Entry, layer: int, *, give_back: bool, on_nodes: bool = True) -> None:
        (take if give_back else add)(self.leaf(entry), entry.request, layer)
        if self.place and on_nodes:
            for each, pod_set in zip(entry.placement, entry.gang.pod_sets, strict=True):
                self.nodes.hold(each.shares, pod_set.requests, layer, give_back=give_back)

    def charge(self, entry: Entry, *, on_nodes: bool = True) -> None:
        """Makes the gang count in decisions; *on_nodes* False: in quota alone."""
        assert not entry.charged, f"{entry.gang.id} is charged twice"
        self._record(entry, CHARGED, give_back=False, on_nodes=on_nodes)
        entry.charged = True
        if entry.state is GangState.STOPPING:
            self.unclaimed[entry.gang.id] = entry

    def uncharge(self, entry: Entry, *, on_nodes: bool = True) -> None:
        """Makes decisions take the gang as gone: the inverse of `charge`."""
        assert entry.charged, f"{entry.gang.id} is not charged"
        self._record(entry, CHARGED, give_back=True, on_nodes=on_nodes)
        entry.charged = False
        if entry.state is GangState.STOPPING:
            del self.unclaimed[entry.gang.id]

    @contextmanager
    def as_if_gone(self, entries: Iterable[Entry]) -> Iterator[None]:
        """While it lasts, *entries* hold nothing in the layer REAL."""
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
        for each in entry.placement:
            self.nodes.take_gpus(each.shares)

    def _let_go(self, entry: Entry) -> None:
        self._record(entry, REAL, give_back=True)
        entry.held = False
        for each in entry.placement:
            self.nodes.return_gpus(each.shares)

    # ------------------------------------------------------------ decisions

    def apply(self, action: Decision, at: float) -> None:
        """Takes one decision at time *at*.  O(depth + nodes of the gang).  Raises IllegalStep where `transitions.GANG` has none."""
        gang_id = action.gang.id if isinstance(action, Queue) else action.gang
        entry = self.entries.get(gang_id)
        state = None if entry is None else entry.state
        if state not in GANG_STATES[type(action)]:
            raise illegal_for_gang(gang_id, state, type(action))
        match action:
            case Admit(gang, placement):
                self._admit(self.entries[gang], placement, at)
            case Queue(gang):
                self._queue(gang)
            case Nominate(gang, placement, targets):
                self._nominate(self.entries[gang], placement, targets)
            case Withdraw(gang):
                self._withdraw(self.entries[gang])
            case Preempt(gang, by, law):
                entry = self.entries[gang]
                entry.preempted_by, entry.law = by, law
                self._stop(entry)
            case Stop(gang):
                self._stop(self.entries[gang])
            case Refuse(gang, said):
                entry = self.entries[gang]
                entry.gang = replace(entry.gang, refused=said)
                self._stop(entry)
            case Release(gang):
                self._release(self.entries[gang])
            case Replace(gang, placement):
                self._replace(self.entries[gang], placement)
            case TryAgain(gang):
                self._try_again(self.entries[gang])

    def restore(self, rows: Iterable[GangRow]) -> None:
        """Takes the gangs of *rows* as they stood.  Nominated ones come last: their targets must be there, or are not waited for."""
        rows = sorted(rows, key=lambda row: row.gang.id)
        for row in rows:
            self._queue(row.gang)
            if row.state in (GangState.ADMITTED, GangState.STOPPING):
                assert row.admitted_at is not None, f"{row.gang.id} is {row.state.value} since when?"
                entry = self.entries[row.gang.id]
                entry.preempted_by, entry.law = row.preempted_by, row.law
                self._admit(entry, row.placement, row.admitted_at)
                if row.state is GangState.STOPPING:
                    self._stop(entry)
        for row in rows:
            if row.state is GangState.NOMINATED:
                still_there = [target for target in row.waits_for if target in self.entries]
                self._nominate(self.entries[row.gang.id], row.placement, still_there)

    def _queue(self, gang: Gang) -> None:
        entry = self.entries[gang.id] = Entry(gang)
        self._wait(entry)

    def _wait(self, entry: Entry) -> None:
        entry.state = GangState.PENDING
        bucket = entry.bucket = self.pending.setdefault(entry.bucket.key, entry.bucket)
        bucket.add(entry)
        self.sleepers.waits(bucket, new_head=bucket.waiting[0] is entry)

    def _no_longer_waits(self, entry: Entry) -> None:
        bucket = entry.bucket
        bucket.remove(entry)
        if not bucket.waiting:
            del self.pending[bucket.key]
            self.sleepers.empty(bucket)

    def _nominate(self, entry: Entry, placement: Placement, targets: Sequence[str]) -> None:
        self._no_longer_waits(entry)
        for name in targets:
            self._waiting_for.setdefault(name, {})[entry] = None
            target = self.entries[name]
            if target.charged:
                self.sleepers.holds_less(target, (CHARGED,))
                self.uncharge(target)
        entry.state, entry.waits_for = GangState.NOMINATED, tuple(targets)
        self._place(entry, placement)
        self.nominated[entry.gang.id] = entry
        self._charge_anew(entry)

    def _end_nomination(self, entry: Entry) -> None:
        """Charges the targets that are still there again, unless another nomination waits for them."""
        del self.nominated[entry.gang.id]
        self.sleepers.holds_less(entry, (CHARGED,))
        self.uncharge(entry)
        for name in entry.waits_for:
            others = self._waiting_for[name]
            del others[entry]
            if not others:
                del self._waiting_for[name]
                target = self.entries[name]
                if target.held and not target.charged:
                    self._charge_anew(target)
                    self.sleepers.gave_back(CANDIDATES)
        entry.waits_for = ()

    def _place(self, entry: Entry, placement: Placement) -> None:
        """*placement* is what the gang will hold; it holds nothing now."""
        self._leave_nodes(entry)
        entry.placement, entry.request = placement, self.request_of(entry, placement)
        if placement:
            self.placed[entry.gang.id] = entry
        for each in placement:
            for share in each.shares:
                self.on_node.setdefault(share.node, {})[entry.gang.id] = entry

    def _leave_nodes(self, entry: Entry) -> None:
        self.placed.pop(entry.gang.id, None)
        for name in {share.node for each in entry.placement for share in each.shares} if entry.placement else ():
            del self.on_node[name][entry.gang.id]
            if not self.on_node[name]:
                del self.on_node[name]

    def _withdraw(self, entry: Entry) -> None:
        self._end_nomination(entry)
        self._place(entry, ())
        self._wait(entry)

    def _admit(self, entry: Entry, placement: Placement, at: float) -> None:
        if entry.state is GangState.NOMINATED:
            self._end_nomination(entry)
        else:
            self._no_longer_waits(entry)
        self._place(entry, placement)
        entry.state, entry.admitted_at = GangState.ADMITTED, at
        self._charge_anew(entry)
        self._hold(entry)
        if entry.gang.priority.preemptible:
            insort(self.preemptible.setdefault(entry.gang.pool, []), (entry.preemption_key, entry))

    def _charge_anew(self, entry: Entry) -> None:
        """A pool that starts to borrow loses the protection of law R2: gangs that found no target before may find one."""
        before = above_nominal(self.leaf(entry), entry.request)
        self.charge(entry)
        self.sleepers.holds_more(entry, before)

    def _replace(self, entry: Entry, placement: Placement) -> None:
        """The admitted *entry* holds *placement* instead of what it held, in both layers."""
        self.sleepers.holds_less(entry, LAYERS)
        self._let_go(entry)
        self.uncharge(entry)
        self._place(entry, placement)
        self.charge(entry)
        self._hold(entry)

    def _try_again(self, entry: Entry) -> None:
        """A refused gang no longer waits for a change (law T7); one that still stops will not wait for it once it is queued again."""
        gang = replace(entry.gang, refused="")
        if entry.state is GangState.STOPPING:
            entry.gang = gang
        else:
            self._release(entry)
            self._queue(gang)

    def _stop(self, entry: Entry) -> None:
        """A gang that stops already is stopped for another cause: for the ledger nothing changes."""
        if entry.state is GangState.ADMITTED:
            self._no_candidate(entry)
            entry.state = GangState.STOPPING
            self.stopping[entry.gang.id] = entry
            insort(self.stopping_ids, entry.gang.id)
            if entry.charged:
                self.unclaimed[entry.gang.id] = entry
                self.sleepers.gave_back(CANDIDATES)  # whoever was passed over may wait for it now

    def _no_candidate(self, entry: Entry) -> None:
        if entry.gang.priority.preemptible:
            candidates = self.preemptible[entry.gang.pool]
            del candidates[bisect_left(candidates, (entry.preemption_key,))]

    def _release(self, entry: Entry) -> None:
        match entry.state:
            case GangState.PENDING:
                self._no_longer_waits(entry)
            case GangState.NOMINATED:
                self._end_nomination(entry)
            case GangState.ADMITTED:
                self._no_candidate(entry)
            case GangState.STOPPING:
                del self.stopping[entry.gang.id]
                del self.stopping_ids[bisect_left(self.stopping_ids, entry.gang.id)]
        self.sleepers.holds_less(entry, entry.layers)
        if entry.charged:
            self.uncharge(entry)
        if entry.held:
            self._let_go(entry)
        self._leave_nodes(entry)
        for each in self._waiting_for.pop(entry.gang.id, ()):
            # The id comes back when the gang is queued again; that one is nobody's target.
            each.waits_for = tuple(name for name in each.waits_for if name != entry.gang.id)
        del self.entries[entry.gang.id]
