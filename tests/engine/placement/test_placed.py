"""Gangs with requirements in complete states: several at once, lost nodes, preemption, fewer pods, slices (rules T1-T5,
A1).
"""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from runrig.domain.nodes import Node
from runrig.domain.observed import Observation
from runrig.domain.plan import Action, DropNode, Preempt, PutNode
from runrig.domain.pools import TopologyKey
from runrig.domain.quantities import GPU
from runrig.domain.reasons import Code, DomainRoom, Reason
from runrig.domain.value import Amounts
from runrig.domain.workflows import TaskSpec
from runrig.engine import cycle
from runrig.engine.state.state import State
from tests.worlds.engine import HIGH, LOW, NORMAL, World
from tests.worlds.placement import (
    PLENTY,
    TWO_RACKS,
    LoggedWorld,
    change,
    city,
    enter,
    fleet,
    full_of_low,
    group,
    hold,
    keys,
    overfull,
    per_domain,
    pods,
    pods_on,
    reasons,
    submit,
    team,
)

HOSTNAME = "kubernetes.io/hostname"


def no_domain(world: World, name: str) -> tuple[str, int, int]:
    """For a gang that fits no domain: the level, the pods that the best domain holds, and the pods that it needs."""
    (reason,) = reasons(world, name)
    assert (reason.code, reason.law) == (Code.NO_DOMAIN_FITS, "T1")
    return reason.where, reason.have, reason.need


# ---------------------------------------------------------------- several gangs that want the same rack


def test_the_first_of_two_gangs_in_one_cycle_gets_the_last_rack_and_the_other_waits() -> None:
    """T1."""
    world = city("a/r0: 8 8 | a/r1: 8 | b/r0: 8", team=PLENTY)
    submit(world, "one", pods("t", 2, 8, "rack"))
    submit(world, "two", pods("t", 2, 8, "rack"))
    assert world.cycle() == ["admit one"]
    assert pods_on(world, "one") == {"t": {"n0": 1, "n1": 1}}
    assert no_domain(world, "two") == ("rack", 1, 2)
    assert world.cycle() == []
    world.finish("one-1")
    assert world.cycle() == ["admit two"]
    assert pods_on(world, "two") == {"t": {"n0": 1, "n1": 1}}


def test_the_second_of_two_different_gangs_in_one_cycle_gets_what_the_first_leaves() -> None:
    world = city("a/r0: 8 8 | a/r1: 8 4", team=PLENTY)
    submit(world, "wide", pods("t", 3, 4, "rack"))
    submit(world, "large", pods("t", 2, 8, "rack"))
    assert world.cycle() == ["admit wide", "admit large"]
    assert pods_on(world, "wide") == {"t": {"n2": 2, "n3": 1}}
    assert pods_on(world, "large") == {"t": {"n0": 1, "n1": 1}}


def test_racks_with_the_same_name_in_two_zones_are_two_racks() -> None:
    """T3."""
    world = city("a/r0: 8 | b/r0: 8", team=PLENTY)
    enter(world, group("w", pods("t", 2, 8, "rack")), "team", NORMAL)
    assert world.cycle() == []
    assert no_domain(world, "w") == ("rack", 1, 2)


def test_a_node_without_a_label_accepts_only_gangs_without_requirements() -> None:
    """T1."""
    world = city("a/r0: 8", team=PLENTY)
    world.do(PutNode(Node("bare", {GPU: 16}, labels={"rack": "r0"})))
    enter(world, group("near", pods("t", 2, 8, "zone")), "team", NORMAL)
    enter(world, group("wish", pods("t", 2, 8, "rack?")), "team", NORMAL)
    submit(world, "plain", pods("t", 2, 8))
    assert world.cycle() == ["admit plain"]
    assert pods_on(world, "plain") == {"t": {"bare": 2}}
    assert no_domain(world, "near") == ("zone", 1, 2)


