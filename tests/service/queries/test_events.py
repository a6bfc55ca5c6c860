"""Every action has words."""

from typing import get_args

from runrig.domain.budgets import HOUR, Owner, Spent
from runrig.domain.gangs import Assignment, Gang, Law, NodeShare, Priority
from runrig.domain.limits import Limits
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
    PutLimits,
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
    SetMost,
    SetOwnerAside,
    SetPriority,
    SetSpent,
    Stop,
    Submit,
    TryAgain,
    Unqueue,
    Withdraw,
)
from runrig.domain.pools import BudgetReached, Cohort, Pool, PoolState, Quota
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
    (SetFlavors((Flavor("a"), Flavor("b"))), "set flavors: a, b"),
    (PutNode(Node("n0", {"gpu": 8})), "node n0 (default, 8 GPUs) is ready"),
    (PutNode(Node("n0", {"gpu": 8}, NO_FLAVOR)), "node n0 (no flavor, 8 GPUs) does not accept new pods"),
    (PutNode(Node("n0", {"gpu": 8}, cordoned=True)), "node n0 (default, 8 GPUs) is cordoned (Cordon, rule N1)"),
    (
        Stop("w-1/g", Status.FAILED_EVICTED),
        "w-1/g is stopping because one of its nodes is being drained (Drain, rule N2)",
    ),
    (DropNode("n0"), "node n0 left the cluster"),
    (
        PutCohort(Cohort("c", quotas={GPU: Quota(4, 2, 1)})),
        "created cohort c: 4 GPUs, borrowing limit 2, lending limit 1",
    ),
    (DropCohort(Cohort("c")), "deleted cohort c"),
    (PutPool(Pool("p", {GPU: Quota(4)})), "created pool p: 4 GPUs"),
    (PutPool(Pool("p", {GPU: Quota(2)}), Pool("p", {GPU: Quota(4)})), "resized pool p: 4 GPUs → 2 GPUs"),
    (PutPool(Pool("p", weight=2), Pool("p")), "updated pool p: no quota"),
    (PutPool(Pool("p", state=PoolState.DELETING), Pool("p")), "pool p changed from ACTIVE to DELETING"),
    (Submit(WORKFLOW, ()), "w-1 submitted to pool p by ann (priority LOW)"),
    (MoveTask(KEY, Status.FAILED, 3, "exit code 3"), "task main (attempt 1) is FAILED: exit code 3"),
    (RetryTask(KEY), "task main is retried (attempt 2)"),
    (RestartTask(KEY), "task main is stopping, to restart with the other tasks of its group"),
    (MoveGroup("w-1", "g", Status.RUNNING), "group g is RUNNING"),
    (MoveGroup("w-1", "3", Status.RUNNING), "element 3 is RUNNING"),
    (
        MoveGroup("w-1", "g", Status.RUNNING, "late", Status.FAILED_EXEC_TIMEOUT),
        "group g is stopping (FAILED_EXEC_TIMEOUT): late",
    ),
    (MoveWorkflow("w-1", WorkflowStatus.FAILED_CANCELED, "no", "bob"), "w-1 is FAILED_CANCELED: no"),
    (MoveWorkflow("w-1", WorkflowStatus.RUNNING, "cancelled by bob", "bob"), "w-1 is stopping: cancelled by bob"),
    (Queue(Gang("w-1/g", "p", Priority.LOW, 0.0, ())), "w-1/g queued in pool p"),
    (Queue(Gang("w-1/g", "p", Priority.LOW, 0.0, (), attempt=1)), "w-1/g queued in pool p again (attempt 1)"),
    (
        Nominate("w-1/g", PLACEMENT, ("x-1/g",)),
        "w-1/g reserved n0 (GPU 0-1); waiting for x-1/g to stop (Reserve, then start, rule R4)",
    ),
    (Unqueue("w-1/g"), "w-1/g left the queue"),
    (Hold("w-1", "bob"), "w-1 put on hold by bob (Hold, rule W3)"),
    (EndHold("w-1"), "w-1 released"),
    (
        SetAside("w-1", "KeyError"),
        "w-1 set aside after an internal error (KeyError); all other workflows continue (Set aside, rule W8)",
    ),
    (Abandon("w-1", "bob", "cancelled by bob"), "w-1 is FAILED_CANCELED: cancelled by bob"),
    (Reassign("w-1", "q", Priority.HIGH), "w-1 moved to pool q, priority HIGH"),
    (
        PutLimits(Limits(8, 20, user="ann"), Limits(user="ann")),
        "limits of ann: none → 8 GPUs at the same time, 20 workflows waiting (Limits, rule W6)",
    ),
    (
        SetSpent(Spent(Owner.POOL, "p", 1_793_491_200.0, 1_500 * HOUR, 1_794_000_000.0, BudgetReached.STOP), 1_000),
        "budget of pool p: 1,500.0 GPU-hours of 1,000 used in 2026-11, so it is reached until 2026-12-01 00:00:00 UTC "
        "(Budgets, rule W7)",
    ),
    (
        SetSpent(Spent(Owner.USER, "ann", 1_793_491_200.0, HOUR // 2, 1_794_000_000.0), 1_000),
        "budget of ann: 0.5 GPU-hours of 1,000 used in 2026-11 (Budgets, rule W7)",
    ),
    (
        SetSpent(Spent(Owner.USER, "ann", 1_793_491_200.0, HOUR, 1_794_000_000.0), None),
        "the budget of ann is no longer counted (Budgets, rule W7)",
    ),
    (
        SetOwnerAside(Owner.POOL, "p", "KeyError"),
        "the pause or budget of pool p was set aside after an internal error (KeyError) and stays as it is; everything else continues "
        "(Set aside, rule W8)",
    ),
    (
        SetOwnerAside(Owner.USER, "ann", "KeyError"),
        "the pause or budget of ann was set aside after an internal error (KeyError) and stays as it is; everything else continues "
        "(Set aside, rule W8)",
    ),
    (SetMost("w-1", 5), "w-1 may run 5 of its elements at a time (Arrays, rule W4)"),
    (Withdraw("w-1/g"), "w-1/g lost its reservation and is pending again"),
    (
        Preempt("w-1/g", "x-1/g", Law.RECLAIM, (("y-1/g", "R2"), ("z-1/g", "R3"))),
        "w-1/g was preempted by x-1/g, whose pool reclaimed borrowed quota (Reclaim, rule R2); lower-cost candidates ruled out: "
        "y-1/g (its pool is within its quota), z-1/g (stopping it would not have helped)",
    ),
    (
        Preempt("w-1/g", "x-1/g", Law.PRIORITY),
        "w-1/g was preempted by x-1/g, which has higher priority in the same pool (Preempt by priority, rule R1)",
    ),
    (Stop("w-1/g", Status.FAILED_CANCELED), "w-1/g is stopping (FAILED_CANCELED)"),
    (Admit("w-1/g", PLACEMENT), "w-1/g admitted on n0 (GPU 0-1)"),
    (Admit("w-1/g", TWO_SETS), "w-1/g admitted on n0 (GPU 0-2), n1 (GPU 0)"),
    (unnumbered(Admit("w-1/g", TWO_SETS)), "w-1/g admitted on n0, n1"),
    (unnumbered(Release("w-1/g")), "w-1/g released its resources"),
    (Replace("w-1/g", PLACEMENT), "w-1/g lost nodes and moved to n0 (GPU 0-1) (Placement, rule T1)"),
    (
        Refuse("w-1/g", "0/3 nodes are available", Status.FAILED_BACKEND_ERROR),
        "w-1/g was not placed by the cluster's scheduler and requeued (KaiNotPlaced): 0/3 nodes are available (Bound to nodes, rule T7)",
    ),
    (
        Refuse("w-1/g", "Pod a was preempted", Status.FAILED_PREEMPTED),
        "w-1/g was evicted by the cluster's scheduler and requeued (KaiNotPlaced): Pod a was preempted (Bound to nodes, rule T7)",
    ),
    (
        Refuse("w-1/g", "evicted by its node: low on memory", Status.FAILED_EVICTED),
        "w-1/g was evicted by the cluster and requeued (KaiNotPlaced): evicted by its node: low on memory (Bound to nodes, rule T7)",
    ),
    (
        SetPriority("w-1/g", Priority.LOW),
        "w-1/g keeps its nodes with priority LOW, and can be preempted now (Guarantee, rule P2)",
    ),
    (
        SetPriority("w-1/g", Priority.NORMAL),
        "w-1/g keeps its nodes with priority NORMAL, and cannot be preempted (Guarantee, rule P2)",
    ),
    (
        TryAgain("w-1/g"),
        "w-1/g is retried after an earlier rejection by the cluster's scheduler (Bound to nodes, rule T7)",
    ),
    (Release("w-1/g"), "w-1/g released its resources"),
]


def test_each_action_reads_as_a_sentence() -> None:
    assert [in_words(action) for action, _ in PAIRS] == [text for _, text in PAIRS]


def test_every_action_has_a_sentence() -> None:
    assert {type(action) for action, _ in PAIRS} == set(get_args(Action))
