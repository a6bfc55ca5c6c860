"""The ledger: every gang, its quota and nodes, and the queue; updated as actions are applied, never rebuilt.

A gang uses resources in two layers. PENDING: neither. NOMINATED: only CHARGED (rule R4). ADMITTED: both. STOPPING: both, but
only REAL if a nomination waits for it, so that what it frees is reserved only once.

Gangs change only through `apply`, for one decision, and `restore`, for stored rows. What-if runs undo what they applied gang by
gang (`take_out`, `put_back`).
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Sequence

from runrig.domain import plan
from runrig.domain.gangs import HOLDING, Gang, GangState, Placement, Priority
from runrig.domain.limits import Limits
from runrig.domain.plan import Decision, Queue
from runrig.domain.pools import Pool, PoolState
from runrig.domain.quantities import LARGEST
from runrig.domain.records import GangRow
from runrig.domain.replacing import replace
from runrig.domain.subjects import gang_id_of
from runrig.domain.transitions import GANG_STATES, illegal_for_gang
from runrig.engine.ledger.accounts import Accounts
from runrig.engine.ledger.queue import Bucket, BucketKey, Entry, Rank, bucket_key
from runrig.engine.ledger.searches import Searches
from runrig.engine.ledger.sleeping import CANDIDATES, above_nominal
from runrig.engine.ledger.user_limits import UserLimits
from runrig.engine.quota.quota_node import CHARGED, LAYERS


class Ledger(Accounts):
    """All gangs. *effort*: counts the work of searches for targets, to limit long cycles. *ranks*: pending gangs by rank.

    *left_alone*: gangs that can be neither preempted nor relied on (rule W8).
    *user_of*: workflow → who submitted it; "" if unknown. Only called for gangs that do not have their user.
    """

    def __init__(self, *, place: bool = True, user_of: Callable[[str], str] = lambda _: "") -> None:
        super().__init__(place=place)
        self._user_of = user_of
        self.users = UserLimits(self.placed)
        self.effort = 0
        self.searches = Searches()
        self.pending: dict[BucketKey, Bucket] = {}
        self.ranks: dict[int, Rank] = {}
        self.nominated: dict[str, Entry] = {}
        self.stopping: dict[str, Entry] = {}
        self.stopping_ids: list[str] = []  # sorted
        self.left_alone: set[str] = set()
        self.pause_ends: dict[str, float] = {}  # when pauses end by themselves, by pool (rule S8)
        self._waiting_for: dict[str, dict[Entry, None]] = {}
        self.preemptible: dict[str, list[tuple[tuple[int, float, str], Entry]]] = {}

    @property
    def skewed(self) -> bool:
        """True while the layers differ, because a gang is nominated or stops for a nominated one."""
        return bool(self.nominated)

    @property
    def settled(self) -> bool:
        """Whether a cycle cannot free anything: no gang is preemptible, stopping or nominated. O(pools)."""
        return not (self.nominated or self.stopping or any(self.preemptible.values()))

    def user_room(self, entry: Entry) -> int:
        """How many more GPUs the user of the waiting *entry* may hold (rule W6); `LARGEST` without a limit. O(1)."""
        user = entry.bucket.key.user
        return self.users.room(self.pools[entry.gang.pool], user) if user else LARGEST

    def user_holds_too_much(self, bucket: Bucket) -> bool:
        """Whether a limit of its user stops the gangs of *bucket*, even at their smallest size (rule W6). O(pod sets)."""
        return bool(bucket.key.user) and bucket.least_gpus > self.user_room(bucket.waiting[0])

    def waiting_for(self, gang: str) -> Collection[Entry]:
        """The nominated gangs that wait for *gang* to stop."""
        return self._waiting_for.get(gang, {})

    # ------------------------------------------------------------ decisions

    def apply(self, action: Decision, at: float) -> None:
        """Applies one decision.

        *at*: its time. O(depth + nodes of the gang). Raises IllegalStep if the gang's state does not allow it.
        """
        gang_id = gang_id_of(action)
        entry = self.entries.get(gang_id)
        state = None if entry is None else entry.state
        if state not in GANG_STATES[type(action)]:
            raise illegal_for_gang(gang_id, state, type(action))
        match action:
            case plan.Admit(gang, placement):
                self._admit(self.entries[gang], placement, at)
            case Queue(gang):
                self._queue(gang)
            case plan.Nominate(gang, placement, targets):
                self._nominate(self.entries[gang], placement, targets)
            case plan.Withdraw(gang):
                self._withdraw(self.entries[gang])
            case plan.Preempt(gang, by, law):
                entry = self.entries[gang]
                entry.preempted_by, entry.law = by, law
                self._stop(entry)
            case plan.Stop(gang):
                self._stop(self.entries[gang])
            case plan.Refuse(gang, said):
                entry = self.entries[gang]
                entry.gang = replace(entry.gang, refused=said)
                self._stop(entry)
            case plan.Release(gang) | plan.Unqueue(gang):
                self._release(self.entries[gang])
            case plan.Replace(gang, placement):
                self._hold_as(self.entries[gang], placement=placement)
            case plan.TryAgain(gang):
                self._try_again(self.entries[gang])
            case plan.SetPriority(gang, priority):
                self._hold_as(self.entries[gang], priority=priority)

    def restore(self, rows: Iterable[GangRow]) -> None:
        """Restores the gangs of *rows*, in the order of submission, so that each is appended to its queue.

        Nominated gangs come last, because their targets must exist; missing targets have stopped.
        """
        rows = sorted(rows, key=lambda row: (row.gang.submitted_at, row.gang.id))
        for row in rows:
            self._queue(row.gang)
            if row.state in HOLDING:
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
        user = gang.user or self._user_of(gang.workflow)
        entry = self.entries[gang.id] = Entry(gang, self._bucket_of(gang, user), user)
        self._wait(entry)

    def _bucket_of(self, gang: Gang, user: str) -> Bucket:
        limited = user if any(self.users.of(self.pools[gang.pool], user)) else ""
        key = bucket_key(gang, limited)
        return self.pending.get(key) or Bucket(key)

    def put_pool(self, pool: Pool) -> None:
        """Also sorts the gangs of *pool* anew if limits of users begin or end there. O(gangs) then."""
        before = self.pools.get(pool.name)
        super().put_pool(pool)
        self.pause_ends.pop(pool.name, None)
        if pool.paused_until is not None and pool.state is not PoolState.ARCHIVED:
            self.pause_ends[pool.name] = pool.paused_until
        if before is not None and (before.user_gpus is None) != (pool.user_gpus is None):
            self._sort_anew([*self.waiting_in(pool.name), *self.placed_in.get(pool.name, {}).values()])

    def put_limits(self, limits: Limits) -> None:
        """Also sorts the gangs of its user anew if a limit of GPUs begins or ends. O(gangs)."""
        before = self.users.limits_of(limits.user)
        self.users.put(limits)
        if (before.gpus is None) != (limits.gpus is None):
            self._sort_anew(self.of_user(limits.user))
        self.sleepers.wake_all()

    def of_user(self, user: str) -> list[Entry]:
        """O(gangs)."""
        return [entry for entry in self.entries.values() if entry.user == user]

    def _sort_anew(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            waits = entry.state is GangState.PENDING
            if waits:
                self._no_longer_waits(entry)
            entry.bucket = self._bucket_of(entry.gang, entry.user)  # A nominated gang may have to wait again.
            if waits:
                self._wait(entry)

    def waiting_in(self, pool: str) -> list[Entry]:
        """The pending gangs of *pool*, unordered."""
        return [entry for bucket in self.buckets_in(pool) for entry in bucket.waiting]

    def buckets_in(self, pool: str) -> list[Bucket]:
        """The buckets of *pool* in which gangs wait, unordered."""
        queues = [rank.by_pool[pool] for rank in self.ranks.values() if pool in rank.by_pool]
        return [bucket for queue in queues for bucket in queue.buckets]

    def _wait(self, entry: Entry) -> None:
        entry.state = GangState.PENDING
        bucket = entry.bucket = self.pending.setdefault(entry.bucket.key, entry.bucket)
        bucket.add(entry)
        if (rank := self.ranks.get(bucket.rank)) is None:
            rank = self.ranks[bucket.rank] = Rank()
        rank.add(entry)
        self.sleepers.waits(bucket, new_head=bucket.waiting[0] is entry)

    def _no_longer_waits(self, entry: Entry) -> None:
        bucket = entry.bucket
        bucket.remove(entry)
        self.ranks[bucket.rank].remove(entry)
        if not bucket.waiting:
            del self.pending[bucket.key]
            self.sleepers.empty(bucket)

    def _nominate(self, entry: Entry, placement: Placement, targets: Sequence[str]) -> None:
        self._no_longer_waits(entry)
        for target in map(self.entries.__getitem__, targets):
            if target.charged:
                self.sleepers.holds_less(target, (CHARGED,))
                self.uncharge(target)
        entry.state = GangState.NOMINATED
        self._place(entry, placement)
        self._wait_for(entry, targets)
        self._charge_anew(entry)

    def _end_nomination(self, entry: Entry) -> None:
        """Charges remaining targets again, unless another nomination waits for them."""
        self.sleepers.holds_less(entry, (CHARGED,))
        self.uncharge(entry)
        for target in self._wait_for_nobody(entry):
            if target.held and not target.charged:
                self._charge_anew(target)
                self.sleepers.gave_back(CANDIDATES)

    def _wait_for(self, entry: Entry, targets: Sequence[str]) -> None:
        self.nominated[entry.gang.id], entry.waits_for = entry, tuple(targets)
        for name in targets:
            self._waiting_for.setdefault(name, {})[entry] = None

    def _wait_for_nobody(self, entry: Entry) -> list[Entry]:
        """Returns its former targets that no other nomination waits for."""
        del self.nominated[entry.gang.id]
        targets, entry.waits_for = entry.waits_for, ()
        for name in targets:
            del self._waiting_for[name][entry]
            if not self._waiting_for[name]:
                del self._waiting_for[name]
        return [self.entries[name] for name in targets if name not in self._waiting_for]

    def _place(self, entry: Entry, placement: Placement) -> None:
        """Sets the placement that the gang is about to use; it uses nothing now."""
        self._leave_nodes(entry)
        entry.placement, entry.request = placement, self.request_of(entry, placement)
        if placement:
            self.users.count(entry, 1)
            self.placed[entry.gang.id] = entry
            self.placed_in.setdefault(entry.gang.pool, {})[entry.gang.id] = entry
        for each in placement:
            for share in each.shares:
                self.on_node.setdefault(share.node, {})[entry.gang.id] = entry

    def _leave_nodes(self, entry: Entry) -> None:
        if self.placed.pop(entry.gang.id, None) is not None:
            for holder in self.users.count(entry, -1):
                self.sleepers.gave_back(holder)
            placed = self.placed_in[entry.gang.pool]
            del placed[entry.gang.id]
            if not placed:
                del self.placed_in[entry.gang.pool]
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
        self._candidate(entry)

    def _charge_anew(self, entry: Entry) -> None:
        """Charges *entry*. Gangs without targets may get some: a pool that starts to borrow loses the protection of rule R2."""
        leaf = self.leaf(entry)
        before = above_nominal(leaf, entry.request)
        self.charge(entry)
        self.sleepers.holds_more(leaf, entry.request, before)

    def _hold_as(self, entry: Entry, placement: Placement | None = None, priority: Priority | None = None) -> None:
        """Replaces the placement or priority of the admitted *entry* in both layers; None: unchanged."""
        self.sleepers.holds_less(entry, LAYERS)
        self._no_candidate(entry)
        self._let_go(entry)
        self.uncharge(entry)
        if priority is not None:
            entry.gang = replace(entry.gang, priority=priority)
            entry.bucket = self._bucket_of(entry.gang, entry.user)
            self.sleepers.gave_back(CANDIDATES)
        self._place(entry, entry.placement if placement is None else placement)
        self._charge_anew(entry)
        self._hold(entry)
        self._candidate(entry)

    def _try_again(self, entry: Entry) -> None:
        """Lets a refused gang be tried again (rule T7), immediately or, if it is still stopping, once it is queued again."""
        gang = replace(entry.gang, refused="")
        if entry.state is GangState.STOPPING:
            entry.gang = gang
        else:
            self._release(entry)
            self._queue(gang)

    def _stop(self, entry: Entry) -> None:
        """Stops an admitted gang. If it is already stopping, the ledger does not change."""
        if entry.state is GangState.ADMITTED:
            self._no_candidate(entry)
            entry.state = GangState.STOPPING
            self._stops(entry)
            if entry.charged:
                self.unclaimed[entry.gang.id] = entry
                self.sleepers.gave_back(CANDIDATES)  # gangs that were passed over may now wait for it

    def _stops(self, entry: Entry) -> None:
        self.stopping[entry.gang.id] = entry
        insort(self.stopping_ids, entry.gang.id)

    def leave_alone(self, gang: str) -> None:
        """Excludes *gang* from preemption until `take_up`; it keeps its quota and nodes (rule W8)."""
        entry = self.entries[gang]
        if entry.state is GangState.ADMITTED:
            self._no_candidate(entry)
        self.left_alone.add(gang)

    def take_up(self, gang: str) -> None:
        """The inverse of `leave_alone`; no effect on other gangs."""
        if gang in self.left_alone:
            self.left_alone.remove(gang)
            entry = self.entries.get(gang)
            if entry is not None and entry.state is GangState.ADMITTED:
                self._candidate(entry)
                self.sleepers.gave_back(CANDIDATES)

    def _candidate(self, entry: Entry) -> None:
        if entry.gang.priority.preemptible and entry.gang.id not in self.left_alone:
            insort(self.preemptible.setdefault(entry.gang.pool, []), (entry.preemption_key, entry))
            self.candidates.add(entry)

    def _no_candidate(self, entry: Entry) -> None:
        if entry.gang.priority.preemptible and entry.gang.id not in self.left_alone:
            candidates = self.preemptible[entry.gang.pool]
            del candidates[bisect_left(candidates, (entry.preemption_key,))]
            self.candidates.remove(entry)

    def _release(self, entry: Entry) -> None:
        if entry.state is GangState.NOMINATED:
            self._withdraw(entry)
        self.sleepers.holds_less(entry, entry.layers)
        self.take_out(entry)
        for each in self._waiting_for.pop(entry.gang.id, ()):
            # The id returns when the gang is queued again, but that gang is not a target.
            each.waits_for = tuple(name for name in each.waits_for if name != entry.gang.id)
        del self.entries[entry.gang.id]

    # ------------------------------------------------------------ one gang, whole

    def take_out(self, entry: Entry) -> None:
        """Removes *entry* from everything except *entries*; it uses nothing then. Its targets do not change."""
        match entry.state:
            case GangState.PENDING:
                self._no_longer_waits(entry)
            case GangState.NOMINATED:
                self._wait_for_nobody(entry)
            case GangState.ADMITTED:
                self._no_candidate(entry)
            case GangState.STOPPING:
                del self.stopping[entry.gang.id]
                del self.stopping_ids[bisect_left(self.stopping_ids, entry.gang.id)]
        if entry.charged:
            self.uncharge(entry)
        if entry.held:
            self._let_go(entry)
        self._place(entry, ())

    def put_back(self, entry: Entry, was: Entry) -> None:
        """Restores *entry* as it *was*, a copy: the inverse of `take_out`."""
        entry.gang, entry.state, entry.bucket = was.gang, was.state, was.bucket
        entry.admitted_at, entry.preempted_by, entry.law = was.admitted_at, was.preempted_by, was.law
        self.entries[entry.gang.id] = entry
        if entry.state is GangState.PENDING:
            self._wait(entry)
        self._place(entry, was.placement)
        if was.charged:
            self.charge(entry)
        if was.held:
            self._hold(entry)
        match entry.state:
            case GangState.NOMINATED:
                self._wait_for(entry, was.waits_for)
            case GangState.ADMITTED:
                self._candidate(entry)
            case GangState.STOPPING:
                self._stops(entry)
