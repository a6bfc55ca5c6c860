"""Every action has words."""

from typing import get_args

from runrig.domain.gangs import Assignment, Gang, Law, NodeShare, Priority
from runrig.domain.nodes import NO_FLAVOR, Flavor, Node
from runrig.domain.plan import (
    Abandon,
    Action,
    Admit,
    DropCohort,
    DropNode,
    EndHold,
    Hold,
    MoveGroup,
    MoveTask,
    MoveWorkflow,
    Nominate,
    Preempt,
    PutCohort,
    PutNode,
    PutPool,
    Queue,
    Reassign,
    Refuse,
    Release,
    Replace,
    RestartTask,
    RetryTask,
    SetAside,
    SetFlavors,
    Stop,
    Submit,
    TryAgain,
    Unqueue,
    Withdraw,
)
from runrig.domain.pools import Cohort, Pool, PoolState, Quota
from runrig.domain.quantities import FlavorResource
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Status, TaskKey, Workflow
from runrig.service.queries.events import in_words, unnumbered

GPU = FlavorResource("default", "gpu")
KEY = TaskKey("w-1", "main", 1)
PLACEMENT = (Assignment("main", "default", 2, (NodeShare("n0", 2, (0, 1)),)),)
TWO_SETS = (
    Assignment("a", "default", 2, (NodeShare("n0", 1, (2,)), NodeShare("n1", 1, (0,)))),
    Assignment("b", "default", 2, (NodeShare("n0", 2, (0, 1)),)),
)
WORKFLOW = Workflow("w-1", "u", "w", 1, "p", Priority.LOW, "ann", 0.0, "h")

PAIRS: list[tuple[Action, str]] = [
    (SetFlavors((Flavor("a"), Flavor("b"))), "the flavors are a, b"),
    (PutNode(Node("n0", {"gpu": 8})), "node n0 (default, 8 GPUs) is ready"),
    (PutNode(Node("n0", {"gpu": 8}, NO_FLAVOR)), "node n0 (of no flavor, 8 GPUs) takes no new pods"),
    (PutNode(Node("n0", {"gpu": 8}, cordoned=True)), "node n0 (default, 8 GPUs) is cordoned (law N1)"),
    (Stop("w-1/g", Status.FAILED_EVICTED), "w-1/g stops, since a node of it is drained (law N2)"),
    (DropNode("n0"), "node n0 is gone"),
    (
        PutCohort(Cohort("c", quotas={GPU: Quota(4, 2, 1)})),
        "cohort c is created: 4 of default/gpu, borrows at most 2, lends at most 1",
    ),
    (DropCohort(Cohort("c")), "cohort c is deleted"),
    (PutPool(Pool("p", {GPU: Quota(4)})), "pool p is created: 4 of default/gpu"),
    (
        PutPool(Pool("p", {GPU: Quota(2)}), Pool("p", {GPU: Quota(4)})),
        "pool p is resized: 4 of default/gpu becomes 2 of default/gpu",
    ),
    (PutPool(Pool("p", weight=2), Pool("p")), "pool p is changed: no quota"),
    (PutPool(Pool("p", state=PoolState.DELETING), Pool("p")), "pool p goes from ACTIVE to DELETING"),
    (Submit(WORKFLOW, ()), "w-1 is submitted to pool p with priority LOW by ann"),
    (MoveTask(KEY, Status.FAILED, 3, "exit code 3"), "task main (attempt 1) is FAILED: exit code 3"),
    (RetryTask(KEY), "task main starts again as attempt 2"),
    (RestartTask(KEY), "task main stops, to start again beside the others of its group"),
    (MoveGroup("w-1", "g", Status.RUNNING), "group g is RUNNING"),
    (
        MoveGroup("w-1", "g", Status.RUNNING, "late", Status.FAILED_EXEC_TIMEOUT),
        "group g stops, to be FAILED_EXEC_TIMEOUT: late",
    ),
    (MoveWorkflow("w-1", WorkflowStatus.FAILED_CANCELED, "no", "bob"), "w-1 is FAILED_CANCELED: no"),
    (MoveWorkflow("w-1", WorkflowStatus.RUNNING, "cancelled by bob", "bob"), "w-1 stops: cancelled by bob"),
    (Queue(Gang("w-1/g", "p", Priority.LOW, 0.0, ())), "w-1/g is queued in pool p"),
    (Queue(Gang("w-1/g", "p", Priority.LOW, 0.0, (), attempt=1)), "w-1/g is queued in pool p again, as attempt 1"),
    (
        Nominate("w-1/g", PLACEMENT, ("x-1/g",)),
        "w-1/g has a place on n0 (GPU 0-1), and waits for x-1/g to stop (law R4)",
    ),
    (Unqueue("w-1/g"), "w-1/g leaves the queue"),
    (Hold("w-1", "bob"), "w-1 is held by bob: what has not started waits (law W3)"),
    (EndHold("w-1"), "w-1 is released"),
    (
        SetAside("w-1", "KeyError"),
        "w-1 is set aside: the server failed at it (KeyError) and goes on without it (law W8)",
    ),
    (Abandon("w-1", "bob", "cancelled by bob"), "w-1 is FAILED_CANCELED: cancelled by bob"),
    (Reassign("w-1", "q", Priority.HIGH), "w-1 is in pool q with priority HIGH from now on"),
    (Withdraw("w-1/g"), "w-1/g gives up its place and is pending again"),
    (
        Preempt("w-1/g", "x-1/g", Law.RECLAIM, (("y-1/g", "R2"), ("z-1/g", "R3"))),
        "w-1/g was preempted by x-1/g, whose pool takes back what was borrowed (law R2); cheaper, and not possible: "
        "y-1/g (its pool is within its quota without it), z-1/g (its end would not have helped)",
    ),
    (
        Preempt("w-1/g", "x-1/g", Law.PRIORITY),
        "w-1/g was preempted by x-1/g, which has a higher priority in the same pool (law R1)",
    ),
    (Stop("w-1/g", Status.FAILED_CANCELED), "w-1/g stops: FAILED_CANCELED"),
    (Admit("w-1/g", PLACEMENT), "w-1/g is admitted on n0 (GPU 0-1)"),
    (Admit("w-1/g", TWO_SETS), "w-1/g is admitted on n0 (GPU 0-2), n1 (GPU 0)"),
    (unnumbered(Admit("w-1/g", TWO_SETS)), "w-1/g is admitted on n0, n1"),
    (unnumbered(Release("w-1/g")), "w-1/g gives back what it held"),
    (Replace("w-1/g", PLACEMENT), "w-1/g has lost nodes and is on n0 (GPU 0-1) from now on (law T1)"),
    (
        Refuse("w-1/g", "0/3 nodes are available", Status.FAILED_BACKEND_ERROR),
        "w-1/g is not taken by the cluster's scheduler and taken back whole (law T7, KaiNotPlaced): 0/3 nodes are available",
    ),
    (
        Refuse("w-1/g", "Pod a was preempted", Status.FAILED_PREEMPTED),
        "w-1/g is thrown out by the cluster's scheduler and taken back whole (law T7, KaiNotPlaced): Pod a was preempted",
    ),
    (
        TryAgain("w-1/g"),
        "w-1/g is tried again: that the cluster's scheduler did not take it is some time ago (law T7)",
    ),
    (Release("w-1/g"), "w-1/g gives back what it held"),
]


def test_each_action_reads_as_a_sentence() -> None:
    assert [in_words(action) for action, _ in PAIRS] == [text for _, text in PAIRS]


def test_no_action_is_without_words() -> None:
    assert {type(action) for action, _ in PAIRS} == set(get_args(Action))
