"""Long cycles in parts: how long each part holds the lock, for decisions and storing, and how soon the nodes of a cancelled gang
are free.

1,000 pools of 8 GPUs in 25 cohorts, on SQLite.  One gang uses all nodes; behind it waits work of three priorities, a third each
with 1, 2 and 4 GPUs.  First everything waiting is evaluated, and nothing fits.  Then the gang is cancelled.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from time import thread_time
from typing import NamedTuple

from bench.section import Cell, Rows, ms, verdict
from bench.store import fresh
from bench.timing import as_served
from runrig.backends.simulated import SimulatedClock
from runrig.domain.gangs import Assignment, Gang, GangState, NodeShare, PodSet, Priority
from runrig.domain.nodes import DEFAULT_FLAVOR, Flavor, Node
from runrig.domain.observed import Observation, Phase, TaskFact
from runrig.domain.plan import Plan, PutCohort, PutNode, PutPool, Release, SetFlavors
from runrig.domain.pools import Cohort, Pool, Quota
from runrig.domain.quantities import GPU, FlavorResource, of_one_pod
from runrig.domain.records import GangRow, RowChange
from runrig.domain.workflows import Group, GroupSpec, Status, Task, TaskSpec, Workflow, WorkflowSpec
from runrig.engine.lifecycle import workflows
from runrig.ports.store import SpecText
from runrig.service.runtime.transactor import Transactor
from runrig.store import SqlStore

ABOUT = "cycles of a large queue, each part decided and stored; processor time of the thread that decides"
POOLS, COHORTS, GPUS_PER_NODE = 1000, 25, 8
SIZES = ((1000, 1_000), (1000, 10_000), (1000, 100_000), (10_000, 100_000))
"""(nodes, waiting gangs)."""
LONGEST_MS, RELEASED_MS = 50.0, 100.0
"""Goals: of every part, and until a gang on 1,000 nodes is released."""
OLD_RELEASED = {(1000, 100_000): "> 360,000, 57", (10_000, 100_000): "570"}
"""Milliseconds before cycles were cut, when an ended task counted as much as an evaluated gang."""
HOLDER = "holder-1"
PRIORITIES = (Priority.HIGH, Priority.NORMAL, Priority.LOW)
WIDTHS = (1, 2, 4)


class Parts(NamedTuple):
    """Processor seconds of the parts of one cycle, including storing.  *released*: until the gang had left the nodes and that was
    stored.
    """

    what: str
    nodes: int
    waiting: int
    parts: tuple[float, ...]
    actions: int
    released: float | None = None


def measured(sizes: Sequence[tuple[int, int]] = SIZES) -> Iterator[Parts]:
    for nodes, waiting in sizes:
        with fresh("sqlite") as url:
            store(url, nodes, waiting)
            with closing(SqlStore.open(url, exclusive=True)) as opened:
                yield from _cycles(opened, nodes, waiting)


def rows() -> Rows:
    """A row for each cycle."""
    return [
        {
            "cycle": each.what,
            "nodes": each.nodes,
            "waiting": each.waiting,
            "changes": each.actions,
            "seconds": sum(each.parts),
            "parts": len(each.parts),
            "longest, ms": ms(max(each.parts)),
            f"at most {LONGEST_MS:.0f}": verdict(ms(max(each.parts)) <= LONGEST_MS),
            **_released(each),
        }
        for each in measured()
    ]


def _released(each: Parts) -> dict[str, Cell]:
    if each.released is None:
        return {"released, ms": "", f"within {RELEASED_MS:.0f}": "", "old released": ""}
    return {
        "released, ms": f"{each.released * 1000:.0f}",
        f"within {RELEASED_MS:.0f}": verdict(ms(each.released) <= RELEASED_MS),
        "old released": OLD_RELEASED.get((each.nodes, each.waiting), "-"),
    }


def _cycles(store: SqlStore, nodes: int, waiting: int) -> Iterator[Parts]:
    transactor = Transactor(store, SimulatedClock(), fixed_nodes=True, topology=True)
    with transactor.reading() as state:
        keys = sorted(state.active)
        assert len(keys) == nodes
    with as_served():
        yield _timed(
            "first cycle", transactor, Observation(dict.fromkeys(keys, TaskFact(Phase.RUNNING))), nodes, waiting
        )
        with transactor.writing("bench") as writing:
            writing.commit(workflows.cancel(writing.state, HOLDER, user="bench"))
        ended = Observation(dict.fromkeys(keys, TaskFact(Phase.ENDED, 143)))
        yield _timed("holder ends", transactor, ended, nodes, waiting)


def _timed(what: str, transactor: Transactor, observed: Observation, nodes: int, waiting: int) -> Parts:
    parts: list[float] = []
    released, actions = None, 0
    running = transactor.cycle(observed)
    while True:
        began = thread_time()
        plan = next(running, None)
        parts.append(thread_time() - began)
        if plan is None:
            return Parts(what, nodes, waiting, tuple(parts), actions, released)
        actions += len(plan.actions)
        if any(isinstance(action, Release) and action.gang.startswith(HOLDER) for action in plan.actions):
            released = sum(parts)


# ---------------------------------------------------------------- what is stored


def store(url: str, nodes: int, waiting: int) -> None:
    """Writes the rows of that cluster; 10,000 workflows per commit."""
    with closing(SqlStore.open(url, exclusive=True)) as opened:
        transactor = Transactor(opened, SimulatedClock(), fixed_nodes=True, topology=True)
        with transactor.writing("bench") as writing:
            writing.commit(Plan((*_cluster(nodes),)))
            revision = writing.state.revision
        specs = {gpus: _spec(f"w{gpus}", gpus) for gpus in WIDTHS}
        revision += 1
        opened.commit(revision, (), _holder(nodes), [_spec("holder", GPUS_PER_NODE, nodes)])
        for gpus, spec in specs.items():
            revision += 1
            changes = [
                row for at in range(waiting) if WIDTHS[at // 3 % 3] == gpus for row in _waiting(at, gpus, spec.hash)
            ]
            opened.commit(revision, (), changes, [spec])


def _cluster(nodes: int) -> Iterator[SetFlavors | PutNode | PutCohort | PutPool]:
    yield SetFlavors((Flavor(DEFAULT_FLAVOR),))
    for at in range(nodes):
        yield PutNode(Node(f"n{at:05}", {GPU: GPUS_PER_NODE}, flavor=DEFAULT_FLAVOR))
    yield from (PutCohort(Cohort(f"c{at:02}")) for at in range(COHORTS))
    each = {FlavorResource(DEFAULT_FLAVOR, GPU): Quota(nodes * GPUS_PER_NODE // POOLS)}
    yield from (PutPool(Pool(f"p{at:04}", each, cohort=f"c{at % COHORTS:02}")) for at in range(POOLS))
    yield PutPool(Pool("holder", {FlavorResource(DEFAULT_FLAVOR, GPU): Quota(nodes * GPUS_PER_NODE)}))


def _spec(name: str, gpus: int, count: int | None = None) -> SpecText:
    task = TaskSpec("main", "any", ("sleep", "1"), lead=True, requests=((GPU, gpus),), count=count)
    return SpecText(f"hash of {name}", "", "", WorkflowSpec(name, (GroupSpec("main-group", (task,)),)))


def _waiting(at: int, gpus: int, spec_hash: str) -> Iterator[RowChange]:
    pool, priority = f"p{at % POOLS:04}", PRIORITIES[at % 3]
    id, moment = f"w{at:06}-1", 1.8e9 + at
    workflow = Workflow(id, f"{at:032x}", f"w{at:06}", 1, pool, priority, "bench", moment, spec_hash)
    group = Group(id, "main-group", Status.SCHEDULING, queued_time=moment)
    task = Task(id, "main", 0, "main-group", "main", 0, lead=True, status=Status.SCHEDULING)
    gang = Gang(f"{id}/main-group", pool, priority, moment, (_pod_set(gpus, 1),))
    yield RowChange("Workflow", (id,), workflow)
    yield RowChange("Group", (id, group.name), group)
    yield RowChange("Task", task.key, task)
    yield RowChange("GangRow", (gang.id,), GangRow(gang, GangState.PENDING))


def _holder(nodes: int) -> list[RowChange]:
    moment = 1.7e9
    gpus = tuple(range(GPUS_PER_NODE))
    workflow = Workflow(HOLDER, "f" * 32, "holder", 1, "holder", Priority.NORMAL, "bench", moment, "hash of holder")
    group = Group(HOLDER, "main-group", Status.RUNNING, queued_time=moment, start_time=moment)
    tasks = [
        Task(HOLDER, f"main-{at}", 0, group.name, "main", at, at == 0, Status.RUNNING, f"n{at:05}", gpus)
        for at in range(nodes)
    ]
    gang = Gang(f"{HOLDER}/main-group", "holder", Priority.NORMAL, moment, (_pod_set(GPUS_PER_NODE, nodes),))
    shares = tuple(NodeShare(f"n{at:05}", 1, gpus) for at in range(nodes))
    placement = (Assignment("main", DEFAULT_FLAVOR, nodes, shares),)
    return [
        RowChange("Workflow", (HOLDER,), workflow),
        RowChange("Group", (HOLDER, group.name), group),
        *(RowChange("Task", task.key, task) for task in tasks),
        RowChange("GangRow", (gang.id,), GangRow(gang, GangState.ADMITTED, placement, admitted_at=moment)),
    ]


def _pod_set(gpus: int, count: int) -> PodSet:
    return PodSet("main", count, of_one_pod(((GPU, gpus),)))
