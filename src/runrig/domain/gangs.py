"""Gangs: the unit that the engine admits whole, and where its pods go."""

import enum
from dataclasses import dataclass

from runrig.domain.quantities import Requests


class Priority(enum.Enum):
    """Ask *preemptible* and *may_borrow*, never for a member: imported work has numbers instead (law P1)."""

    HIGH = "HIGH"
    NORMAL = "NORMAL"
    LOW = "LOW"

    @property
    def rank(self) -> int:
        """Higher is served first."""
        return _RANKS[self]

    @property
    def preemptible(self) -> bool:
        return self is Priority.LOW

    @property
    def may_borrow(self) -> bool:
        return self is Priority.LOW


_RANKS = {Priority.HIGH: 2, Priority.NORMAL: 1, Priority.LOW: 0}


class GangState(enum.Enum):
    PENDING = "PENDING"
    NOMINATED = "NOMINATED"
    ADMITTED = "ADMITTED"
    STOPPING = "STOPPING"


class Law(enum.Enum):
    """Why a gang was preempted: for its own pool's higher priority (R1), or because another took back what it lent (R2)."""

    PRIORITY = "PRIORITY"
    RECLAIM = "RECLAIM"


@dataclass(frozen=True, slots=True)
class Requirement:
    """The pods of all tasks of a task group that name the same *group* of *key* shall lie in one domain of that level.

    *key*: a topology key of the pool.  *required*: they start so or not at all; else it is a preference.
    *slice_size*: not all of them together, but each so many consecutive pods of the task, the last slice perhaps fewer; None: all.
    """

    key: str
    group: str = "default"
    required: bool = True
    slice_size: int | None = None


@dataclass(frozen=True, slots=True)
class PodSet:
    """Identical pods.  *requests* is per pod; *min_count* None: all *count* or nothing; *platform* None: any flavor of the pool.

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
        """As many as it asks for at most."""
        return self.count


@dataclass(frozen=True, slots=True)
class Gang:
    """One attempt of one task group.  *submitted_at* is the workflow's, and is kept when the gang is preempted (law P4).

    *refused*: what a scheduler of the cluster's own said, which did not take the attempt before on the nodes that it had here: this
    one waits until such a node, or its pool, changes (law T7); "": it waits for nothing of the kind.
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
    """*count* pods of one pod set on one node.  *gpus*: the indices that they hold there, in the order of the pods."""

    node: str
    count: int
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Assignment:
    """What one pod set was granted: pods 0 … count-1 fill *shares* in order.  No shares: quota alone was decided."""

    pod_set: str
    flavor: str
    count: int
    shares: tuple[NodeShare, ...] = ()


Placement = tuple[Assignment, ...]
"""One assignment per pod set, in the order of the gang."""