def test_a_node_without_a_host_name_label_is_a_host_by_its_name() -> None:
    """T1."""
    hosts = replace(team("team", PLENTY, ("rack",)), topology_keys=(*keys("rack"), TopologyKey("host", HOSTNAME)))
    world = LoggedWorld({"team": hosts}, fleet("r0: 8 4 | r1: 4 6", ("rack",)))
    change(world, "n2", labels={"rack": "r1", HOSTNAME: "twin"})
    change(world, "n3", labels={"rack": "r1", HOSTNAME: "twin"})
    submit(world, "one", pods("t", 2, 4, "host"))
    submit(world, "two", pods("t", 2, 4, "host"))
    assert world.cycle() == ["admit one", "admit two"]
    assert sorted(map(str, (pods_on(world, "one"), pods_on(world, "two")))) == [
        "{'t': {'n0': 2}}",
        "{'t': {'n2': 1, 'n3': 1}}",
    ]


def test_pools_with_different_keys_see_each_others_usage() -> None:
    """T6, T1: one has only zones, one also racks, and one has no keys."""
    zones, none = team("zones", PLENTY, ("zone",)), team("none", PLENTY, ())
    world = city("a/r0: 8 8 | a/r1: 8 8 | b/r0: 8 8", team=PLENTY, zones=zones, none=none)
    submit(world, "three", pods("t", 3, 8, "zone"), pool="zones")
    submit(world, "pair", pods("t", 2, 8, "rack"))
    submit(world, "single", pods("t", 1, 8), pool="none")
    submit(world, "late", pods("t", 2, 8, "zone"))
    assert world.cycle() == ["admit three", "admit pair", "admit single"]
    assert per_domain(world, "three", "zone") == {"a": "t t t"}
    assert per_domain(world, "pair", "rack") == {"b/r0": "t t"}
    assert overfull(world) == {}


def test_pods_without_counted_requests_fit_everywhere() -> None:
    """Any number fits on each node, and so in a rack."""
    world = city("a/r0: 8 8 8 8 | a/r1: 8 8 8", team=PLENTY)
    submit(world, "cores", pods("t", 3, 0, "rack", cpu=1000))
    submit(world, "nothing", pods("t", 40, 0, "rack*8"))
    submit(world, "mixed", pods("gpu", 3, 8, "rack"), pods("cpu", 5, 0, "rack", cpu=1000))
    assert world.cycle() == ["admit cores", "admit nothing", "admit mixed"]
    assert per_domain(world, "mixed", "rack") == {"a/r1": "cpu cpu cpu cpu cpu gpu gpu gpu"}


# ---------------------------------------------------------------- the reason while it waits


def test_the_best_racks_are_named_with_what_they_lack() -> None:
    """T1: three pods of four GPUs; the second rack has ten of twelve, the first twelve in pieces that are too small."""
    world = city("a/r0: 3 3 3 3 | a/r1: 8 2 | a/r2: 4 | a/r3: 1", team=PLENTY)
    enter(world, group("w", pods("t", 3, 4, "rack")), "team", NORMAL)
    world.cycle()
    best = (
        DomainRoom(("a", "r1"), 2, Amounts({GPU: 2})),
        DomainRoom(("a", "r2"), 1, Amounts({GPU: 8})),
        DomainRoom(("a", "r0"), 0),
    )
    assert reasons(world, "w") == (Reason(Code.NO_DOMAIN_FITS, "T1", "rack", have=2, need=3, domains=best),)
    assert [str(each) for each in reasons(world, "w")] == [
        "no rack has room for all 3 pods; the best fits 2. "
        "Closest: a/r1 (fits 2 pods, 2 GPUs short), a/r2 (fits 1 pod, 8 GPUs short), "
        "a/r0 (fits no pods, enough in total, but spread over too many nodes)"
    ]


