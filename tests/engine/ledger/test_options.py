"""The flavor that a gang uses in a pool with several: the next flavor is preferred to preemption (rules T1, R3, A1)."""

from collections.abc import Mapping
from dataclasses import replace

from runrig.domain.gangs import Assignment, NodeShare
from runrig.domain.nodes import Flavor, Node
from runrig.domain.observed import Observation
from runrig.domain.plan import Nominate, Preempt, PutNode, PutPool
from runrig.domain.pools import Pool, Quota, Quotas
from runrig.domain.quantities import CPU, GPU, FlavorResource, requests_of
from runrig.domain.workflows import GroupSpec, TaskSpec, WorkflowSpec
from runrig.engine import cycle
from tests.worlds.engine import HIGH, LOW, NORMAL, World, task, workflow

FLAVORS = (Flavor("a100", {"gpu": "a100"}, position=0), Flavor("h100", {"gpu": "h100"}, position=1))


def quota(a100: int, h100: int) -> Quotas:
    return {FlavorResource("a100", GPU): Quota(a100), FlavorResource("h100", GPU): Quota(h100)}


def node(name: str, flavor: str, gpus: int, **resources: int) -> Node:
    return Node(name, {GPU: gpus} | resources, flavor, {"gpu": flavor})


def kinds(pools: Mapping[str, Quotas], *nodes: Node) -> World:
    """Pools that prefer a100 to h100."""
    declared = {name: Pool(name, quotas) for name, quotas in pools.items()}
    return World(declared, {each.name: each for each in nodes}, flavors=FLAVORS)


def taken(world: World, name: str) -> dict[str, tuple[str, int]]:
    """Pod set → (flavor, pods)."""
    found = next(entry for gang, entry in world.state.ledger.entries.items() if gang.startswith(f"{name}-1/"))
    return {each.pod_set: (each.flavor, each.count) for each in found.placement}


def gang(name: str, *tasks: TaskSpec) -> WorkflowSpec:
    """A gang of all *tasks* in one group; the first is its lead."""
    mates = (replace(each, lead=each is tasks[0]) for each in tasks)
    return WorkflowSpec(name, (GroupSpec("g", tuple(mates)),))


# ---------------------------------------------------------------- one pod set


def test_a_flavor_with_quota_but_too_small_nodes_is_skipped_in_the_same_cycle() -> None:
    world = kinds({"p": quota(4, 4)}, node("a0", "a100", 2), node("a1", "a100", 2), node("h0", "h100", 4))
    world.submit("w", "p", NORMAL, 3)
    assert world.cycle() == ["admit w"]
    assert taken(world, "w") == {"t": ("h100", 1)}


def test_a_flavor_whose_nodes_lack_another_resource_is_skipped() -> None:
    world = kinds({"p": quota(4, 4)}, node("a0", "a100", 4, cpu=1000), node("h0", "h100", 4, cpu=8000))
    spec = workflow("w", task("t", 1, requests=requests_of({GPU: 1, CPU: 2000})))
    world.submit("w", "p", NORMAL, spec=spec)
    assert world.cycle() == ["admit w"]
    assert taken(world, "w") == {"t": ("h100", 1)}


def test_a_flavor_whose_nodes_accept_no_new_pods_is_skipped() -> None:
    world = kinds({"p": quota(4, 4)}, node("a0", "a100", 4), node("h0", "h100", 4))
    world.do(PutNode(Node("a0", {GPU: 4}, "a100", {"gpu": "a100"}, ready=False)))
    world.submit("w", "p", LOW, 1)
    assert world.cycle() == ["admit w"]
    assert taken(world, "w") == {"t": ("h100", 1)}


def test_nothing_is_preempted_in_one_flavor_while_another_is_free() -> None:
    """The first flavor could be reclaimed from a borrower; the second is idle."""
    world = kinds({"p": quota(2, 2), "q": quota(0, 0)}, node("a0", "a100", 2), node("h0", "h100", 2))
    world.submit("low", "q", LOW, 2)
    assert (world.cycle(), taken(world, "low")) == (["admit low"], {"t": ("a100", 1)})
    world.submit("firm", "p", HIGH, 2)
    assert (world.cycle(), taken(world, "firm")) == (["admit firm"], {"t": ("h100", 1)})


def test_if_no_flavor_is_free_the_first_one_where_preemption_helps_is_used() -> None:
    world = kinds({"p": quota(2, 2), "q": quota(0, 0)}, node("a0", "a100", 2), node("h0", "h100", 2))
    for name in ("low1", "low2"):
        world.submit(name, "q", LOW, 2)
    assert world.cycle() == ["admit low1", "admit low2"]
    world.submit("firm", "p", NORMAL, 2)
    assert world.cycle() == ["nominate firm", "preempt low1 for firm (RECLAIM)"]


