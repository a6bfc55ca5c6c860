"""Which gangs need not be evaluated: buckets that failed sleep at barriers that block them (rule P4).

A barrier is a necessary condition that did not hold: there was less *room* than the bucket needs. Room grows only when
something is released, so nothing is checked until a source of the barrier reports that. The next cycle then wakes buckets whose
need is met, in queue order, one after the other while there is room. A bucket that is woken for nothing fails and sleeps again:
waking too many costs time but never changes the plan.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from runrig.engine.ledger.queue import AWAKE, Barrier, Bucket, Entry, Pass
from runrig.engine.nodes.cluster_nodes import ClusterNodes
from runrig.engine.quota.declared_tree import Followed
from runrig.engine.quota.guarantees import nodes_under
from runrig.engine.quota.quota_node import LAYERS, NodeKind, QuotaLeaf, QuotaNode, Request

ANYTHING = "anything"
CANDIDATES = "candidates"
"""Sources of room. ANYTHING: any release. CANDIDATES: gangs that guaranteed work may now be able to preempt (rules R1, R2)."""


class Sleepers:
    """Which waiting buckets are awake, and which sleep at which barriers.

    *barriers*: by key, while any bucket sleeps at them; every gang shape may have its own.
    *changes*: increases with everything that may let a gang start, or may unblock a STRICT_FIFO pool.
    *risen*: per pass, the barriers where something was released since the pass was last completed.
    *refused*: buckets of gangs that the cluster's own scheduler refused, awake or asleep; not tried (rule T7).
    *eased*: pools whose usage fell or whose quota changed, so that LOW work may now be within nominal.
    *notes*: the state before the current what-if run; None outside one.
    """

    def __init__(self, leaf_of: Callable[[Entry], QuotaLeaf], nodes: ClusterNodes) -> None:
        self._leaf_of, self._nodes = leaf_of, nodes
        self.awake: dict[Bucket, None] = {}
        self.asleep: dict[Bucket, None] = {}
        self.refused: dict[Bucket, None] = {}
        self.changes = 0
        self.risen: tuple[list[Barrier], ...] = ([], [], [])
        self.eased: dict[str, None] = {}
        self._in_pool: dict[str, dict[Bucket, None]] = {}  # pool → its sleeping buckets
        self.barriers: dict[Hashable, Barrier] = {}
        self.notes: Notes | None = None
        self._deaf = False
        self._at_source: dict[Hashable, dict[Barrier, None]] = {}

    def left_alone(self, bucket: Bucket) -> bool:
        """Whether the next cycle would skip *bucket*."""
        return bucket.asleep is not None or bucket.parked == self.changes

    # ------------------------------------------------------------ waiting

    def waits(self, bucket: Bucket, *, new_head: bool) -> None:
        """A gang was added to *bucket*. *new_head*: as its first."""
        self._note(bucket)
        if bucket.key.refused:
            self.refused[bucket] = None
        if bucket.asleep is None:
            self.awake[bucket] = None
        elif new_head:
            for barrier, need in bucket.before.items():
                barrier.file(bucket, bucket.asleep, need)

    def empty(self, bucket: Bucket) -> None:
        """The last gang of *bucket* has left."""
        self.wake(bucket)
        del self.awake[bucket]
        self.refused.pop(bucket, None)
        bucket.parked = None

    def park(self, bucket: Bucket) -> None:
        """No placement was found for the head of *bucket*, which is in a STRICT_FIFO pool."""
        self._note(bucket)
        bucket.parked = self.changes

    def barrier(self, key: Hashable, sources: Iterable[Hashable], room: Callable[[], int] | None) -> Barrier:
        """Returns the barrier with this key, and creates it if necessary.

        *sources*: where its room can grow. *room*: None counts releases.
        It is deleted when the last bucket that sleeps at it wakes.
        """
        known = self.barriers.get(key)
        if known is None:
            known = Barrier(key, tuple(sources), room)
            self._know(known)
        return known

    def _know(self, barrier: Barrier) -> None:
        self.barriers[barrier.key] = barrier
        for source in barrier.sources:
            self._at_source.setdefault(source, {})[barrier] = None

    def _forget(self, barrier: Barrier) -> None:
        del self.barriers[barrier.key]
        for source in barrier.sources:
            here = self._at_source[source]
            del here[barrier]
            if not here:
                del self._at_source[source]

    def sleep(self, bucket: Bucket, turn: Pass, before: Mapping[Barrier, int]) -> None:
        """Puts *bucket* to sleep until the room at one of the barriers *before* reaches its need.

        Without barriers: until something is declared or the bucket is empty.
        """
        self._note(bucket)
        self.awake.pop(bucket, None)
        self.asleep[bucket] = None
        bucket.asleep, bucket.before = turn, dict(before)
        self._in_pool.setdefault(bucket.pool, {})[bucket] = None
        for barrier, need in before.items():
            barrier.sleepers += 1
            barrier.file(bucket, turn, need)

    def wake(self, bucket: Bucket) -> None:
        """Makes the next cycle evaluate *bucket*."""
        self._note(bucket)
        if bucket.asleep is not None:
            del self._in_pool[bucket.pool][bucket]
        for barrier in bucket.before:
            barrier.sleepers -= 1
            if not barrier.sleepers:
                self._forget(barrier)
        bucket.asleep, bucket.before = None, AWAKE
        self.asleep.pop(bucket, None)
        self.awake[bucket] = None

    def wake_all(self) -> None:
        """Something other than nodes was declared: wakes all buckets. O(sleepers)."""
        if self._deaf:
            return
        if self.notes is not None:
            for bucket in list(self.asleep):
                self.wake(bucket)
        for bucket in self.asleep:
            bucket.asleep, bucket.before = None, AWAKE
        self.awake.update(self.asleep)
        self.asleep = {}
        self._in_pool, self.barriers, self._at_source, self.eased = {}, {}, {}, {}
        for risen in self.risen:
            risen.clear()
        self.changes += 1

    def queueing_changed(self, pool: str) -> None:
        """The head of *pool* may block others now, or no longer. O(sleepers in the pool)."""
        if not self._deaf:
            self._wake_in(pool)
            self.changes += 1

    def _wake_in(self, pool: str) -> None:
        for bucket in list(self._in_pool.get(pool, ())):
            self.wake(bucket)

    def borrowers(self, pools: Iterable[str]) -> Iterator[Bucket]:
        """Yields sleeping buckets of *pools* that failed as LOW work that borrows."""
        for pool in pools:
            yield from [each for each in self._in_pool.get(pool, ()) if each.asleep is Pass.BORROWING]

    @property
    def put_off(self) -> Collection[str]:
        """Pools whose buckets would all be woken outside a what-if run. The cycles of the run first decide which of them may start."""
        return () if self.notes is None else self.notes.put_off.keys()

    def asleep_in(self, pool: str) -> Collection[Bucket]:
        return self._in_pool.get(pool, {}).keys()

    # ------------------------------------------------------------ giving back

    def gave_back(self, source: Hashable) -> None:
        """There may be more room at *source*."""
        if self._deaf:
            return
        self.changes += 1
        for barrier in self._at_source.get(source, ()):
            if self.notes is not None:
                self.notes.rises.setdefault(barrier, barrier.rises)
            barrier.rises += 1
            for risen in self.risen:
                risen.append(barrier)

    def nodes_changed(self, flavors: Iterable[str]) -> None:
        """Nodes of *flavors* were added, removed or changed. The quota of the root follows from them (rule Q8)."""
        self.gave_back(ANYTHING)
        for flavor in sorted(flavors):
            self.gave_back(flavor)

    def quotas_changed(self, followed: Followed) -> None:
        """The tree has followed declared quotas. O(sleepers below the change) if more than numbers changed."""
        if self.notes is not None and not followed.same_nodes:
            # Nodes that a what-if run added are removed when it is undone, unless the tree was rebuilt.
            self.notes.same_nodes = self.notes.same_nodes and self._deaf and followed.recounted is not None
        if self._deaf:
            return
        if followed.recounted is None or followed.recounted:
            self.wake_all()
        if followed.more:
            below = (node for top in followed.more for node in nodes_under(top))
            for pool in sorted({node.name for node in below if node.kind is NodeKind.POOL}):
                if self.notes is None:
                    self._wake_in(pool)
                else:
                    self.notes.put_off[pool] = None
        for node in followed.numbers:
            self._eased(node)
            for index in range(len(node.nominal)):
                for layer in LAYERS:
                    self.gave_back((node, index, layer))
        if followed.numbers:
            self.gave_back(ANYTHING)
            self.gave_back(CANDIDATES)

    def holds_less(self, entry: Entry, layers: Sequence[int]) -> None:
        """*entry* is about to release what it uses in *layers*. O(depth + nodes of the gang)."""
        self.gave_back(ANYTHING)
        if not self.asleep or not layers or self._deaf:
            return
        leaf = self._leaf_of(entry)
        twins = leaf.twin.path if leaf.twin is not None else ()
        for index, _ in entry.request:
            for layer in layers:
                for node in (*leaf.path, *twins):
                    self.gave_back((node, index, layer))
        rooms = [self._nodes.by_name.get(share.node) for each in entry.placement for share in each.shares]
        for flavor in sorted({room.node.flavor for room in rooms if room is not None}):
            self.gave_back(flavor)
        for node in leaf.path:
            self._eased(node)

    def _eased(self, node: QuotaNode) -> None:
        if node.kind is NodeKind.POOL:
            self.eased[node.name] = None

    def holds_more(self, leaf: QuotaLeaf, request: Request, before: list[bool]) -> None:
        """*request* was charged to *leaf*. LOW work may have lost the protection of rule R2. *before*: `above_nominal` before that.

        Quota that a pool draws from cohorts is not part of its nominal and also changes, so any pool above nominal counts then.
        If weights differ, every charge can change the order of preemption.
        """
        if self._deaf:
            return
        after = above_nominal(leaf, request)
        draws = leaf.outermost_pool.guarantee is not None and any(after)
        if after != before or draws or leaf.weighed:
            self.gave_back(CANDIDATES)

    # ------------------------------------------------------------ trials

    def begin_trial(self) -> None:
        """Starts recording, so that `end_trial` can restore the current state."""
        assert self.notes is None, "one trial at a time"
        self.notes = Notes(self.changes, [list(risen) for risen in self.risen], dict(self.eased))

    def be_deaf(self) -> None:
        """Ignores releases until the what-if run ends, because no cycle follows or everything is being undone."""
        self._deaf = True

    def end_trial(self) -> bool:
        """Restores the sleepers after the ledger was restored. O(buckets that the run touched).

        Returns False and wakes all buckets if nodes of the tree were replaced, because the barriers refer to old nodes.
        """
        notes, self.notes, self._deaf = self.notes, None, False
        assert notes is not None, "no trial has begun"
        for bucket in notes.buckets:
            if bucket.asleep is not None:
                self.wake(bucket)
            self.awake.pop(bucket, None)
            self.refused.pop(bucket, None)
        for bucket, was in notes.buckets.items():
            self._restore(bucket, was)
        for barrier, rises in notes.rises.items():
            barrier.rises = rises
        self.changes, self.eased = notes.changes, notes.eased
        for risen, before in zip(self.risen, notes.risen, strict=True):
            risen[:] = before
        if not notes.same_nodes:
            self.wake_all()
        return notes.same_nodes

    def _note(self, bucket: Bucket) -> None:
        if self.notes is not None and bucket not in self.notes.buckets:
            self.notes.buckets[bucket] = Mark(
                bucket.asleep, bucket.before, bucket.parked, bucket in self.awake, bucket in self.refused
            )

    def _restore(self, bucket: Bucket, was: "Mark") -> None:
        bucket.parked = was.parked
        if was.refused:
            self.refused[bucket] = None
        if was.awake:
            self.awake[bucket] = None
        if was.asleep is not None:
            for barrier in was.before:
                if self.barriers.get(barrier.key) is not barrier:
                    self._know(barrier)
            self.sleep(bucket, was.asleep, was.before)


class Mark(NamedTuple):
    """The state of a bucket before a what-if run. *awake*, *refused*: whether it was in those sets."""

    asleep: Pass | None
    before: Mapping[Barrier, int]
    parked: int | None
    awake: bool
    refused: bool


class Notes:
    """The state of the sleepers before a what-if run. *same_nodes* False: nodes of the tree were removed since.

    *put_off*: pools that the run has reshaped (`Sleepers.put_off`).
    """

    def __init__(self, changes: int, risen: list[list[Barrier]], eased: dict[str, None]) -> None:
        self.changes, self.risen, self.eased = changes, risen, eased
        self.buckets: dict[Bucket, Mark] = {}
        self.rises: dict[Barrier, int] = {}
        self.same_nodes = True
        self.put_off: dict[str, None] = {}


def above_nominal(leaf: QuotaLeaf, request: Request) -> list[bool]:
    """For each pool above *leaf*, its `own` node first, and each index of *request*: whether usage exceeds nominal."""
    return [usage[index] > subtree[index] for usage, subtree in leaf.nominals for index, _ in request]