def test_different_pods_of_one_group_show_what_their_rack_lacks() -> None:
    """T1: 24 GPUs are needed in one rack; the larger one has 20, where each kind of pod would fit alone."""
    world = city("a/r0: 8 | a/r1: 8 8 4", team=PLENTY)
    enter(world, group("w", pods("x", 2, 8, "rack"), pods("y", 2, 4, "rack")), "team", NORMAL)
    world.cycle()
    (reason,) = reasons(world, "w")
    assert (reason.code, reason.where, reason.need) == (Code.NO_DOMAIN_FITS, "rack", 4)
    assert (reason.domains[0].domain, reason.domains[0].missing) == (("a", "r1"), Amounts({GPU: 4}))


def test_groups_that_fit_only_one_by_one_in_a_zone_name_the_zone() -> None:
    """T1: 32 GPUs in one zone, and the better one has 28."""
    world = city("a/r0: 8 | a/r1: 8 8 4 | b/r0: 8 8", team=PLENTY)
    tasks = [pods("x", 1, 8, "zone", "rack/x"), pods("y", 4, 4, "zone", "rack/y"), pods("z", 1, 8, "zone", "rack/z")]
    enter(world, group("w", *tasks), "team", NORMAL)
    world.cycle()
    (reason,) = reasons(world, "w")
    assert (reason.code, reason.where, reason.need) == (Code.NO_DOMAIN_FITS, "zone", 6)
    assert (reason.domains[0].domain, reason.domains[0].missing) == (("a",), Amounts({GPU: 4}))


def groups_alone(tasks: Sequence[TaskSpec]) -> dict[tuple[str, str], list[TaskSpec]]:
    """(key, path of groups) → the tasks of each group of a gang, coarse to fine, without what is around it."""
    found: dict[tuple[str, str], list[TaskSpec]] = {}
    for task in tasks:
        path = ""
        for at, asked in enumerate(task.topology):
            path += f"/{asked.group}"
            found.setdefault((asked.key, path), []).append(replace(task, topology=task.topology[at:]))
    return found


def alone_in_a_city(tasks: Sequence[TaskSpec]) -> World:
    world = city("a/r0: 4 4 | a/r1: 6 | b/r0: 7 3", team=PLENTY)
    enter(world, group("w", *tasks), "team", NORMAL)
    return world


@pytest.mark.parametrize("seeds", [range(60), range(60, 120)], ids=str)
def test_the_reason_holds_for_each_group_alone(seeds: range) -> None:
    """T1: either a group of the named level has no domain, and all groups inside it do; or each group has one."""
    codes = []
    for seed in seeds:
        chance = random.Random(seed)
        zone = chance.choice(((), ("zone",)))
        tasks = [
            pods(f"t{at}", chance.randint(1, 2), chance.choice((1, 2, 3, 4)), *zone, f"rack/{chance.choice('wxyz')}")
            for at in range(chance.randint(3, 5))
        ]
        world = alone_in_a_city(tasks)
        if world.cycle():
            continue
        (reason,) = reasons(world, "w")
        homeless = {key for (key, _), alone in groups_alone(tasks).items() if not alone_in_a_city(alone).cycle()}
        codes.append(reason.code)
        if reason.code is Code.NO_DOMAIN_FITS:
            assert reason.where in homeless, seed
            assert (reason.where == "zone") <= ("rack" not in homeless), seed
        else:
            assert (reason.code, homeless) == (Code.NOT_ALL_GROUPS_FIT, set()), seed
    assert len(codes) > len(seeds) // 4


def test_groups_that_each_fit_the_same_rack_are_reported_as_not_fitting_together() -> None:
    """T1."""
    world = city("a/r0: 4 | a/r1: 3 | b/r0: 3", team=PLENTY)
    enter(world, group("w", pods("x", 1, 4, "rack/x"), pods("y", 4, 1, "rack/y")), "team", NORMAL)
    world.cycle()
    assert reasons(world, "w") == (Reason(Code.NOT_ALL_GROUPS_FIT, "T1", where="rack", need=5),)


# ---------------------------------------------------------------- nodes that leave, join and shrink


