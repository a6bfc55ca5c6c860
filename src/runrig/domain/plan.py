"""Actions: the only way in which anything changes.  What a cycle or a command wants is a Plan of them.

A committed action is an entry of the event log; applying the log in order gives the state again.
"""

from dataclasses import dataclass

from runrig.domain.gangs import Gang, Law, Placement, Priority
from runrig.domain.nodes import Flavor, Node
from runrig.domain.pools import Cohort, Pool
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Group, Status, TaskKey, Workflow

# ---------------------------------------------------------------- what the cluster is


@dataclass(frozen=True, slots=True)
class SetFlavors:
    flavors: tuple[Flavor, ...]


@dataclass(frozen=True, slots=True)
class PutNode:
    """Adds or replaces a node; what runs there keeps running."""

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
    """Adds or replaces a pool.  Never stops running work (law R7)."""

    pool: Pool
    before: Pool | None = None


# ---------------------------------------------------------------- what was submitted, and how far it is


@dataclass(frozen=True, slots=True)
class Submit:
    """A workflow enters, with its groups WAITING.  Its tasks follow from the specification."""

    workflow: Workflow
    groups: tuple[Group, ...]


@dataclass(frozen=True, slots=True)
class MoveTask:
    """One attempt of a pod takes *status*.  *exit_code* None: none yet."""

    key: TaskKey
    status: Status
    exit_code: int | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class RetryTask:
    """The pod *key* ended and starts again as its next attempt, on the slot that its gang holds: in place, unless the node is lost."""

    key: TaskKey


@dataclass(frozen=True, slots=True)
class RestartTask:
    """The pod *key* stops and starts again in place, because its lead or a sibling starts again."""

    key: TaskKey


@dataclass(frozen=True, slots=True)
class MoveGroup:
    """*stopping*: the status to take once the pods are gone (the group then still has *status*)."""

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
    """What has not started of the workflow stays outside the queue until `EndHold` (law W3).  *by*: who asked for it."""

    workflow: str
    by: str


@dataclass(frozen=True, slots=True)
class EndHold:
    workflow: str


@dataclass(frozen=True, slots=True)
class SetAside:
    """The server failed at the workflow, and leaves it as it is until `EndHold` or `Abandon` (law W8).  *error*: the kind of failure.

    Nothing of it waits in the queue then, and nobody preempts it; what it holds it keeps.
    """

    workflow: str
    error: str


@dataclass(frozen=True, slots=True)
class Abandon:
    """A workflow that was set aside ends at once, however its rows are: its pods are stopped, and it holds nothing."""

    workflow: str
    by: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Reassign:
    """The workflow is in *pool* and has *priority* from now on; nothing of it is queued or holds nodes then."""

    workflow: str
    pool: str
    priority: Priority


# ---------------------------------------------------------------- what was decided


@dataclass(frozen=True, slots=True)
class Queue:
    """The gang waits from now on."""

    gang: Gang


@dataclass(frozen=True, slots=True)
class Unqueue:
    """The gang no longer waits in the queue, and its group is WAITING again: the inverse of `Queue`."""

    gang: str


@dataclass(frozen=True, slots=True)
class Nominate:
    """Holds *placement* for the gang while *targets* (those that stopped already included) stop (law R4)."""

    gang: str
    placement: Placement
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Withdraw:
    """A nomination is given up: the gang is pending again."""

    gang: str


@dataclass(frozen=True, slots=True)
class Preempt:
    """The gang stops so that *by* may start.

    *spared*: cheaper candidates that would not have done, each with the law: R2, its pool is within its nominal without it;
    R3, *by* would not have fitted any better.
    """

    gang: str
    by: str
    law: Law
    spared: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Stop:
    """The gang stops for another cause: cancelled, timed out, lead ended, node lost, or drained (FAILED_EVICTED, law N2)."""

    gang: str
    cause: Status


@dataclass(frozen=True, slots=True)
class Admit:
    """Quota and placement are granted; the pods may be created."""

    gang: str
    placement: Placement


@dataclass(frozen=True, slots=True)
class Replace:
    """Moves pods of the admitted gang off lost nodes; pods that stay keep node and GPUs.

    *placement*: of the whole gang.  A pod that was moved starts there with its next attempt.
    """

    gang: str
    placement: Placement


@dataclass(frozen=True, slots=True)
class Refuse:
    """The cluster's own scheduler did not take the gang in time, or threw it out: it is taken back whole (law T7).

    *said*: its words.  *cause*: FAILED_BACKEND_ERROR, or FAILED_PREEMPTED where it threw it out.
    """

    gang: str
    said: str
    cause: Status


@dataclass(frozen=True, slots=True)
class TryAgain:
    """A refused gang no longer waits: what kept the scheduler from taking it may have changed (law T7)."""

    gang: str


@dataclass(frozen=True, slots=True)
class Release:
    """The gang leaves the ledger: its pods ended, or it no longer waits."""

    gang: str


WorkflowMove = MoveWorkflow | Hold | EndHold | SetAside | Abandon | Reassign
"""What changes a workflow that was submitted."""

Declaration = SetFlavors | PutNode | DropNode | PutCohort | DropCohort | PutPool
"""A change of what the cluster consists of."""

Decision = Queue | Unqueue | Nominate | Withdraw | Preempt | Stop | Admit | Replace | Refuse | TryAgain | Release
"""What happens to one gang: all that the ledger understands."""

Action = Declaration | Submit | MoveTask | RetryTask | RestartTask | MoveGroup | WorkflowMove | Decision


@dataclass(frozen=True, slots=True)
class Plan:
    """The actions that are wanted, in order."""

    actions: tuple[Action, ...] = ()


def law_of(action: Action) -> str:
    """The law behind an action, for the event log; "" if it is no decision."""
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
    Queue: "P4",
    Unqueue: "P4",
    Nominate: "R4",
    Withdraw: "R4",
    Admit: "P5",
    Replace: "T1",
    Refuse: "T7",
    TryAgain: "T7",
    PutPool: "R7",
}
