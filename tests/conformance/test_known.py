"""Known outcomes of gangs with requirements, subgroups and preemption, through cycles of the engine (laws T1, T2, T4, A1, R4).

The facts are those of another scheduler, said in our words: a queue is a pool (what lies above it is left out), what may be
preempted is LOW, subgroups are the tasks of a group and the groups that their requirements name, a node selector is a platform, and
a place that is held is a nomination, which only HIGH and NORMAL get.  Two of them differ by law: of tasks that may shrink each
is kept together in full (T2, A1), where there the first pods of all go first; and what can never start is refused (P3), where
there it waits, so that these gangs enter past the gate here.

Left out, as our dialect cannot say it or our laws decide otherwise: running pods that are moved to make room; gangs that give up
or gain single pods while they run; several gangs that shrink in turns (A1: each is as large as it can be, in its order); groups of which
only some subgroups have to start; gangs that are stopped because one of their pods is gone.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from runrig.domain.errors import Refused
from runrig.domain.gangs import GangState, Priority
from runrig.domain.nodes import Flavor, Node
from runrig.domain.plan import Stop
from runrig.domain.pools import Pool, Quota
from runrig.domain.quantities import GPU, FlavorResource, requests_of
from runrig.domain.reasons import Code
from runrig.domain.workflows import Status, TaskSpec, WorkflowSpec
from runrig.engine import cycle
from tests.conformance.podgroups import DATA
from tests.worlds.engine import LOW, World
from tests.worlds.placement import enter, entry_of, group, keys, linger, near, per_domain, pods_on, reasons, stand

Case = Mapping[str, Any]
CASES: list[Case] = yaml.load((DATA / "known.yaml").read_text(), yaml.CSafeLoader)
PER_TASK = ("count", "least", "platform", "near", "at")
FIXED_POINT = 5


def under_ids(*, only: str = "id") -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in CASES if only in case]


# ---------------------------------------------------------------- from a case to a world


def world_of(case: Case) -> World:
    nodes = {name: _node(name, each, case["levels"]) for name, each in case["nodes"].items()}
    flavors = tuple(Flavor(name) for name in sorted({node.flavor for node in nodes.values()}))
    pools = {
        name: Pool(
            name,
            {FlavorResource(flavor.name, GPU): Quota(quota) for flavor in flavors},
            topology_keys=keys(*case["levels"]),
        )
        for name, quota in case["pools"].items()
    }
    return World(pools, nodes, flavors=flavors)


def _node(name: str, each: Mapping[str, Any], levels: list[str]) -> Node:
    amounts = {resource: amount for resource, amount in each.items() if resource not in ("in", "flavor")}
    values = each["in"].split("/") if "in" in each else []
    return Node(name, amounts, each.get("flavor", "default"), dict(zip(levels, values, strict=True)))


def spec_of(name: str, gang: Mapping[str, Any]) -> WorkflowSpec:
    return group(name, *(_task(task, said) for task, said in gang["tasks"].items()))


def _task(name: str, said: Mapping[str, Any]) -> TaskSpec:
    amounts = {resource: amount for resource, amount in said.items() if resource not in PER_TASK}
    return TaskSpec(
        name,
        "i",
        ("c",),
        requests=requests_of(amounts),
        platform=said.get("platform"),
        count=said.get("count", 1),
        min_count=said.get("least"),
        topology=near(*said.get("near", "").split()),
    )


def run_and_queue(world: World, case: Case, *, waits: bool = True) -> None:
    for name, gang in case.get("runs", {}).items():
        enter(world, spec_of(name, gang), gang["pool"], LOW)
        where = {task: said["at"].split() for task, said in gang["tasks"].items()}
        stand(world, name, {task: {node: nodes.count(node) for node in nodes} for task, nodes in where.items()})
        cycle.run(world.state, linger(world), world.now)
        if gang.get("ending"):
            world.do(Stop(f"{name}-1/g", Status.FAILED_CANCELED))
    for name, gang in case["waits"].items() if waits else ():
        enter(world, spec_of(name, gang), gang["pool"], Priority[gang.get("priority", "LOW")])


# ---------------------------------------------------------------- the result


def became(world: World, case: Case) -> dict[str, str]:
    return {name: _word(world, name, ran=name in case.get("runs", {})) for name in case["expect"]}


def _word(world: World, name: str, *, ran: bool) -> str:
    if f"{name}-1/g" not in world.state.ledger.entries:
        return "gone"
    match entry_of(world, name).state:
        case GangState.ADMITTED:
            return "keeps" if ran else "started"
        case GangState.PENDING:
            return "stops" if ran else "waits"
        case GangState.NOMINATED:
            return "nominated"
        case GangState.STOPPING:
            return "stops"


def places(world: World, case: Case) -> Iterator[tuple[str, object, object]]:
    """(what, where it is, where it should be)."""
    for name, pod_sets in case.get("nodes_of", {}).items():
        yield name, pods_on(world, name), pod_sets
    for name, levels in case.get("parts_of", {}).items():
        for level, parts in levels.items():
            yield f"{name} by {level}", sorted(per_domain(world, name, level).values()), sorted(parts)
    for name, levels in case.get("domain_of", {}).items():
        for level, domain in levels.items():
            yield f"{level} of {name}", list(per_domain(world, name, level)), [domain]


@pytest.mark.parametrize("case", under_ids())
def test_known_case_has_its_known_result(case: Case) -> None:
    """T1, T2, T4."""
    world = world_of(case)
    run_and_queue(world, case)
    world.now += 1
    cycle.run(world.state, linger(world), world.now)
    assert became(world, case) == case["expect"]
    if case.get("settles"):
        world.cycle()
        assert [world.cycle() for _ in range(FIXED_POINT)] == [[]] * FIXED_POINT
        assert became(world, case) == case.get("after", case["expect"])
    wrong = [(what, found, wanted) for what, found, wanted in places(world, case) if found != wanted]
    assert wrong == []


@pytest.mark.parametrize("case", under_ids(only="why"))
def test_gang_that_fits_in_no_domain_names_the_best_domain(case: Case) -> None:
    """T1."""
    world = world_of(case)
    run_and_queue(world, case)
    world.cycle()
    for name, said in case["why"].items():
        (reason,) = reasons(world, name)
        assert (reason.code, reason.law, [reason.where, reason.have, reason.need]) == (Code.NO_DOMAIN_FITS, "T1", said)


@pytest.mark.parametrize("case", under_ids())
def test_gate_rejects_exactly_what_can_never_start(case: Case) -> None:
    """P3."""
    world = world_of(case)
    run_and_queue(world, case, waits=False)
    refused = []
    for name, gang in case["waits"].items():
        try:
            world.submit(name, gang["pool"], Priority[gang.get("priority", "LOW")], spec=spec_of(name, gang))
        except Refused as error:
            refused.append((name, error.details["law"]))
    assert refused == [(name, "P3") for name in case.get("refused", ())]


def test_every_case_has_its_own_id() -> None:
    ids = [case["id"] for case in CASES]
    assert len(set(ids)) == len(ids)
