"""A small cluster's whole history, with something of everything: each table, each state of a subpool and of a gang, each action.

The released dumps in data/ were made of it, so what it says today must stay readable from them: extend it, do not change it.
"""

from dataclasses import dataclass, replace
from typing import Any

from runrig.domain.budgets import Spent
from runrig.domain.gangs import Assignment, Gang, GangState, Law, NodeShare, PodSet, Priority
from runrig.domain.limits import Limits
from runrig.domain.nodes import Flavor, Node, Taint
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
from runrig.domain.pools import Cohort, Pool, PoolState, Queueing, Quota, TopologyKey
from runrig.domain.quantities import FlavorResource
from runrig.domain.records import Event, GangRow, Loaded, Note, Record, RowChange
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import (
    ExitAction,
    ExitRule,
    FileSpec,
    Group,
    GroupSpec,
    Status,
    Task,
    TaskSpec,
    Workflow,
    WorkflowSpec,
)
from runrig.ports.store import SpecText, Store

T0 = 1_790_000_000.123457
H100_GPU = FlavorResource("h100", "gpu")


@dataclass(frozen=True)
class Commit:
    """What one call of `Store.commit` gets."""

    revision: int
    events: tuple[Event, ...]
    changes: tuple[RowChange, ...]
    spec: SpecText | None = None

    def to(self, store: Store) -> None:
        store.commit(self.revision, self.events, self.changes, () if self.spec is None else (self.spec,))


def put(record: Record) -> RowChange:
    return RowChange(type(record).__name__, key_of(record), record)


def drop(record: Record) -> RowChange:
    return RowChange(type(record).__name__, key_of(record), None)


def key_of(record: Record) -> tuple[str | int, ...]:
    match record:
        case Workflow(id=id):
            return (id,)
        case Group(workflow=workflow, name=name):
            return (workflow, name)
        case Task():
            return record.key
        case GangRow(gang=gang):
            return (gang.id,)
        case Note(revision=revision):
            return (revision,)
        case Limits(user=user):
            return (user,)
        case Spent():
            return record.scope
        case _:
            return (record.name,)


def commit(revision: int, actions: tuple[Action, ...], *changes: RowChange, spec: SpecText | None = None) -> Commit:
    """One event per action, a second per revision, by alice, under law P1."""
    events = tuple(Event(revision, seq, T0 + revision, "alice", action, "P1") for seq, action in enumerate(actions))
    return Commit(revision, events, changes, spec)


# ---------------------------------------------------------------- the cluster

FLAVORS = (
    Flavor("h100", {"gpu": "h100"}, (Taint("dedicated", "ml"),), ("privileged",)),
    Flavor("b200", {"gpu": "b200"}, position=1),  # after h100: in the order of the file, not of the names
)
NODES = (
    Node("n0", {"gpu": 8, "cpu": 96_000, "memory": 2**40}, "h100", {"gpu": "h100", "rack": "r0"}),
    Node("n1", {"gpu": 8}, "b200", {"gpu": "b200"}, (Taint("spot", effect="NoExecute"),), ready=False),
)
GONE_NODE = Node("n2", {"gpu": 4})
COHORTS = (
    Cohort("org"),
    Cohort("research", "org", {H100_GPU: Quota(16, 8, 4), FlavorResource("h100", "nvidia.com/mig"): Quota(2)}, 3),
)
GONE_COHORT = Cohort("sales", "org")
TEAM = Pool(
    "team",
    {H100_GPU: Quota(100, lending_limit=0), FlavorResource("h100", "memory"): Quota(2**63 - 1)},
    cohort="research",
    weight=2,
    queueing=Queueing.STRICT_FIFO,
    grace_s=12.5,
    flavors=("h100", "b200"),
    topology_keys=(TopologyKey("zone", "topology.kubernetes.io/zone"), TopologyKey("rack", "rack")),
    default_platform="h100",
    default_exit_actions=(("RESCHEDULE", 137, 143),),
    description="the team's own; 'quoted', “quoted”",
)


def subpool(name: str, gpus: int, state: PoolState) -> Pool:
    return Pool(f"team--{name}", {H100_GPU: Quota(gpus)}, parent="team", subpool_name=name, state=state)


POOLS = (
    Pool("old", state=PoolState.ARCHIVED),
    TEAM,
    subpool("a", 30, PoolState.ACTIVE),
    subpool("b", 40, PoolState.DELETING),
    subpool("c", 20, PoolState.ARCHIVED),
)

# ---------------------------------------------------------------- specifications

