"""Reports of a backend: tasks, nodes and cluster events."""

import enum
from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from runrig.domain.budgets import HeldBefore, Scope
from runrig.domain.nodes import Node
from runrig.domain.workflows import TaskKey


class Phase(enum.Enum):
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    ENDED = "ENDED"


@dataclass(frozen=True, slots=True)
class TaskFact:
    """The backend's report on one attempt.

    *exit_code*: set if and only if ENDED (3001: the task was lost; 3003: it could not start).
    *by_itself*: it certainly ended before it was asked to stop. *evicted*: the cluster took it off its node, for a reason that is not
    its own: a drain, a taint, a node that is low on memory.
    """

    phase: Phase
    exit_code: int | None = None
    message: str = ""
    by_itself: bool = False
    evicted: bool = False


_RUNNING = TaskFact(Phase.RUNNING)


@dataclass(frozen=True, slots=True)
class Observation:
    """The complete view of the backend, not only what changed.

    *tasks*: attempts that are alive or were in the last desired state, except those in *running*. *running*: attempts that run
    and have nothing else to report. *nodes* None: unchanged since the last observation. *refused*: gang id → message, for gangs
    that the backend's own scheduler did not place in time (rule T7). *held*: where the counting of new budgets begins (rule W7); None:
    they are not in force yet. *aside*: pools and users whose pauses and budgets stay as they are for now (rule W8).
    """

    tasks: Mapping[TaskKey, TaskFact] = field(default_factory=dict)
    nodes: tuple[Node, ...] | None = None
    refused: Mapping[str, str] = field(default_factory=dict)
    running: Set[TaskKey] = frozenset()
    held: HeldBefore | None = None
    aside: Set[Scope] = frozenset()

    def fact(self, key: TaskKey) -> TaskFact | None:
        """The report on an attempt; None: unknown to the backend."""
        return self.tasks.get(key) or (_RUNNING if key in self.running else None)


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """An event that a component of the cluster recorded about a gang or one of its pods.

    *time*: the last occurrence, in seconds since the epoch; *count*: how often it occurred. *key* None: it is about the whole
    *group*, or about the whole workflow if *group* is empty. *source*: the component. *version*: the version of its record in
    the cluster, which orders events of the same time.
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
        """The latest time at which it can have occurred.

        Many components round down to seconds, and an event must not sort before its cause.
        """
        return self.time + 0.999999 if self.time.is_integer() else self.time
