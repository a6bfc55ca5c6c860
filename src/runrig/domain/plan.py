"""Actions: every change of the state is one. A cycle or a command returns a Plan of them.

Committed actions are the entries of the event log; replaying the log reproduces the state.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from runrig.domain.budgets import Spent
from runrig.domain.gangs import Gang, Law, Placement, Priority
from runrig.domain.limits import Limits
from runrig.domain.nodes import Flavor, Node
from runrig.domain.pools import Cohort, Pool
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Group, Status, TaskKey, Workflow, WorkflowSpec

LAWS = 1
"""The release of docs/laws.md by which this version decides. A change of a rule that makes other decisions right adds one."""

# ---------------------------------------------------------------- what the cluster is


@dataclass(frozen=True, slots=True)
class SetFlavors:
    flavors: tuple[Flavor, ...]


@dataclass(frozen=True, slots=True)
class PutNode:
    """Adds or replaces a node. Pods on it keep running."""

    node: Node


@dataclass(frozen=True, slots=True)
class DropNode:
    name: str


@dataclass(frozen=True, slots=True)
class PutCohort:
    cohort: Cohort
    before: Cohort | None = None


@dataclass(frozen=True, slots=True)
class DropCohort:
    before: Cohort


@dataclass(frozen=True, slots=True)
class PutPool:
    """Adds or replaces a pool. Never stops running work (rule R7)."""

    pool: Pool
    before: Pool | None = None


@dataclass(frozen=True, slots=True)
class PutLimits:
    """Replaces the limits of a user (rule W6). Never stops running work."""

    limits: Limits
    before: Limits


@dataclass(frozen=True, slots=True)
class SetSpent:
    """Says what of a budget is spent, when counting begins, a month begins, or the budget is reached or no longer is (rule W7).

    *budget*: in GPU-hours; None: there is none any more.
    """

    spent: Spent
    budget: int | None


@dataclass(frozen=True, slots=True)
class SetOwnerAside:
    """Says that the pause or budget of a pool or user (`budgets.Scope`) cannot be changed, and stays as it is (rule W8).

    *error*: the kind of failure.
    """

    of: str
    name: str
    error: str


# ---------------------------------------------------------------- what was submitted, and how far it is


@dataclass(frozen=True, slots=True)
class Submit:
    """Adds a workflow with its groups in state WAITING. Its tasks follow from the specification, and so do its timeouts, which are
    here for readers of the log (rule P6).
    """

    workflow: Workflow
    groups: tuple[Group, ...]
    exec_timeout_s: float | None = None
    queue_timeout_s: float | None = None

    @classmethod
    def of(cls, workflow: Workflow, groups: Iterable[Group], spec: WorkflowSpec) -> "Submit":
        return cls(workflow, tuple(groups), spec.exec_timeout_s, spec.queue_timeout_s)


@dataclass(frozen=True, slots=True)
class MoveTask:
    """Sets the status of one attempt of a pod. *exit_code* None: it has not exited."""

    key: TaskKey
    status: Status
    exit_code: int | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class RetryTask:
    """The pod *key* ended and starts again as its next attempt, in the slot of its gang: in place, unless the node was lost."""

    key: TaskKey


@dataclass(frozen=True, slots=True)
class RestartTask:
    """The pod *key* stops and starts again in place, because its lead or a sibling restarts."""

    key: TaskKey


@dataclass(frozen=True, slots=True)
class MoveGroup:
    """Sets the status of a group. *stopping*: the status that it gets once its pods have stopped; until then it keeps *status*."""

    workflow: str
    group: str
    status: Status
    message: str = ""
    stopping: Status | None = None


@dataclass(frozen=True, slots=True)
class MoveWorkflow:
    workflow: str
    status: WorkflowStatus
    message: str = ""
    cancelled_by: str | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """Keeps the groups of the workflow that have not started out of the queue until `EndHold` (rule W3).

    *by*: the user who asked for it.
    """

    workflow: str
    by: str


@dataclass(frozen=True, slots=True)
class EndHold:
    workflow: str


@dataclass(frozen=True, slots=True)
class SetAside:
    """Sets the workflow aside after an internal error: nothing happens to it until `EndHold` or `Abandon` (rule W8).

    It is not in the queue and cannot be preempted; it keeps its quota and nodes. *error*: the kind of failure.
    """

    workflow: str
    error: str


@dataclass(frozen=True, slots=True)
class Abandon:
    """Ends a workflow that was set aside, whatever its state: its pods are stopped, and its quota and nodes are released."""

    workflow: str
    by: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class SetMost:
    """Lets *most* elements of the array *workflow* be queued or on nodes at a time (rule W4). What is on nodes continues."""

    workflow: str
    most: int


@dataclass(frozen=True, slots=True)
class Reassign:
    """Changes the pool and priority of a workflow that is not queued. If it uses nodes, the pool is unchanged, and a `SetPriority`
    follows for each gang.
    """

    workflow: str
    pool: str
    priority: Priority


# ---------------------------------------------------------------- what was decided


@dataclass(frozen=True, slots=True)
class Queue:
    """Puts the gang in the queue."""

    gang: Gang


@dataclass(frozen=True, slots=True)
class Unqueue:
    """Removes the gang from the queue; its group is WAITING again. The inverse of `Queue`."""

    gang: str


@dataclass(frozen=True, slots=True)
class Nominate:
    """Reserves *placement* for the gang until *targets* have stopped; some of them may have stopped already (rule R4)."""

    gang: str
    placement: Placement
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Drops a nomination: the gang is pending again."""

    gang: str