TRAIN = SpecText(
    hash="hash-of-train",
    text="workflow:\n  name: train\n",
    template="workflow:\n  name: {{name}}\n",
    spec=WorkflowSpec(
        name="train",
        groups=(
            GroupSpec(
                "prepare", (TaskSpec("fetch", "data:1", ("fetch",), ("--all",), environment={"B": "2", "A": "1"}),)
            ),
            GroupSpec(
                "fit",
                (
                    TaskSpec(
                        "worker",
                        "torch:2",
                        ("python", "fit.py"),
                        lead=True,
                        files=(FileSpec("/conf.yaml", "lr: 1"), FileSpec("/blob", "AAE=", base64=True)),
                        requests=(("cpu", 4000), ("gpu", 8)),
                        platform="h100",
                        inputs=("fetch",),
                        exit_rules=(ExitRule(ExitAction.RESCHEDULE, 1, 9),),
                        count=4,
                        min_count=2,
                        duration_s=60.5,
                        allow=("privileged",),
                    ),
                ),
                upstream=("prepare",),
                barrier=False,
                ignore_nonlead_status=False,
            ),
        ),
        labels={"project": "x"},
        priority=Priority.LOW,
        exec_timeout_s=3600.0,
        queue_timeout_s=60.0,
    ),
)
EVAL = SpecText(
    hash="hash-of-eval",
    text="workflow: {name: eval}",
    template="workflow: {name: eval}",
    spec=WorkflowSpec("eval", (GroupSpec("run", (TaskSpec("run", "eval:1", ("true",)),)),)),
)

# ---------------------------------------------------------------- workflows


def workflow(name: str, number: int, **fields: Any) -> Workflow:
    """In pool team, NORMAL, by alice, submitted *number* seconds after T0; *fields* say otherwise."""
    fresh = Workflow(
        id=f"{name}-{number}",
        uuid=f"uuid-of-{name}-{number}",
        name=name,
        number=number,
        pool="team",
        priority=Priority.NORMAL,
        submitted_by="alice",
        submit_time=T0 + number,
        spec_hash=f"hash-of-{name}",
    )
    return replace(fresh, **fields)


def gang(workflow: Workflow, group: str, **fields: Any) -> Gang:
    sets = (PodSet("worker", 4, (("cpu", 4000), ("gpu", 8)), 2, "h100"), PodSet("side", 1, ()))
    fresh = Gang(f"{workflow.id}/{group}", workflow.pool, workflow.priority, workflow.submit_time, sets)
    return replace(fresh, **fields)


def task(workflow: Workflow, group: str, name: str, retry_id: int = 0, **fields: Any) -> Task:
    return replace(Task(workflow.id, name, retry_id, group, name, 0, lead=False), **fields)


PLACEMENT = (
    Assignment("worker", "h100", 2, (NodeShare("n0", 1, (0, 1, 2)), NodeShare("n1", 1, (7,)))),
    Assignment("side", "h100", 1),
)

DONE = workflow("train", 1, status=WorkflowStatus.COMPLETED, start_time=T0 + 5, end_time=T0 + 9.000001)
RUNNING = workflow(
    "train", 2, status=WorkflowStatus.RUNNING, labels={"project": "x"}, start_time=T0 + 3, parent="train-1"
)
NOMINATED = workflow("train", 3, pool="team--a", priority=Priority.HIGH)
STOPPING = workflow("train", 4, status=WorkflowStatus.RUNNING, pool="team--b", priority=Priority.LOW, start_time=T0 + 6)
QUEUED = workflow("eval", 1, pool="team--a", submitted_by="bob")
CANCELLED = workflow(
    "eval",
    2,
    submitted_by="bob",
    status=WorkflowStatus.FAILED_CANCELED,
    cancelled_by="carol",
    failure_message="no longer needed",
    end_time=T0 + 7,
)
LIVE_WORKFLOWS = (QUEUED, RUNNING, NOMINATED, STOPPING)

DONE_GROUPS = (Group("train-1", "fit", Status.COMPLETED, start_time=T0 + 5, end_time=T0 + 9),)
DONE_TASKS = (task(DONE, "fit", "worker", status=Status.COMPLETED, exit_code=0, node="n0", gpus=(0,), end_time=T0 + 9),)
LIVE_GROUPS = (
    Group("eval-1", "run", Status.SCHEDULING, queued_time=T0 + 1),
    Group("train-2", "fit", Status.RUNNING, attempt=1, preemptions=1, queued_time=T0 + 2, start_time=T0 + 3),
    Group("train-2", "prepare", Status.COMPLETED, start_time=T0 + 2, end_time=T0 + 2.5),
    Group("train-3", "fit", Status.SCHEDULING, queued_time=T0 + 3),
    Group("train-4", "fit", Status.RUNNING, stopping=Status.FAILED_PREEMPTED, failure_message="for train-3/fit"),
)
LIVE_TASKS = (
    task(QUEUED, "run", "run"),
    task(RUNNING, "prepare", "fetch", status=Status.COMPLETED, exit_code=0, start_time=T0 + 2, end_time=T0 + 2.5),
    task(RUNNING, "fit", "worker-0", lead=True, status=Status.RESCHEDULED, exit_code=3006, failure_message="preempted"),
    task(RUNNING, "fit", "worker-0", 1, lead=True, status=Status.RUNNING, node="n0", gpus=(0, 1), start_time=T0 + 4),
    task(RUNNING, "fit", "worker-1", 1, spec="worker", index=1, status=Status.INITIALIZING, node="n1", restarting=True),
    task(STOPPING, "fit", "worker-0", status=Status.RUNNING, node="n1", gpus=(1,), start_time=T0 + 6),
)
GANGS = (
    GangRow(gang(QUEUED, "run"), GangState.PENDING),
    GangRow(gang(RUNNING, "fit", attempt=1), GangState.ADMITTED, PLACEMENT, admitted_at=T0 + 3.25),
    GangRow(gang(NOMINATED, "fit"), GangState.NOMINATED, PLACEMENT, waits_for=("train-4/fit",)),
    GangRow(
        gang(STOPPING, "fit"),
        GangState.STOPPING,
        PLACEMENT,
        admitted_at=T0 + 6,
        preempted_by="train-3/fit",
        law=Law.RECLAIM,
    ),
)
GONE_GANG = GangRow(gang(CANCELLED, "run"), GangState.PENDING)
GONE_GROUPS = (Group("eval-2", "run", Status.FAILED_CANCELED, end_time=T0 + 7),)

