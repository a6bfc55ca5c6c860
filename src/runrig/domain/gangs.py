"""Gangs, the units that the engine admits as a whole, and their placement."""

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field

from runrig.domain.quantities import Requests, gpus_in
from runrig.domain.times import FOLLOWS
from runrig.domain.value import Word


class Priority(enum.Enum):
    """Use *preemptible* and *may_borrow* rather than comparing with a member: imported work has numeric priorities (rule P1)."""

    HIGH = "HIGH"
    NORMAL = "NORMAL"
    LOW = "LOW"

    @property
    def rank(self) -> int:
        """Work with a higher rank is served first."""
        return _RANKS[self]

    @property
    def preemptible(self) -> bool:
        return self is Priority.LOW

    @property
    def may_borrow(self) -> bool:
        return self is Priority.LOW


_RANKS = {Priority.HIGH: 2, Priority.NORMAL: 1, Priority.LOW: 0}


class GangState(Word):
    PENDING = "PENDING"
    NOMINATED = "NOMINATED"
    ADMITTED = "ADMITTED"
    STOPPING = "STOPPING"


IN_QUEUE, HOLDING = (GangState.PENDING, GangState.NOMINATED), (GangState.ADMITTED, GangState.STOPPING)
"""The gangs that wait, and those that have quota and nodes."""


class Law(Word):
    """Why a gang was preempted: by higher priority in its own pool (R1), or because another pool reclaimed quota that it had
    lent (R2).
    """

    PRIORITY = "PRIORITY"
    RECLAIM = "RECLAIM"


@dataclass(frozen=True, slots=True)
class Requirement:
    """Pods of all tasks of a task group that name the same *group* of *key* go into one domain of that level.

    *key*: a topology key of the pool. *required*: True if they cannot start otherwise; False for a preference.
    *slice_size*: instead of all pods, each slice of this many consecutive pods of the task goes into one domain; the last slice
    can be smaller. None: all pods together.
    """

    key: str
    group: str = "default"
    required: bool = True
    slice_size: int | None = None


@dataclass(frozen=True, slots=True)
class PodSet:
    """Identical pods. *requests*: per pod. *min_count* None: all *count* pods or none. *platform* None: any flavor of the pool.

    *topology*: at most one requirement per key.
    """

    name: str
    count: int
    requests: Requests
    min_count: int | None = None
    platform: str | None = None
    topology: tuple[Requirement, ...] = ()

    @property
    def pods(self) -> int:
        """The maximum number of pods."""
        return self.count


@dataclass(frozen=True, slots=True)
class Gang:
    """One attempt of one task group. *submitted_at*: when the workflow was submitted; preemption does not change it (rule P4).

    *refused*: why the cluster's own scheduler did not place the previous attempt. The gang then waits until its pool or a node
    that it could use changes (rule T7). Empty: it was not refused.
    *user*: who submitted it. Not stored: stored gangs have the user of their workflow.
    """

    id: str
    pool: str
    priority: Priority
    submitted_at: float
    pod_sets: tuple[PodSet, ...]
    attempt: int = 0
    refused: str = ""
    user: str = field(default="", compare=False, repr=False, metadata={FOLLOWS: True})

    @property
    def workflow(self) -> str:
        return self.id.partition("/")[0]

    def gpus(self, counts: Iterable[int]) -> int:
        """GPUs of *counts* pods, one number per pod set."""
        sets = zip(counts, self.pod_sets, strict=True)
        return sum([count * gpus_in(each.requests) for count, each in sets])


@dataclass(frozen=True, slots=True)
class NodeShare:
    """*count* pods of one pod set on one node. *gpus*: the indices of their GPUs on the node, in pod order."""

    node: str
    count: int
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Assignment:
    """The grant of a pod set: pods 0 … count-1 fill *shares* in order. No shares: only quota was decided."""

    pod_set: str
    flavor: str
    count: int
    shares: tuple[NodeShare, ...] = ()


Placement = tuple[Assignment, ...]
"""One assignment per pod set, in the order of the gang's pod sets."""


def nodes_of(*placements: Placement) -> tuple[str, ...]:
    """The nodes of *placements*, sorted."""
    return tuple(sorted({share.node for placement in placements for each in placement for share in each.shares}))
