"""Requests of users and backends to a large cluster, how long they hold the lock, and the time to start with many stored workflows.

All on SQLite.  Workflows have one task with one GPU; pools share one flavor, ten of them in a cohort.
"""

import gc
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from time import process_time
from typing import NamedTuple

from bench.section import Cell, Rows, against, ms, verdict
from bench.store import FILE, fresh
from bench.timing import Times, timed, took
from runrig.api.osmo import shaped
from runrig.api.osmo.resources import streamed
from runrig.backends.simulated import SimulatedBackend, SimulatedClock
from runrig.domain.gangs import Assignment, GangState, NodeShare, Priority
from runrig.domain.nodes import DEFAULT_FLAVOR, Flavor, Node
from runrig.domain.plan import MoveWorkflow, PutCohort
from runrig.domain.pools import Cohort, Pool, Quota
from runrig.domain.quantities import CPU, GPU, MEMORY, FlavorResource
from runrig.domain.records import Event, GangRow, RowChange
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Group, Status, Task, Workflow
from runrig.engine.lifecycle.gangs import gang_of
from runrig.engine.state.state import State
from runrig.ports.store import SpecText
from runrig.service.commands.submission import Submission, read
from runrig.service.queries.resource_queries import ResourceQueries
from runrig.service.runtime.desired import Launches
from runrig.service.runtime.transactor import APPLY, Transactor
from runrig.service.service import Service
from runrig.store import SqlStore
from runrig.wire.base import json_of

ABOUT = "questions to a large cluster, processor time in ms, and how long of it the lock is held"
ABOUT_START = "loading the stored state, in s of processor time, and the memory that one workflow takes, in bytes"
GPUS_PER_NODE = 8
RESOURCES = {1_000: 1_200.0, 4_000: 37_000.0, 10_000: 314_000.0}
"""Nodes, with as many tasks and a tenth as many pools (at most 100) → earlier ms of `GET /api/resources`."""
DESIRED, POOL_QUOTA, PRUNE_EVENT = 2_300.0, 347.0, 0.035
"""Earlier ms: 200 pools and DESIRED_NODES nodes with nothing running; 1,000 pools; each event of the log."""
DESIRED_NODES = 10_000
DESIRED_GOAL, POOL_QUOTA_GOAL = 20.0, 50.0
PAGE = 100
RESOURCES_GOAL_EACH, PAGE_GOAL, GPUS_GOAL, PRUNE_GOAL = 0.1, 10.0, 5.0, 20.0
"""ms: for each streamed node with up to 100 pools; for a page, a count, and answers that no longer read the log, of any size."""
LINES = (1_000, 10_000, 100_000)
EVENTS = (1_000, 10_000, 100_000)
STARTS = {1_000: None, 10_000: None, 100_000: 13.0}
"""Waiting workflows → earlier s."""
START_GOAL, BYTES, BYTES_GOAL = 10.0, 2_910.0, 1_000.0


class World(NamedTuple):
    nodes: int
    pools: int
    running: int = 0
    waiting: int = 0


class Asked(NamedTuple):
    """*locked*: seconds of the last run in which the lock was held; None if nothing could wait for it."""

    what: str
    at: str
    times: Times
    locked: float | None
    before: float | None
    goal: float | None


# ---------------------------------------------------------------- a stored cluster


