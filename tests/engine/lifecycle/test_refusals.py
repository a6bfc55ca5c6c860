"""Every refusal of the engine, caused by a real request on a small cluster: the complete sentence, singular and plural."""

import ast
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import runrig.engine
from runrig.domain.after import After, When
from runrig.domain.cluster import ClusterSpec
from runrig.domain.errors import Refused
from runrig.domain.nodes import Flavor, Node
from runrig.domain.plan import PutPool
from runrig.domain.pools import Cohort, Pool, PoolState, Quota, TopologyKey
from runrig.domain.quantities import CPU, GPU, MEMORY, FlavorResource, requests_of
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import TaskSpec
from runrig.engine.lifecycle import closing, pools
from runrig.engine.lifecycle.reassignments import reassign
from tests.worlds.engine import HIGH, LOW, NORMAL, World, gpu_quota, subpool, task, workflow
from tests.worlds.placement import PLENTY, city, group, pods

AT = 1_800_000_000.0
GPUS_OF = {name: FlavorResource(name, GPU) for name in ("h100", "b200")}
MEM = FlavorResource("default", MEMORY)
TWO_FLAVORS = (Flavor("h100", {"gpu": "h100"}), Flavor("b200", {"gpu": "b200"}, allow=("privileged",)))
RACKS = "a/r0: 8 8 | a/r1: 8 8 8"


def team(quota: int, **subpools: int) -> World:
    """Pool team and its subpools, on 16 GPUs."""
    world = World({"team": quota}, {"n0": 16})
    for short, gpus in subpools.items():
        world.do(*pools.put_pool(world.state, subpool("team", short, gpus), create=True).actions)
    return world


def two_flavors(**quotas: int) -> World:
    pool = Pool("a", {GPUS_OF[name]: Quota(gpus) for name, gpus in quotas.items()})
    nodes = {name: Node(name, {GPU: 4}, flavor=name, labels={"gpu": name}) for name in quotas}
    return World({"a": pool}, nodes, flavors=TWO_FLAVORS)


def crowded(waiting: int = 1, **limits: Any) -> World:
    """Pool lab with *limits*, in which so many workflows wait."""
    world = World({"lab": Pool("lab", gpu_quota(9), **limits)}, {"n0": 9})
    for number in range(waiting):
        world.submit(f"waits{number}", "lab")
    return world


def put(world: World, pool: Pool, *, create: bool = True) -> None:
    pools.put_pool(world.state, pool, create=create)


def ask(world: World, pool: str, gpus: int, priority: Any = NORMAL, **more: Any) -> None:
    """Workflow w with one task t."""
    world.submit("w", pool, priority, spec=workflow("w", task("t", gpus, **more)))


def near(drawn: str, *tasks: TaskSpec) -> None:
    """Workflow w of one group, in a pool with keys zone and rack."""
    city(drawn, team=PLENTY).submit("w", "team", HIGH, spec=group("w", *tasks))


def of_state(state: PoolState, **subpools: int) -> World:
    """Pool team, or its subpool a if it has one, in *state*."""
    world = team(10, **subpools)
    pool = world.state.pools["team--a" if subpools else "team"]
    world.do(PutPool(replace(pool, state=state), pool))
    return world


def closed(reason: str) -> World:
    world = World({"lab": 4}, {"n0": 4})
    world.do(*closing.close(world.state, "lab", user="ann", now=AT, reason=reason).actions)
    return world


def limited(hours: int) -> World:
    return World({"lab": Pool("lab", gpu_quota(4), max_run_time_s=3600.0 * hours)})


def runs(world: World, seconds: float | None) -> None:
    world.submit("w", "lab", spec=replace(workflow("w", task("t")), exec_timeout_s=seconds))


def moved(to: int) -> None:
    world = World({"a": 2, "b": to}, {"n0": 4})
    ask(world, "a", 2)
    reassign(world.state, "w-1", pool="b")


def made_firm() -> None:
    """One of two GPUs of quota is held by NORMAL work, and both that pool b lends by LOW work."""
    world = World({"a": 2, "b": 2}, {"n0": 4})
    world.submit("firm", "a")
    world.submit("w", "a", LOW, 2)
    world.cycle()
    reassign(world.state, "w-1", priority=NORMAL)


