"""What a backend says it sees."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from runrig.domain.nodes import Node
from runrig.domain.workflows import TaskKey


class Phase(enum.Enum):
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    ENDED = "ENDED"


@dataclass(frozen=True, slots=True)
class TaskFact:
    """What the backend knows of one attempt.  *exit_code* is set iff ENDED (3001 if it was lost, 3003 if it could not start)."""

    phase: Phase
    exit_code: int | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything there is, not what changed: *nodes* None means unchanged since the last observation; *tasks*: every attempt
    that the backend has and that was in the last desired state, or is alive.

    *refused*: gangs that a scheduler of the backend's own has not placed in time, by id, each with what that says (law T7).
    """

    tasks: Mapping[TaskKey, TaskFact] = field(default_factory=dict)
    nodes: tuple[Node, ...] | None = None
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """What a program of the cluster noted about a gang or one of its pods.

    *time*: of the last of *count* times, in seconds since the epoch.  *key* None: it is about the whole *group*; that is ""
    for a word about the workflow.  *source*: the program.
    """

    time: float
    key: TaskKey | None
    group: str
    source: str
    reason: str
    text: str
    count: int = 1

    @property
    def latest(self) -> float:
        """When it was at the latest: many programs tell whole seconds, and what they note was caused by something before."""
        return self.time + 0.999999 if self.time.is_integer() else self.time