@dataclass(frozen=True, slots=True)
class Preempt:
    """Stops the gang so that *by* can start.

    `spared`: candidates with a lower cost that could not be used, each with the rule: R2, without the gang its pool
    would be within its nominal quota; R3, stopping it would not have helped *by*.
    """

    gang: str
    by: str
    law: Law
    spared: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Stop:
    """Stops the gang for another cause: cancelled, timed out, lead ended, node lost or drained (FAILED_EVICTED, rule N2)."""

    gang: str
    cause: Status


@dataclass(frozen=True, slots=True)
class Admit:
    """Grants quota and placement; the pods can be created."""

    gang: str
    placement: Placement


@dataclass(frozen=True, slots=True)
class Replace:
    """Moves pods of the admitted gang off lost nodes; the other pods keep their node and GPUs.

    *placement*: of the whole gang. A moved pod starts there with its next attempt.
    """

    gang: str
    placement: Placement


@dataclass(frozen=True, slots=True)
class Refuse:
    """The cluster did not place the gang in time, or evicted a pod of it: the whole gang stops and is queued again (rule T7).

    *said*: the cluster's message. *cause*: FAILED_BACKEND_ERROR if the cluster's scheduler did not place it, FAILED_PREEMPTED if that
    scheduler evicted it, FAILED_EVICTED if its node, a drain or a taint did.
    """

    gang: str
    said: str
    cause: Status


@dataclass(frozen=True, slots=True)
class TryAgain:
    """The gang is no longer *refused*: the reason why the scheduler did not place it may be gone (rule T7)."""

    gang: str


@dataclass(frozen=True, slots=True)
class SetPriority:
    """Changes the priority of the admitted gang. It keeps its nodes; its quota moves between guaranteed and preemptible work."""

    gang: str
    priority: Priority


@dataclass(frozen=True, slots=True)
class Release:
    """Removes the gang from the ledger: its pods have ended, or it no longer waits."""

    gang: str


WorkflowMove = MoveWorkflow | Hold | EndHold | SetAside | Abandon | Reassign | SetMost
"""Changes of a submitted workflow."""

Declaration = SetFlavors | PutNode | DropNode | PutCohort | DropCohort | PutPool | PutLimits
"""Changes of the cluster."""

Decision = (
    Queue | Unqueue | Nominate | Withdraw | Preempt | Stop | Admit | Replace | Refuse | TryAgain | SetPriority | Release
)
"""Changes of one gang: the actions that the ledger handles."""

OwnerMove = SetSpent | SetOwnerAside
"""Records of the engine about the pause or budget of a pool or user."""

Action = Declaration | OwnerMove | Submit | MoveTask | RetryTask | RestartTask | MoveGroup | WorkflowMove | Decision


@dataclass(frozen=True, slots=True)
class Plan:
    """Actions to commit, in order."""

    actions: tuple[Action, ...] = ()


def law_of(action: Action) -> str:
    """The rule behind an action, for the event log; "" if there is none."""
    if isinstance(action, Preempt):
        return "R1" if action.law is Law.PRIORITY else "R2"
    if isinstance(action, Stop):
        return "N2" if action.cause is Status.FAILED_EVICTED else ""
    return _LAWS.get(type(action), "")


_LAWS = {
    Submit: "P3",
    Hold: "W3",
    EndHold: "W3",
    SetAside: "W8",
    Abandon: "W8",
    Reassign: "P3",
    SetMost: "W4",
    Queue: "P4",
    Unqueue: "P4",
    Nominate: "R4",
    Withdraw: "R4",
    Admit: "P5",
    Replace: "T1",
    Refuse: "T7",
    TryAgain: "T7",
    SetPriority: "P2",
    PutPool: "R7",
    PutLimits: "W6",
    SetSpent: "W7",
    SetOwnerAside: "W8",
}
