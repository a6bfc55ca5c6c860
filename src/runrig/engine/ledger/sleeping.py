"""Who need not be looked at: buckets that failed sleep before barriers until one of these may have fallen (law P4).

A barrier is a necessary condition that did not hold: there was less *room* than the bucket's need.  Room grows only where
something is given back, so nobody asks until the barrier's source reports that.  Then the next cycle wakes those whose need is
met, in the order of the queue, one after the other as long as there is room.  Who is woken in vain fails and sleeps again: too
many awake cost time, never another plan.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from runrig.engine.ledger.queue import AWAKE, Barrier, Bucket, Entry, Pass
from runrig.engine.nodes.cluster_nodes import ClusterNodes
from runrig.engine.quota.declared_tree import Followed
from runrig.engine.quota.guarantees import nodes_under
from runrig.engine.quota.quota_node import CHARGED, LAYERS, Kind, QuotaLeaf, QuotaNode, Request

ANYTHING = "anything"
CANDIDATES = "candidates"
"""Sources of room: whatever is given back; gangs that firm work may stop, and may not have stopped before (laws R1, R2)."""


class Sleepers:
    """Which waiting buckets are awake, and which sleep before which barriers.

    *barriers*: by key, while somebody sleeps before them: every shape of gang may have one of its own.
    *changes*: grows with whatever may let somebody start, or may open a STRICT_FIFO pool.  *risen*: per pass, the barriers at
    which something was given back since that pass was last gone through to its end.
    *refused*: buckets of gangs that the cluster's own scheduler refused, awake or asleep: nobody tries them (law T7).
    *eased*: pools that hold less than before, or have another quota, so that their LOW work may have come within nominal.
    *notes*: how things were before a trial that goes on now; None if none does.
    """

    def __init__(self, leaf_of: Callable[[Entry], QuotaLeaf], nodes: ClusterNodes) -> None:
        self._leaf_of, self._nodes = leaf_of, nodes
        self.awake: dict[Bucket, None] = {}
        self.asleep: dict[Bucket, None] = {}
        self.refused: dict[Bucket, None] = {}
        self.changes = 0
        self.risen: tuple[list[Barrier], ...] = ([], [], [])
        self.eased: dict[str, None] = {}
        self._in_pool: dict[str, dict[Bucket, None]] = {}  # of those asleep
        self.barriers: dict[Hashable, Barrier] = {}
        self.notes: Notes | None = None
        self._deaf = False
        self._at_source: dict[Hashable, dict[Barrier, None]] = {}

    def __bool__(self) -> bool:
        """True if anybody sleeps."""
        return bool(self.asleep)

    def left_alone(self, bucket: Bucket) -> bool:
        """True if the next cycle would not try *bucket*, as things stand."""
        return bucket.asleep is not None or bucket.parked == self.changes

    # ------------------------------------------------------------ waiting

    def waits(self, bucket: Bucket, *, new_head: bool) -> None:
        """A gang has come to *bucket*; *new_head*: before all others of it."""
        self._note(bucket)
        if bucket.key.refused:
            self.refused[bucket] = None
        if bucket.asleep is None:
            self.awake[bucket] = None
        elif new_head:
            for barrier, need in bucket.before.items():
                barrier.file(bucket, bucket.asleep, need)

    def empty(self, bucket: Bucket) -> None:
        """Nobody of *bucket* waits any more."""
        self.wake(bucket)
        del self.awake[bucket]
        self.refused.pop(bucket, None)
        bucket.parked = None

    def park(self, bucket: Bucket) -> None:
        """The head of *bucket*, of a STRICT_FIFO pool, found no place as things stand."""
        self._note(bucket)
        bucket.parked = self.changes

    def barrier(self, key: Hashable, sources: Iterable[Hashable], room: Callable[[], int] | None) -> Barrier:
        """The barrier of this key; made, if there is none, with the *sources* at which its room may grow.

        It is forgotten when the last who sleeps before it wakes.
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
        """Nothing of *bucket* can start while each barrier of *before* has less room than the need beside it.

        None at all: until something is declared, or it is empty.
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
        """The next cycle looks at *bucket*."""
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
        """Something was declared, other than nodes: everybody is looked at again.  O(those who sleep)."""
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
        """Who heads *pool* may stand in the way now, or no longer.  O(those who sleep there)."""
        if not self._deaf:
            self._wake_in(pool)
            self.changes += 1

    def _wake_in(self, pool: str) -> None:
        for bucket in list(self._in_pool.get(pool, ())):
            self.wake(bucket)

    def borrowers(self, pools: Iterable[str]) -> Iterator[Bucket]:
        """Buckets of *pools* that failed as LOW that borrows, and sleep."""
        for pool in pools:
            yield from [each for each in self._in_pool.get(pool, ()) if each.asleep is Pass.BORROWING]

    @property
    def put_off(self) -> Collection[str]:
        """Pools in which everybody would be looked at again, if no trial went on: its cycles judge first who may start there."""
        return () if self.notes is None else self.notes.put_off.keys()

    def asleep_in(self, pool: str) -> Collection[Bucket]:
        """The buckets of *pool* that sleep."""
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
        """Nodes of *flavors* have come, gone or changed.  What the root of the tree has, follows with it (law Q8)."""
        self.gave_back(ANYTHING)
        for flavor in sorted(flavors):
            self.gave_back(flavor)

    def quotas_changed(self, followed: Followed) -> None:
        """Quotas were declared, and the tree followed.  O(those who sleep below what changed) where that is more than numbers."""
        if self.notes is not None and not followed.same_nodes:
            # What a trial made is gone when it is undone, unless the tree was built anew.
            self.notes.same_nodes = self.notes.same_nodes and self._deaf and followed.recounted is not None
        if self._deaf:
            return
        if followed.recounted is None or followed.recounted:
            self.wake_all()
        if followed.more:
            below = (node for top in followed.more for node in nodes_under(top))
            for pool in sorted({node.name for node in below if node.kind is Kind.POOL}):
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
        """*entry* is about to give back what it holds in *layers*.  O(depth + nodes of the gang)."""
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
        if node.kind is Kind.POOL:
            self.eased[node.name] = None

    def holds_more(self, entry: Entry, before: list[bool]) -> None:
        """*entry* is charged; *before*: what `above_nominal` said without it.  LOW work may have lost the protection of law R2.

        What a pool draws from cohorts is no part of its nominal, and changes too: there every pool that is above counts.  Where
        weights differ, who stops first is another question with every charge.
        """
        if self._deaf:
            return
        leaf = self._leaf_of(entry)
        after = above_nominal(leaf, entry.request)
        draws = leaf.outermost_pool.guarantee is not None and any(after)
        if after != before or draws or leaf.weighed:
            self.gave_back(CANDIDATES)

    # ------------------------------------------------------------ trials

    def begin_trial(self) -> None:
        """From now on it is noted how things were; `end_trial` makes them so again."""
        assert self.notes is None, "one trial at a time"
        self.notes = Notes(self.changes, [list(risen) for risen in self.risen], dict(self.eased))

    def be_deaf(self) -> None:
        """Until the trial ends nobody is told what is given back: no cycle comes any more, or all is being undone."""
        self._deaf = True

    def end_trial(self) -> bool:
        """Everybody sleeps as before the trial, now that the ledger is as it was.  O(buckets that it touched).

        False: the tree did not stay the same, node for node, so the barriers lead nowhere, and everybody is looked at again.
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
    """How a bucket was before a trial; *awake*, *refused*: whether it was among those."""

    asleep: Pass | None
    before: Mapping[Barrier, int]
    parked: int | None
    awake: bool
    refused: bool


class Notes:
    """How sleepers were before a trial.  *same_nodes* False: nodes of the tree are gone that were there before it.

    *put_off*: pools that the trial has reshaped (`Sleepers.put_off`).
    """

    def __init__(self, changes: int, risen: list[list[Barrier]], eased: dict[str, None]) -> None:
        self.changes, self.risen, self.eased = changes, risen, eased
        self.buckets: dict[Bucket, Mark] = {}
        self.rises: dict[Barrier, int] = {}
        self.same_nodes = True
        self.put_off: dict[str, None] = {}


def above_nominal(leaf: QuotaLeaf, request: Request) -> list[bool]:
    """Per pool above *leaf*, its own part first, and per index of *request*, whether that holds more than its nominal."""
    return [
        node.usage[CHARGED][index] > node.subtree[index]
        for node in leaf.path
        if node.kind in (Kind.POOL, Kind.OWN)
        for index, _ in request
    ]