def test_nothing_is_preempted_in_one_flavor_while_a_gang_stops_in_another() -> None:
    """R3: gangs that are already stopping come first, over all flavors."""
    world = kinds({"p": quota(2, 2), "q": quota(0, 0)}, node("a0", "a100", 2), node("h0", "h100", 2))
    for name in ("low1", "low2"):
        world.submit(name, "q", LOW, 2)
    world.cycle()
    world.cycle()
    world.cancel("low2-1")
    world.submit("firm", "p", NORMAL, 2)
    still_there = cycle.run(world.state, Observation(world.facts), 50)
    assert [each for each in still_there.actions if isinstance(each, Nominate | Preempt)] == [
        Nominate("firm-1/t-group", (Assignment("t", "h100", 1, (NodeShare("h0", 1),)),), ("low2-1/t-group",))
    ]
    assert world.cycle() == ["admit firm"]


def test_the_platform_of_a_task_allows_one_flavor_even_if_another_is_free() -> None:
    world = kinds({"p": quota(2, 2)}, node("a0", "a100", 2), node("h0", "h100", 2))
    world.submit("full", "p", NORMAL, 2)
    world.cycle()
    world.submit("w", "p", NORMAL, spec=workflow("w", task("t", 1, platform="a100")))
    assert world.cycle() == []


def test_the_full_gang_in_the_last_flavor_is_preferred_to_a_smaller_one_in_the_first() -> None:
    """A1."""
    world = kinds({"p": quota(2, 4)}, node("a0", "a100", 4), node("h0", "h100", 4))
    world.submit("w", "p", NORMAL, spec=workflow("w", task("t", 1, count=4, minimum=1)))
    assert world.cycle() == ["admit w"]
    assert taken(world, "w") == {"t": ("h100", 4)}


def test_a_smaller_gang_uses_the_first_flavor_with_room_for_that_size() -> None:
    """A1: 3 pods would fit in the second flavor, 2 in both."""
    world = kinds({"p": quota(2, 3)}, node("a0", "a100", 2), node("h0", "h100", 3))
    world.submit("w", "p", NORMAL, spec=workflow("w", task("t", 1, count=4, minimum=1)))
    world.submit("v", "p", NORMAL, spec=workflow("v", task("t", 1, count=4, minimum=1)))
    assert world.cycle() == ["admit w", "admit v"]
    assert (taken(world, "w"), taken(world, "v")) == ({"t": ("h100", 3)}, {"t": ("a100", 2)})


# ---------------------------------------------------------------- several pod sets


def test_different_pod_sets_may_use_different_flavors() -> None:
    world = kinds({"p": quota(4, 4)}, node("a0", "a100", 1), node("a1", "a100", 1), node("h0", "h100", 4))
    world.submit("w", "p", NORMAL, spec=gang("w", task("small", 1, count=2), task("wide", 3)))
    assert world.cycle() == ["admit w"]
    assert taken(world, "w") == {"small": ("a100", 2), "wide": ("h100", 1)}


def test_equal_pod_sets_use_the_same_flavor() -> None:
    world = kinds({"p": quota(4, 4)}, node("a0", "a100", 3), node("h0", "h100", 4))
    world.submit("w", "p", NORMAL, spec=gang("w", task("x", 1, count=2), task("y", 1, count=2)))
    assert world.cycle() == ["admit w"]
    assert taken(world, "w") == {"x": ("h100", 2), "y": ("h100", 2)}


def test_nothing_is_preempted_while_another_mix_of_flavors_is_free() -> None:
    world = kinds({"p": quota(3, 5), "q": quota(0, 0)}, node("a0", "a100", 3), node("h0", "h100", 5))
    world.submit("low", "q", LOW, 2)
    world.cycle()
    world.submit("w", "p", NORMAL, spec=gang("w", task("small", 1), task("wide", 3)))
    assert world.cycle() == ["admit w"]
    assert taken(world, "w") == {"small": ("a100", 1), "wide": ("h100", 1)}


def test_each_flavor_needs_quota_only_for_its_own_pod_sets() -> None:
    world = kinds({"p": quota(2, 3)}, node("a0", "a100", 8), node("h0", "h100", 8))
    world.submit("w", "p", NORMAL, spec=gang("w", task("small", 1, count=2), task("wide", 3)))
    world.submit("v", "p", NORMAL, spec=gang("v", task("small", 1), task("wide", 3)))
    assert world.cycle() == ["admit w"]
    world.do(PutPool(Pool("p", quota(3, 6)), world.state.pools["p"]))
    assert world.cycle() == ["admit v"]
    assert taken(world, "v") == {"small": ("a100", 1), "wide": ("h100", 1)}