def shared(own: int, of_cohort: int) -> World:
    return World(
        {"a": Pool("a", quotas=gpu_quota(own), cohort="research")},
        {"n0": 16},
        (Cohort("research", None, gpu_quota(of_cohort)),),
    )


def cohorts(*pairs: tuple[str, str]) -> World:
    return World({}, {}, tuple(Cohort(name, parent) for name, parent in pairs))


def declare(world: World, *flavors: Flavor) -> None:
    pools.declare(world.state, ClusterSpec(flavors=flavors, pools=(), cohorts=()))


def keyless(world: World) -> None:
    world.submit("w", "a", spec=group("w", pods("t", 1, 1, "rack")))


def memory(asked: int) -> None:
    world = World({"a": Pool("a", {MEM: Quota(2**30, 0)})}, {"n0": Node("n0", {GPU: 4, MEMORY: 2**40})})
    ask(world, "a", 0, requests=requests_of({MEMORY: asked}))


def cores(asked: int, most: int) -> None:
    quota = {FlavorResource("default", CPU): Quota(most, 0)}
    ask(
        World({"a": Pool("a", quota)}, {"n0": Node("n0", {GPU: 4, CPU: 64_000})}),
        "a",
        0,
        requests=requests_of({CPU: asked}),
    )


REFUSALS: list[tuple[Callable[[], object], str]] = [
    # ------------------------------------------------------------ pools that accept no submissions
    (
        lambda: ask(closed(""), "lab", 1),
        "pool lab was closed to submissions by ann at 2027-01-15 08:00:00 UTC. Use another pool, or ask an "
        "administrator to run `runrig pool open lab`",
    ),
    (
        lambda: ask(closed("it moves"), "lab", 1),
        "pool lab was closed to submissions by ann at 2027-01-15 08:00:00 UTC (it moves). Use another pool, "
        "or ask an administrator to run `runrig pool open lab`",
    ),
    (
        lambda: ask(of_state(PoolState.DELETING), "team", 1),
        "pool team is DELETING and does not accept submissions. Use another pool",
    ),
    (
        lambda: ask(of_state(PoolState.ARCHIVED, a=1), "team--a", 1),
        "pool team--a is ARCHIVED and does not accept submissions. Use another pool",
    ),
    (
        lambda: ask(of_state(PoolState.ARCHIVED, a=1, b=1, c=1), "team--a", 1),
        "pool team--a is ARCHIVED and does not accept submissions. Use one of team--b, team--c",
    ),
    # ------------------------------------------------------------ workflows that ended in other ways
    (
        lambda: World({"lab": 4}).submit("w", "lab", after=[After("x-1", When.FAIL, WorkflowStatus.COMPLETED)]),
        "w can never start: x-1 is COMPLETED, and would have to fail first. Submit without `--after x-1:fail`",
    ),
    # ------------------------------------------------------------ run times
    (
        lambda: runs(limited(1), None),
        "w has no time limit, but pool lab allows at most 1h. Set `--time` (exec_timeout in a workflow file) "
        "to at most 1h, or use another pool",
    ),
    (
        lambda: runs(limited(2), 7201.0),
        "w has a time limit of 7201s, but pool lab allows at most 2h. Set `--time` (exec_timeout in a workflow "
        "file) to at most 2h, or use another pool",
    ),
    # ------------------------------------------------------------ flavors
    (
        lambda: ask(World({"a": Pool("a")}, {"n0": 4}, flavors=()), "a", 1),
        "task t has no nodes to run on, because no flavor is declared. Ask an administrator to declare one",
    ),
    (
        lambda: ask(two_flavors(h100=1), "a", 1, platform="a100"),
        "task t: pool a has no platform 'a100'. Available: h100, b200",
    ),
    (
        lambda: ask(two_flavors(h100=1, b200=1), "a", 1, allow=("privileged",)),
        "task t requests privileged, which platform h100 does not allow. Remove it, or ask an administrator "
        "to add it to the flavor's `allow`",
    ),
    # ------------------------------------------------------------ quotas
    (lambda: ask(World({"a": 1}, {"n0": 1}), "a", 2), "w needs 2 GPUs, but pool a has a quota of 1 GPU. Request less"),
    (
        lambda: ask(World({"a": 4}, {"n0": 8}), "a", 5),
        "w needs 5 GPUs, but pool a has a quota of 4 GPUs. Request less or submit with priority LOW to borrow",
    ),
    (
        lambda: ask(World({"a": Pool("a", gpu_quota(0, 0))}, {"n0": 8}), "a", 1),
        "w needs 1 GPU, but pool a has a quota of 0 GPUs. Use another pool",
    ),
    (
        lambda: moved(1),
        "w-1 needs 2 GPUs, but pool b has a quota of 1 GPU. Request less or submit with priority LOW to borrow",
    ),
    (
        lambda: ask(World({"a": 1280}, {"n0": 8}), "a", 1, count=2000, minimum=1500),
        "w needs 1,500 GPUs at the same time, but pool a has a quota of 1,280 GPUs. Request less",
    ),
    (
        lambda: memory(1_048_577 * 2**10),
        "w needs 1,048,577Ki memory, but pool a has a quota of 1Gi memory. Request less",
    ),
    (lambda: cores(3000, 1000), "w needs 3 CPU cores, but pool a has a quota of 1 CPU core. Request less"),
    (lambda: cores(2500, 2000), "w needs 2.5 CPU cores, but pool a has a quota of 2 CPU cores. Request less"),
    (
        lambda: ask(two_flavors(h100=1, b200=2), "a", 2, platform="h100"),
        "w needs 2 h100 GPUs, but pool a has a quota of 1 GPU. Request less or submit with priority LOW to borrow",
    ),
    (
        lambda: ask(shared(1, 1), "a", 3),
        "w needs 3 GPUs, but pool a has a quota of 2 GPUs (1 of its own, 1 shared by research). Request less "
        "or submit with priority LOW to borrow",
    ),
    (
        lambda: ask(shared(2, 4), "a", 7),
        "w needs 7 GPUs, but pool a has a quota of 6 GPUs (2 of its own, 4 shared by research). Request less "
        "or submit with priority LOW to borrow",
    ),
    (
        lambda: ask(team(2, a=1), "team", 2),
        "w needs 2 GPUs, but pool team has 1 unallocated (1 subpool has 1 of its 2 GPUs). Request less or "
        "submit with priority LOW to borrow",
    ),
    (
        lambda: ask(team(10, a=4, b=3, c=2), "team", 3),
        "w needs 3 GPUs, but pool team has 1 unallocated (3 subpools have 9 of its 10 GPUs). Request less, "
        "submit with priority LOW to borrow, or submit to team--a, which has 4 GPUs of quota left",
    ),
    (
        lambda: ask(World({"a": Pool("a", gpu_quota(1, 0))}, {"n0": 4}), "a", 2, LOW),
        "w needs 2 GPUs, but pool a can get at most 1 GPU, even by borrowing. Request less",
    ),
    (
        lambda: ask(World({"a": Pool("a", gpu_quota(2, 1))}, {"n0": 4}), "a", 8, LOW),
        "w needs 8 GPUs, but pool a can get at most 3 GPUs, even by borrowing. Request less",
    ),
    # ------------------------------------------------------------ empty nodes
    (
        lambda: ask(World({"a": 9}, {"n0": 1}), "a", 2),
        "w does not fit even on empty nodes: the pod of t (2 GPUs per pod) fits on none. Request less",
    ),
    (
        lambda: ask(World({"a": 9}, {"n0": 4}), "a", 3, count=2),
        "w does not fit even on empty nodes: 1 of 2 pods of t (3 GPUs per pod) fits. Request less per pod, or"
        " fewer pods",
    ),
    (
        lambda: ask(World({"a": 9}, {"n0": 4, "n1": 4}), "a", 3, count=3),
        "w does not fit even on empty nodes: 2 of 3 pods of t (3 GPUs per pod) fit. Request less per pod, or "
        "fewer pods",
    ),
    (
        lambda: ask(World({"a": 20}, {"n0": 4, "n1": 4}), "a", 5, count=2),
        "w does not fit even on empty nodes: none of 2 pods of t (5 GPUs per pod) fit. Request less per pod, "
        "or fewer pods",
    ),
    (
        lambda: ask(two_flavors(h100=9), "a", 5),
        "w does not fit even on empty nodes of flavor h100: the pod of t (5 GPUs per pod) fits on none. Request less",
    ),
    (
        lambda: World({"a": 9}, {"n0": 4}).submit("w", "a", spec=group("w", task("x", 3), task("y", 2))),
        "w does not fit even on empty nodes: each pod fits, but not all of them at the same time. Request "
        "less per pod, or fewer pods",
    ),
    (
        lambda: near("a/r0: 8 | a/r1: 8", pods("t", 1, 9, "rack")),
        "w does not fit even on empty nodes: no rack has room for its pod. Closest: a/r0 (fits no pods, 1 GPU"
        " short), a/r1 (fits no pods, 1 GPU short). Request less per pod, fewer pods, or a coarser topology "
        "key",
    ),
    (
        lambda: near("a/r0: 8 | a/r1: 8", pods("t", 2, 8, "rack")),
        "w does not fit even on empty nodes: no rack has room for both pods; the best fits 1. Closest: a/r0 "
        "(fits 1 pod, 8 GPUs short), a/r1 (fits 1 pod, 8 GPUs short). Request less per pod, fewer pods, or a "
        "coarser topology key",
    ),
    (
        lambda: near(RACKS, pods("t", 4, 8, "rack")),
        "w does not fit even on empty nodes: no rack has room for all 4 pods; the best fits 3. Closest: a/r1 "
        "(fits 3 pods, 8 GPUs short), a/r0 (fits 2 pods, 16 GPUs short). Request less per pod, fewer pods, or"
        " a coarser topology key",
    ),
    (
        lambda: near(
            "a/r0: 8 | a/r1: 8", pods("x", 1, 8, "rack/x"), pods("y", 1, 8, "rack/y"), pods("z", 1, 8, "rack/z")
        ),
        "w does not fit even on empty nodes: each of its groups fits in a rack, but not all of them at the "
        "same time. Request less per pod, fewer pods, or a coarser topology key",
    ),
    # ------------------------------------------------------------ topology requirements
    (
        lambda: keyless(World({"a": 1}, {"n0": 1})),
        "task t has a requirement for topology key 'rack', but pool a has no topology keys. Remove the "
        "requirement, or use a pool with this key",
    ),
    (
        lambda: keyless(World({"a": Pool("a", gpu_quota(1), topology_keys=(TopologyKey("zone", "z"),))}, {"n0": 1})),
        "task t: pool a has no topology key 'rack'. Available: zone",
    ),
    (
        lambda: keyless(
            World(
                {"a": Pool("a", gpu_quota(1), topology_keys=(TopologyKey("zone", "z"), TopologyKey("row", "r")))},
                {"n0": 1},
            )
        ),
        "task t: pool a has no topology key 'rack'. Available: zone, row",
    ),
    (lambda: near(RACKS, pods("t", 1, 1, "rack", "rack")), "task t names topology key 'rack' twice. Keep one of them"),
    (
        lambda: near(RACKS, pods("x", 2, 1, "rack/r*2"), pods("y", 1, 1, "rack/r")),
        "group 'r' of topology key 'rack' has slices of task x, so it cannot contain other tasks (y). Use "
        "another group for task x",
    ),
    (
        lambda: near(RACKS, pods("x", 2, 1, "rack/r*2"), pods("y", 1, 1, "rack/r"), pods("z", 1, 1, "rack/r")),
        "group 'r' of topology key 'rack' has slices of task x, so it cannot contain other tasks (y, z). Use "
        "another group for task x",
    ),
    (
        lambda: near(RACKS, pods("t", 2, 1, "zone*1", "rack*2")),
        "task t has slices of 2 pods for topology key 'rack', which does not divide its slices of 1 pod for "
        "the coarser key 'zone'. Use a sliceSize for 'rack' that divides 1",
    ),
    (
        lambda: near(RACKS, pods("t", 12, 1, "zone*4", "rack*3")),
        "task t has slices of 3 pods for topology key 'rack', which does not divide its slices of 4 pods for "
        "the coarser key 'zone'. Use a sliceSize for 'rack' that divides 4",
    ),
    (
        lambda: near(RACKS, pods("x", 1, 1, "rack/r"), pods("y", 1, 1, "rack/r?")),
        "group 'r' of topology key 'rack' is required by task x and preferred by task y. Use the same "
        "requirementType in both, or two groups",
    ),
    # ------------------------------------------------------------ edits
    (
        lambda: put(team(4, a=4), subpool("team--a", "b", 1)),
        "team--a is a subpool, and a subpool cannot have subpools. Create 'b' in team instead",
    ),
    (
        lambda: put(team(1, a=1), subpool("team", "b", 1)),
        "the subpools of team would have 2 GPUs (a 1, b 1), but team has only 1. Reduce other subpools, or "
        "raise the quota of team",
    ),
    (
        lambda: put(team(10, a=4, b=5), subpool("team", "c", 3)),
        "the subpools of team would have 12 GPUs (b 5, a 4, c 3), but team has only 10. Give c at most 1, "
        "reduce other subpools, or raise the quota of team",
    ),
    (
        lambda: put(team(2, a=2), Pool("team", gpu_quota(1)), create=False),
        "pool team cannot have a quota of 1 GPU: its subpools have 2 (a 2). Keep at least 2, or reduce the "
        "subpools first",
    ),
    (
        lambda: put(team(30, **{f"s{at}": 2 for at in range(12)}), Pool("team", gpu_quota(20)), create=False),
        "pool team cannot have a quota of 20 GPUs: its subpools have 24 (s0 2, s1 2, s10 2, s11 2, s2 2, s3 "
        "2, s4 2, s5 2, s6 2, s7 2 and 2 more). Keep at least 24, or reduce the subpools first",
    ),
    (
        lambda: pools.put_cohort(cohorts().state, Cohort("w", "w"), create=True),
        "the parents of cohort w would form a cycle (w -> w). Choose another parent",
    ),
    (
        lambda: pools.put_cohort(cohorts(("x", "y"), ("y", "z")).state, Cohort("z", "x"), create=True),
        "the parents of cohort z would form a cycle (z -> x -> y -> z). Choose another parent",
    ),
    (
        lambda: declare(World({"a": 1}, {"n0": 1}), TWO_FLAVORS[0]),
        "flavor default cannot be removed, because pool a uses it. Change pool a first",
    ),
    (
        lambda: declare(World({}, {}, (Cohort("c", None, gpu_quota(1)),)), TWO_FLAVORS[0]),
        "flavor default cannot be removed, because cohort c uses it. Change cohort c first",
    ),
    # ------------------------------------------------------------ running work
    (
        made_firm,
        "w-1 uses 2 GPUs, but pool a has 1 of its quota left, so it stays LOW. Wait until other work of the pool has ended",
    ),
    # ------------------------------------------------------------ limits of a pool
    (
        lambda: ask(crowded(gpus_per_workflow=1), "lab", 2),
        "w needs 2 GPUs in all of its task groups, but pool lab allows at most 1 GPU in one workflow. Request less, or "
        "use another pool",
    ),
    (
        lambda: ask(crowded(user_gpus=1), "lab", 2),
        "w needs 2 GPUs at the same time, but pool lab allows each user at most 1 GPU. Request less, or use another pool",
    ),
    (
        lambda: ask(crowded(user_waiting=1), "lab", 1),
        "u already has 1 workflow waiting in pool lab, which allows 1 for each user. Wait until one of them starts, or "
        "cancel one",
    ),
    (
        lambda: ask(crowded(2, user_waiting=2), "lab", 1),
        "u already has 2 workflows waiting in pool lab, which allows 2 for each user. Wait until one of them starts, or "
        "cancel one",
    ),
]


@pytest.mark.parametrize(("request_", "sentence"), REFUSALS, ids=[sentence for _, sentence in REFUSALS])
def test_a_refusal_has_the_value_the_rule_and_the_way_out(request_: Callable[[], object], sentence: str) -> None:
    with pytest.raises(Refused) as caught:
        request_()
    assert str(caught.value) == sentence


def _written() -> list[tuple[str, range]]:
    """The file and lines of each `Refused(...)` in the engine."""
    (folder,) = runrig.engine.__path__
    return [
        (str(file), range(node.lineno, (node.end_lineno or node.lineno) + 1))
        for file in sorted(Path(folder).rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Refused"
    ]


def test_every_refusal_of_the_engine_is_tested() -> None:
    seen: set[tuple[str, int]] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code is Refused.__init__.__code__ and frame.f_back is not None:
            seen.add((frame.f_back.f_code.co_filename, frame.f_back.f_lineno))

    sys.setprofile(note)
    try:
        for provoke, _ in REFUSALS:
            with pytest.raises(Refused):
                provoke()
    finally:
        sys.setprofile(None)
    unseen = [(Path(file).name, lines[0]) for file, lines in _written() if not any((file, at) in seen for at in lines)]
    assert (unseen, len(_written())) == ([], 27)
