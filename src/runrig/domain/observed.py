"""What a backend reports: tasks, nodes, and events of the cluster."""

import enum
from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from runrig.domain.nodes import Node
from runrig.domain.workflows import TaskKey


class Phase(enum.Enum):
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    ENDED = "ENDED"


@dataclass(frozen=True, slots=True)
class TaskFact:
    """What the backend knows about one attempt.  *exit_code*: set iff ENDED (3001: the task was lost, 3003: it could not start).

    *by_itself*: it is certain that it ended before it was asked to stop, if it was.
    """

    phase: Phase
    exit_code: int | None = None
    message: str = ""
    by_itself: bool = False


_RUNNING = TaskFact(Phase.RUNNING)


@dataclass(frozen=True, slots=True)
class Observation:
    """All that the backend sees, not only what changed.

    *tasks*: every attempt that the backend has and that is alive or was in the last desired state, but for those in *running*: they
    run, and there is nothing else to say of them.  *nodes* None: unchanged since the last observation.
    *refused*: gang id → message, for gangs that the backend's own scheduler did not place in time (law T7).
    """

    tasks: Mapping[TaskKey, TaskFact] = field(default_factory=dict)
    nodes: tuple[Node, ...] | None = None
    refused: Mapping[str, str] = field(default_factory=dict)
    running: Set[TaskKey] = frozenset()

    def fact(self, key: TaskKey) -> TaskFact | None:
        """None: the backend does not know the attempt."""
        return self.tasks.get(key) or (_RUNNING if key in self.running else None)


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """An event that a component of the cluster recorded about a gang or one of its pods.

    *time*: when it last occurred, in seconds since the epoch; *count*: how often.  *key* None: it is about the whole *group*, and
    with an empty *group* about the whole workflow.  *source*: the component.  *version*: that of its record in the
    cluster, which orders events of the same time.
    """

    time: float
    key: TaskKey | None
    group: str
    source: str
    reason: str
    text: str
    count: int = 1
    version: int = field(default=0, compare=False)

    @property
    def latest(self) -> float:
        """The latest moment it can have occurred: many components round down to seconds, and an event must not sort before its cause."""
        return self.time + 0.999999 if self.time.is_integer() else self.time