def rows(world: World, spec: SpecText) -> Iterator[RowChange]:
    yield RowChange("Flavor", (DEFAULT_FLAVOR,), Flavor(DEFAULT_FLAVOR))
    has = {GPU: GPUS_PER_NODE, CPU: 96_000, MEMORY: 2**40}
    for at in range(world.nodes):
        yield RowChange("Node", (_node(at),), Node(_node(at), has, labels={"rack": f"r{at // 32}"}))
    quotas = {FlavorResource(DEFAULT_FLAVOR, GPU): Quota(world.nodes * GPUS_PER_NODE // world.pools)}
    for at in range(0, world.pools, 10):
        yield RowChange("Cohort", (f"c{at // 10}",), Cohort(f"c{at // 10}"))
    for at in range(world.pools):
        yield RowChange("Pool", (pool_name(at),), Pool(pool_name(at), quotas, cohort=f"c{at // 10}"))
    for at in range(world.running + world.waiting):
        yield from _workflow(at, pool_name(at % world.pools), spec, runs=at < world.running)


def _workflow(at: int, pool: str, spec: SpecText, *, runs: bool) -> Iterator[RowChange]:
    submitted = 1.7e9 + at
    node, gpu = _node(at // GPUS_PER_NODE), (at % GPUS_PER_NODE,)
    started, status = (submitted, Status.RUNNING) if runs else (None, Status.SCHEDULING)
    workflow = Workflow(
        f"sleeper-{at}", f"{at:032x}", "sleeper", at, pool, Priority.NORMAL, f"user{at % 50}", submitted, spec.hash
    )
    group = Group(workflow.id, "main-group", status, queued_time=submitted, start_time=started)
    task = Task(workflow.id, "main", 0, group.name, "main", 0, lead=True, status=status, start_time=started)
    row = GangRow(gang_of(workflow, spec.spec.groups[0]), GangState.PENDING)
    if runs:
        placement = (Assignment("main", DEFAULT_FLAVOR, 1, (NodeShare(node, 1, gpu),)),)
        workflow = replace(workflow, status=WorkflowStatus.RUNNING, start_time=started)
        task = replace(task, node=node, gpus=gpu)
        row = GangRow(row.gang, GangState.ADMITTED, placement, (), submitted)
    yield RowChange("Workflow", (workflow.id,), workflow)
    yield RowChange("Group", (workflow.id, group.name), group)
    yield RowChange("Task", task.key, task)
    yield RowChange("GangRow", (row.gang.id,), row)


def _node(at: int) -> str:
    return f"n{at:05}"


def pool_name(at: int) -> str:
    return f"p{at:04}"


@contextmanager
def stored(world: World, file: str = FILE) -> Iterator[SqlStore]:
    with stored_at(world, file) as url, closing(SqlStore.open(url)) as store:
        yield store


@contextmanager
def stored_at(world: World, file: str = FILE) -> Iterator[str]:
    """The URL of a database with *world*."""
    with fresh("sqlite") as url:
        with closing(SqlStore.open(url)) as store:
            spec = read(Submission(file, pool_name(0), "bench", priority=Priority.NORMAL)).spec
            store.commit(store.load().revision + 1, (), tuple(rows(world, spec)), (spec,))
        yield url


# ---------------------------------------------------------------- questions


class Watched(Transactor):
    """*locked*: processor seconds in which the state was read."""

    locked = 0.0

    @contextmanager
    def reading(self) -> Iterator[State]:
        with super().reading() as state:
            start = process_time()
            yield state
            self.locked = process_time() - start


@contextmanager
def watched(world: World) -> Iterator[Watched]:
    with stored(world) as store:
        transactor = Watched(store, SimulatedClock(), fixed_nodes=True, topology=True)
        with transactor.reading() as state:
            assert (len(state.nodes), len(state.active)) == (world.nodes, world.running)
            assert state.ledger.tree.root.active
        yield transactor


def questions(
    runs: int,
    sizes: Sequence[int] = tuple(RESOURCES),
    pools: int = 1_000,
    lines: Sequence[int] = LINES,
    logs: Sequence[int] = EVENTS,
) -> Iterator[Asked]:
    for nodes in sizes:
        yield from _of_nodes(nodes, runs)
        with watched(World(nodes, max(1, nodes // 50))) as here:
            at, before = f"{nodes // 50:,} pools, {nodes:,} nodes", DESIRED if nodes == DESIRED_NODES else None
            yield _asked("desired, with queues", at, here, _desired, runs, before, DESIRED_GOAL)
    for many in lines:
        with watched(World(pools, pools, running=pools, waiting=many)) as here:
            at, before = f"{pools:,} pools, {many:,} waiting", POOL_QUOTA if many == 10 * pools else None
            yield _asked("pool_quota", at, here, _pool_quota, runs, before, POOL_QUOTA_GOAL)
    for events in logs:
        yield _prune(runs, events)


def _of_nodes(nodes: int, runs: int) -> Iterator[Asked]:
    at, before = f"{nodes:,} nodes and tasks", RESOURCES.get(nodes)
    with watched(World(nodes, min(100, nodes // 10), running=nodes)) as here:
        yield _asked("resources, all at once", at, here, _resources, runs, before, nodes * RESOURCES_GOAL_EACH)
        yield _asked(f"nodes, reading a page of {PAGE}", at, here, _page, runs, before, PAGE_GOAL)
        yield _asked("counting GPUs", at, here, _gpus, runs, before, GPUS_GOAL)


def _asked(
    what: str,
    at: str,
    here: Watched,
    ask: Callable[[Watched], object],
    runs: int,
    before: float | None,
    goal: float | None = None,
) -> Asked:
    ask(here)
    return Asked(what, at, timed(partial(cpu_timed, lambda: ask(here)), runs), here.locked, before, goal)


cpu_timed = partial(took, clock=process_time)


def _resources(here: Watched) -> int:
    views, more = ResourceQueries(here, "bench").nodes()
    assert not more
    return sum(len(part) for part in streamed(views, more=more))


def _page(here: Watched) -> None:
    views, more = ResourceQueries(here, "bench").nodes(limit=PAGE, after=_node(PAGE))
    assert [view.name for view in views] == [_node(at) for at in range(PAGE + 1, PAGE + 1 + len(views))]
    assert more is (len(views) == PAGE)


def _gpus(here: Watched) -> None:
    with here.reading() as state:
        nodes = len(state.nodes)
    assert ResourceQueries(here, "bench").gpus() == nodes * GPUS_PER_NODE


def _desired(here: Watched) -> None:
    with here.reading() as state:
        assert len(Launches(queues=True).desired(state).pools) == len(state.pools)


def _pool_quota(here: Watched) -> str | bytes:
    return json_of(shaped.pool_quota(ResourceQueries(here, "bench").pools(), "bench"))


def _prune(runs: int, events: int) -> Asked:
    """A cluster file without the one cohort that an earlier one created, after *events* of work."""
    with stored(World(1, 1)) as store:
        revision = store.load().revision
        made = Event(revision + 1, 0, 1.0, APPLY + "bench", PutCohort(Cohort("gone")))
        store.commit(revision + 1, (made,), (RowChange("Cohort", ("gone",), Cohort("gone")),))
        moved = MoveWorkflow("sleeper-1", WorkflowStatus.RUNNING)
        store.commit(revision + 2, [Event(revision + 2, at, 2.0, "engine", moved) for at in range(events)], ())
        service = Service(store, SimulatedBackend((), SimulatedClock()), SimulatedClock())

        def prune() -> None:
            told = service.declarations.apply("pools: [{name: p0000}]", user="bench", prune=True, dry_run=True)
            assert ("delete", "cohort", "gone") in [(each.action, each.kind, each.name) for each in told]

        prune()
        times = timed(partial(cpu_timed, prune), runs)
    return Asked("apply --prune", f"{events:,} events", times, None, round(PRUNE_EVENT * events, 1), PRUNE_GOAL)


def table(runs: int) -> Rows:
    found: Rows = []
    for each in questions(runs):
        best = ms(each.times.least)
        row: dict[str, Cell] = {"question": each.what, "at": each.at, "before": each.before or "-"}
        row |= {"min": best, "locked": "-" if each.locked is None else ms(each.locked)}
        found.append(row | {"normalised": ms(each.times.normalised)} | against(best, each.goal))
    return found


# ---------------------------------------------------------------- a start


class Start(NamedTuple):
    """*memory*: bytes of one workflow, without the specification that they share."""

    waiting: int
    times: Times
    memory: float


def starts(runs: int, sizes: Sequence[int] = tuple(STARTS)) -> Iterator[Start]:
    for waiting in sizes:
        with stored(World(100, 10, waiting=waiting)) as store:
            times = timed(partial(cpu_timed, partial(_loaded, store)), runs)
            yield Start(waiting, times, _memory(store) / waiting)


def _loaded(store: SqlStore) -> State:
    transactor = Transactor(store, SimulatedClock(), fixed_nodes=True, topology=True)
    with transactor.reading() as state:
        return state


def _memory(store: SqlStore) -> int:
    """The rest: there are few nodes and pools compared with workflows."""
    tracemalloc.start()
    try:
        state = _loaded(store)
        gc.collect()
        assert len(state.ledger.entries) == len(state.workflows)
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def starting(runs: int) -> Rows:
    found: Rows = []
    for each in starts(min(runs, 2)):
        row: dict[str, Cell] = {"waiting": each.waiting, "before": STARTS[each.waiting] or "-"}
        row |= {"min": each.times.least, "normalised": each.times.normalised} | against(each.times.least, START_GOAL)
        row |= {"bytes before": BYTES, "bytes": each.memory, "bytes goal": BYTES_GOAL}
        found.append(row | {"bytes are": verdict(each.memory <= BYTES_GOAL)})
    return found
