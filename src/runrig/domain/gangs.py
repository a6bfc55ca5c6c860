"""Gangs, the units that the engine admits whole, and where their pods go."""

import enum
from dataclasses import dataclass

from runrig.domain.quantities import Requests
from runrig.domain.value import Word


class Priority(enum.Enum):
    """Ask *preemptible* and *may_borrow*; do not compare with a member, since imported work has numbers instead (law P1)."""

    HIGH = "HIGH"
    NORMAL = "NORMAL"
    LOW = "LOW"

    @property
    def rank(self) -> int:
        """The work with the higher rank is served first."""
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


class Law(Word):
    """Why a gang was preempted: for higher priority in its own pool (R1), or because a pool took back what it had lent (R2)."""

    PRIORITY = "PRIORITY"
    RECLAIM = "RECLAIM"


@dataclass(frozen=True, slots=True)
class Requirement:
    """Pods of all tasks of a task group that name the same *group* of *key* go into one domain of that level.

    *key*: a topology key of the pool.  *required*: True if they may not start otherwise; False for a preference.
    *slice_size*: each slice of this many consecutive pods of the task needs one domain, and the last slice may have fewer pods;
    None: all pods together.
    """

    key: str
    group: str = "default"
    required: bool = True
    slice_size: int | None = None


@dataclass(frozen=True, slots=True)
class PodSet:
    """Identical pods.  *requests*: per pod.  *min_count* None: all *count* or none.  *platform* None: any flavor of the pool.

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
        """The largest number of pods that it may have."""
        return self.count


@dataclass(frozen=True, slots=True)
class Gang:
    """One attempt of one task group.  *submitted_at*: when the workflow was submitted; a preempted gang keeps it (law P4).

    *refused*: why the cluster's own scheduler did not place the previous attempt; the gang then waits until its pool or a node that
    it could use changes (law T7).  Empty: it was not refused.
    """

    id: str
    pool: str
    priority: Priority
    submitted_at: float
    pod_sets: tuple[PodSet, ...]
    attempt: int = 0
    refused: str = ""

    @property
    def workflow(self) -> str:
        return self.id.partition("/")[0]


@dataclass(frozen=True, slots=True)
class NodeShare:
    """*count* pods of one pod set on one node.  *gpus*: the GPU indices that they hold there, in pod order."""

    node: str
    count: int
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Assignment:
    """What one pod set was granted: pods 0 … count-1 fill *shares* in order.  No shares: only quota was decided."""

    pod_set: str
    flavor: str
    count: int
    shares: tuple[NodeShare, ...] = ()


Placement = tuple[Assignment, ...]
"""One assignment per pod set, in the order of the gang's pod sets."""