@pytest.mark.parametrize("loss", ["gone", "cordoned", "smaller", "in another rack"])
def test_a_nominated_gang_whose_rack_lost_a_node_is_placed_in_another(loss: str) -> None:
    """R4, T1: the node is lost between the plan and the next cycle."""
    world = full_of_low()
    submit(world, "hi", pods("t", 2, 8, "rack"), priority=HIGH)
    assert sorted(world.cycle()) == ["nominate hi", "preempt low2 for hi (PRIORITY)", "preempt low3 for hi (PRIORITY)"]
    assert pods_on(world, "hi") == {"t": {"n2": 1, "n3": 1}}
    if loss == "gone":
        world.do(DropNode("n3"))
    elif loss == "cordoned":
        change(world, "n3", ready=False)
    elif loss == "smaller":
        change(world, "n3", resources={GPU: 4})
    else:
        change(world, "n3", labels={"zone": "a", "rack": "r2"})
    decided = world.cycle()
    assert decided[0] == "withdraw hi"
    assert sorted(decided[1:]) == [
        "admit low2",
        *(["admit low3"] if loss == "in another rack" else []),
        "nominate hi",
        "preempt low0 for hi (PRIORITY)",
        "preempt low1 for hi (PRIORITY)",
    ]
    assert world.cycle() == ["admit hi"]
    assert pods_on(world, "hi") == {"t": {"n0": 1, "n1": 1}}
    assert overfull(world) == {}


def test_an_overfull_node_accepts_no_more_and_does_not_affect_its_neighbours() -> None:
    """T1: its free amount is negative, and the other node is completely free."""
    world = city("a/r0: 8 8 | a/r1: 4", team=PLENTY)
    hold(world, "firm", priority=NORMAL, n0=8)
    change(world, "n0", resources={GPU: 4})
    before = overfull(world)
    submit(world, "more", pods("t", 3, 4, "rack"))
    submit(world, "w", pods("t", 2, 4, "rack"))
    assert world.cycle() == ["admit w"]
    assert pods_on(world, "w") == {"t": {"n1": 2}}
    assert no_domain(world, "more") == ("rack", 1, 3)
    assert overfull(world) == before == {"n0": {GPU: 4}}


# ---------------------------------------------------------------- fewer pods


def test_a_gang_that_can_shrink_uses_exactly_the_best_rack() -> None:
    """A1, T5: racks of 32, 24 and 40 GPUs; five of the first are in use."""
    world = city("a/r0: 8 8 8 8 | a/r1: 8 8 8 | b/r0: 8 8 8 8 8", team=PLENTY)
    hold(world, "firm", priority=NORMAL, n0=5)
    submit(world, "w", pods("t", 512, 1, "rack", least=1))
    assert world.cycle() == ["admit w"]
    assert per_domain(world, "w", "rack") == {"b/r0": " ".join(["t"] * 40)}
    submit(world, "v", pods("t", 512, 1, "rack", least=1))
    assert world.cycle() == ["admit v"]
    assert per_domain(world, "v", "rack") == {"a/r0": " ".join(["t"] * 27)}


def test_of_a_lead_and_its_workers_the_workers_shrink() -> None:
    """A1."""
    world = city("a/r0: 8 8 8 | a/r1: 8 8 8 8 8", team=PLENTY)
    submit(world, "w", pods("lead", 1, 2, "rack"), pods("worker", 64, 1, "rack", least=2))
    assert world.cycle() == ["admit w"]
    assert per_domain(world, "w", "rack") == {"a/r1": " ".join(["lead"] + ["worker"] * 38)}


def test_the_size_that_fits_the_best_rack_after_preemption_comes_before_what_is_free() -> None:
    """A1, T4."""
    world = city("a/r0: 8 8 8 8 | b/r0: 8 8 8 8 8", team=PLENTY)
    hold(world, "low", n4=8)
    submit(world, "w", pods("t", 64, 1, "rack", least=1), priority=HIGH)
    assert world.cycle() == ["nominate w", "preempt low for w (PRIORITY)"]
    assert per_domain(world, "w", "rack") == {"b/r0": " ".join(["t"] * 40)}