# ---------------------------------------------------------------- history

DECLARED: tuple[Record, ...] = (*reversed(POOLS), *FLAVORS, *NODES, GONE_NODE, *COHORTS, GONE_COHORT)

HISTORY = (
    commit(
        1,
        (
            SetFlavors(FLAVORS),
            *(PutNode(node) for node in (*NODES, GONE_NODE)),
            *(PutCohort(cohort) for cohort in (*COHORTS, GONE_COHORT)),
            *(PutPool(pool) for pool in POOLS),
        ),
        # In reverse: a row must not have to come after the one that it depends on.
        *(put(record) for record in DECLARED),
    ),
    commit(
        2,
        (DropNode("n2"), DropCohort(GONE_COHORT), PutPool(TEAM, before=replace(TEAM, weight=1))),
        drop(GONE_NODE),
        drop(GONE_COHORT),
    ),
    commit(
        3,
        (
            Submit(DONE, DONE_GROUPS),
            Queue(gang(RUNNING, "fit")),
            MoveTask(LIVE_TASKS[1].key, Status.COMPLETED, 0, "ok"),
        ),
        *(put(record) for record in (DONE, RUNNING, *DONE_GROUPS, *LIVE_GROUPS[1:3], *DONE_TASKS, *LIVE_TASKS[1:3])),
        *(put(record) for record in (*LIVE_TASKS[3:5], GANGS[1])),
        spec=TRAIN,
    ),
    commit(
        4,
        (Submit(QUEUED, LIVE_GROUPS[:1]), Submit(CANCELLED, GONE_GROUPS)),
        *(
            put(record)
            for record in (QUEUED, CANCELLED, LIVE_GROUPS[0], *GONE_GROUPS, LIVE_TASKS[0], GANGS[0], GONE_GANG)
        ),
        spec=EVAL,
    ),
    commit(
        5,
        (
            Nominate("train-3/fit", PLACEMENT, ("train-4/fit",)),
            Withdraw("train-3/fit"),
            Preempt("train-4/fit", by="train-3/fit", law=Law.RECLAIM),
            Stop("eval-2/run", Status.FAILED_CANCELED),
            Admit("train-2/fit", PLACEMENT),
            Release("eval-2/run"),
            RetryTask(LIVE_TASKS[2].key),
            RestartTask(LIVE_TASKS[4].key),
            MoveGroup("train-4", "fit", Status.RUNNING, "for train-3/fit", Status.FAILED_PREEMPTED),
            MoveWorkflow("eval-2", WorkflowStatus.FAILED_CANCELED, "no longer needed", "carol"),
        ),
        *(put(record) for record in (NOMINATED, STOPPING, *LIVE_GROUPS[3:], LIVE_TASKS[5], *GANGS[2:])),
        drop(GONE_GANG),
        spec=TRAIN,
    ),
)
LATER = (
    Replace,
    Refuse,
    TryAgain,
    Unqueue,
    Hold,
    EndHold,
    Reassign,
    SetAside,
    Abandon,
    SetMost,
    SetPriority,
    PutLimits,
    SetSpent,
    SetOwnerAside,
)
"""Actions that no history of the first release could have, the dump of which has to be this one."""

EVENTS = tuple(event for one in HISTORY for event in one.events)
LOADED = Loaded(
    revision=5,
    flavors=FLAVORS,
    nodes=NODES,
    cohorts=COHORTS,
    pools=POOLS,
    workflows=LIVE_WORKFLOWS,
    groups=LIVE_GROUPS,
    tasks=LIVE_TASKS,
    gangs=GANGS,
    specs={"hash-of-train": TRAIN.spec, "hash-of-eval": EVAL.spec},
    numbers={"train": 4, "eval": 2},
)


def fill(store: Store) -> None:
    for one in HISTORY:
        one.to(store)