def test_a_gang_whose_minimum_fits_no_rack_waits() -> None:
    world = city("a/r0: 8 8 | a/r1: 8 4", team=PLENTY)
    enter(world, group("w", pods("t", 20, 1, "rack", least=17)), "team", NORMAL)
    assert world.cycle() == []
    assert no_domain(world, "w") == ("rack", 16, 17)


# ---------------------------------------------------------------- slices


# ---------------------------------------------------------------- large free racks stay whole


def test_a_gang_without_requirements_leaves_free_racks_for_one_that_needs_them() -> None:
    """T2: of three free nodes, the one in the rack already in use is chosen, so the large gang fits too."""
    world = city(TWO_RACKS, team=PLENTY)
    hold(world, "firm", priority=NORMAL, n3=8)
    submit(world, "small", pods("t", 1, 8))
    submit(world, "large", pods("t", 2, 8, "rack"))
    assert world.cycle() == ["admit small", "admit large"]
    assert (pods_on(world, "small"), pods_on(world, "large")) == ({"t": {"n2": 1}}, {"t": {"n0": 1, "n1": 1}})


def test_gangs_without_requirements_fill_one_rack_after_the_other() -> None:
    """T2, T5: racks of 2, 3 and 4 nodes; the tightest first, then the next."""
    world = city("a/r0: 8 8 8 8 | a/r1: 8 8 | a/r2: 8 8 8", team=PLENTY)
    for at in range(5):
        submit(world, f"w{at}", pods("t", 1, 8))
    submit(world, "large", pods("t", 4, 8, "rack"))
    assert world.cycle() == [*(f"admit w{at}" for at in range(5)), "admit large"]
    assert [*(next(iter(per_domain(world, f"w{at}", "rack"))) for at in range(5))] == ["a/r1"] * 2 + ["a/r2"] * 3


# ---------------------------------------------------------------- the same result each time


def busy(*, backwards: bool = False) -> LoggedWorld:
    """Some gangs run, some must stop, one waits forever. *backwards*: the same nodes, declared in reverse order."""
    world = city("a/r0: 8 8 8 | a/r1: 8 8 | b/r0: 8 8 8 8", team=PLENTY, guest=0)
    if backwards:
        nodes = [world.state.nodes[name] for name in sorted(world.state.nodes, reverse=True)]
        world.do(*(DropNode(node.name) for node in nodes))
        world.do(*(PutNode(node) for node in nodes))
    hold(world, "low0", n0=4, n1=4)
    hold(world, "low1", n3=8, n4=2)
    hold(world, "low2", n5=8)
    hold(world, "low3", n7=3)
    submit(world, "hi", pods("x", 2, 8, "zone", "rack/x"), pods("y", 1, 8, "zone", "rack/y"), priority=HIGH)
    submit(world, "sliced", pods("t", 6, 2, "rack*2", least=2))
    submit(world, "wish", pods("t", 2, 4, "rack?"), priority=LOW)
    submit(world, "plain", pods("t", 3, 2), priority=LOW)
    enter(world, group("never", pods("t", 9, 8, "rack")), "team", NORMAL)
    return world


def test_the_same_state_gives_the_same_plan_byte_for_byte() -> None:
    """Also if its nodes were declared in another order."""
    one, again, backwards = busy(), busy(), busy(backwards=True)
    for _ in range(3):
        plans = [repr(world.plan()) for world in (one, again, backwards)]
        assert plans == plans[:1] * 3
    assert "hi-1" in one.running()


def test_a_loaded_or_replayed_state_decides_like_the_original() -> None:
    """Only rows and log are used."""
    world = busy()
    decided: list[Action] = []
    for _ in range(4):
        loaded, replayed = State.load(world.state.rows()), world.replayed()
        assert loaded.rows() == replayed.rows() == world.state.rows()
        seen: Observation = world.observe()
        plan = world.plan()
        assert cycle.run(loaded, seen, world.now) == plan
        assert cycle.run(replayed, seen, world.now) == plan
        decided += plan.actions
    assert any(isinstance(each, Preempt) for each in decided)
