"""Preemption for a gang that requires domains: the cheapest domain, the fewest gangs, and nothing else (rules T4,
R1-R4).
"""

import random
from collections.abc import Collection, Iterator, Mapping
from itertools import combinations

import pytest

from runrig.domain.gangs import GangState
from runrig.domain.plan import Nominate, Preempt, Stop
from runrig.domain.pools import Cohort
from runrig.domain.quantities import CPU, GPU, MEMORY
from runrig.domain.workflows import Status, TaskSpec
from runrig.engine import cycle
from runrig.engine.ledger.fit import find_place
from tests.worlds.engine import HIGH, LOW, NORMAL, gpu_quota
from tests.worlds.placement import (
    PLENTY,
    TWO_RACKS,
    LoggedWorld,
    change,
    city,
    domain_of,
    enter,
    entry_of,
    full_of_low,
    group,
    hold,
    hold_on,
    linger,
    overfull,
    pods,
    pods_on,
    stand,
    submit,
    team,
)

# ---------------------------------------------------------------- preemption for a required rack


def test_the_rack_with_the_fewest_targets_is_chosen() -> None:
    """T4: one gang in the second rack; three in the first, which started later and would each stop first."""
    world = city(TWO_RACKS, team=PLENTY)
    hold(world, "wide", n2=8, n3=8)
    hold(world, "l0", n0=4)
    hold(world, "l1", n0=4)
    hold(world, "l2", n1=8)
    submit(world, "hi", pods("t", 2, 8, "rack"), priority=HIGH)
    assert world.cycle() == ["nominate hi", "preempt wide for hi (PRIORITY)"]
    assert pods_on(world, "hi") == {"t": {"n2": 1, "n3": 1}}
    assert world.cycle() == ["admit hi"]


@pytest.mark.parametrize(("first", "second"), [("n0", "n1"), ("n1", "n0")])
def test_the_one_that_started_last_stops_among_equals(first: str, second: str) -> None:
    """T4, R3."""
    world = city("a/r0: 8 | a/r1: 8", team=PLENTY)
    hold_on(world, "early", {first: 8})
    hold_on(world, "late", {second: 8})
    submit(world, "hi", pods("t", 1, 8, "rack"), priority=HIGH)
    assert world.cycle() == ["nominate hi", "preempt late for hi (PRIORITY)"]
    assert pods_on(world, "hi") == {"t": {second: 1}}


@pytest.mark.parametrize("resource", [CPU, MEMORY])
def test_gangs_without_gpus_can_be_in_the_way_too(resource: str) -> None:
    """T4, R1: all GPUs of the first rack are free, but *resource* of its second node is in use."""
    world = city(TWO_RACKS, team=PLENTY)
    for name in ("n0", "n1", "n2", "n3"):
        change(world, name, resources={GPU: 8, resource: 8000})
    hold(world, "firm", priority=NORMAL, n2=8)
    enter(world, group("low", pods("t", 1, 0, **{resource: 6000})), "team", LOW)
    stand(world, "low", {"t": {"n1": 1}})
    submit(world, "hi", pods("t", 2, 8, "rack", **{resource: 4000}), priority=HIGH)
    assert world.cycle() == ["nominate hi", "preempt low for hi (PRIORITY)"]
    assert pods_on(world, "hi") == {"t": {"n0": 1, "n1": 1}}


def test_a_rack_whose_gangs_are_already_stopping_costs_nothing() -> None:
    """T4, R4: in the other rack, a gang of one pod would have to stop."""
    world = city(TWO_RACKS, team=PLENTY)
    hold(world, "ends", n0=8, n1=8)
    hold(world, "low", n2=8)
    world.cycle()
    world.do(Stop("ends-1/g", Status.FAILED_CANCELED))
    submit(world, "hi", pods("t", 2, 8, "rack"), priority=HIGH)
    plan = cycle.run(world.state, linger(world), world.now)
    said = [(type(each), each.gang) for each in plan.actions if isinstance(each, Nominate | Preempt)]
    assert said == [(Nominate, "hi-1/g")]
    assert entry_of(world, "hi").waits_for == ("ends-1/g",)
    assert world.cycle() == ["admit hi"]


def test_a_rack_with_guaranteed_or_protected_work_is_not_cleared() -> None:
    """R2, R3: one protected gang in the first rack, a guaranteed one in the second, two of the own pool in the third."""
    world = city("a/r0: 8 8 | a/r1: 8 8 | a/r2: 8 8", team=32, other=16)
    hold(world, "safe", pool="other", n0=8, n1=8)
    hold(world, "firm", priority=NORMAL, n2=8)
    hold(world, "low0", n4=8)
    hold(world, "low1", n5=8)
    submit(world, "hi", pods("t", 2, 8, "rack"), priority=HIGH)
    assert sorted(world.cycle()) == ["nominate hi", "preempt low0 for hi (PRIORITY)", "preempt low1 for hi (PRIORITY)"]
    assert pods_on(world, "hi") == {"t": {"n4": 1, "n5": 1}}


def test_outside_the_rack_gangs_stop_only_for_quota() -> None:
    """R2: the first rack is free, and the pool's quota is lent to gangs in the second."""
    lab = Cohort("lab", None, gpu_quota(0, borrowing=0))
    mine, guest = team("mine", 16, cohort="lab"), team("guest", 0, cohort="lab")
    world = city(TWO_RACKS, cohorts=(lab,), mine=mine, guest=guest)
    hold(world, "g0", pool="guest", n2=8)
    hold(world, "g1", pool="guest", n3=8)
    submit(world, "half", pods("t", 1, 8, "rack"), pool="mine", priority=HIGH)
    assert world.cycle() == ["nominate half", "preempt g1 for half (RECLAIM)"]
    submit(world, "rest", pods("t", 1, 8, "rack"), pool="mine", priority=HIGH)
    assert sorted(world.cycle()) == ["admit half", "nominate rest", "preempt g0 for rest (RECLAIM)"]


def test_gangs_that_free_nothing_at_the_limit_are_not_tried() -> None:
    """T4: 320 gangs of another cohort are cheaper, but only those of the own cohort free quota at its limit."""
    lab, far = Cohort("lab", None, gpu_quota(0, borrowing=0)), Cohort("far")
    mine, guest, away = team("mine", 16, cohort="lab"), team("guest", 0, cohort="lab"), team("away", 0, cohort="far")
    racks = [f"a/r{at:02}: {' '.join(['8'] * 8)}" for at in range(40)]
    drawn = " | ".join([*racks, "a/s0: 8", "a/s1: 8"])
    world = city(drawn, cohorts=(lab, far), mine=mine, guest=guest, away=away)
    for at in range(320):
        hold_on(world, f"away{at}", {f"n{at}": 8}, pool="away")
    for at, (name, count) in enumerate((("few", 2), ("many", 4))):
        enter(world, group(name, pods("t", count, 8 // count)), "guest", LOW)
        stand(world, name, {"t": {f"n{320 + at}": count}})
        world.now += 1
    submit(world, "hi", pods("t", 1, 8, "rack"), pool="mine", priority=HIGH)
    assert world.cycle() == ["nominate hi", "preempt few for hi (RECLAIM)"]


def test_two_gangs_that_need_a_rack_each_stop_different_gangs() -> None:
    """R4: what is reserved for the first is not reserved again."""
    world = full_of_low()
    submit(world, "one", pods("t", 2, 8, "rack"), priority=HIGH)
    submit(world, "two", pods("t", 2, 8, "rack"), priority=HIGH)
    submit(world, "three", pods("t", 2, 8, "rack"), priority=HIGH)
    decided = world.cycle()
    assert sorted(decided) == [
        "nominate one",
        "nominate two",
        "preempt low0 for two (PRIORITY)",
        "preempt low1 for two (PRIORITY)",
        "preempt low2 for one (PRIORITY)",
        "preempt low3 for one (PRIORITY)",
    ]
    assert world.cycle() == ["admit one", "admit two"]
    assert overfull(world) == {}


def test_a_preference_preempts_nothing() -> None:
    """T2: it starts in two racks instead of having one of them cleared."""
    world = city(TWO_RACKS, team=PLENTY)
    hold(world, "low0", n1=8)
    hold(world, "low1", n3=8)
    submit(world, "hi", pods("t", 2, 8, "rack?"), priority=HIGH)
    assert world.cycle() == ["admit hi"]
    assert pods_on(world, "hi") == {"t": {"n0": 1, "n2": 1}}


def test_a_preempted_low_gang_restarts_completely_in_one_rack() -> None:
    """R6, T1."""
    world = city(TWO_RACKS, team=PLENTY)
    hold(world, "firm", priority=NORMAL, n3=8)
    submit(world, "low", pods("t", 2, 8, "rack"), priority=LOW)
    assert world.cycle() == ["admit low"]
    submit(world, "hi", pods("t", 1, 8, "rack"), pods("u", 1, 8, "rack"), priority=HIGH)
    assert world.cycle() == ["nominate hi", "preempt low for hi (PRIORITY)"]
    assert world.cycle() == ["admit hi"]
    world.finish("firm-1")
    assert world.cycle() == ["admit low"]
    assert pods_on(world, "low") == {"t": {"n2": 1, "n3": 1}}


# ---------------------------------------------------------------- compared with trying every set

RACKS = {"n0": "r0", "n1": "r0", "n2": "r1", "n3": "r1", "n4": "r2"}
ASKED = ((1, 6), (2, 4), (2, 6), (2, 7), (3, 3), (3, 4), (4, 3), (5, 2))

Gangs = dict[str, dict[str, int]]
"""Gang → node → GPUs."""


def chunks(last: int, size: int = 40) -> list[range]:
    return [range(start, start + size) for start in range(0, last, size)]


def told(world: LoggedWorld) -> set[str]:
    """The gangs that are asked to stop in the next cycle."""
    return {each.gang.removesuffix("-1/g") for each in world.plan().actions if isinstance(each, Preempt)}


def filled(world: LoggedWorld, chance: random.Random, gangs: int) -> tuple[Gangs, Mapping[str, int]]:
    """Gangs on one or two nodes each: the LOW ones, and what the others leave of each node."""
    left = {name: node.resources[GPU] for name, node in world.state.nodes.items()}
    free = dict(left)
    low: Gangs = {}
    for at in range(gangs):
        nodes = [node for node in chance.sample(sorted(left), chance.choice((1, 1, 2))) if left[node]]
        gang = {node: chance.randint(1, min(5, left[node])) for node in nodes}
        if not gang:
            continue
        firm = chance.random() < 0.2
        hold_on(world, f"g{at}", gang, priority=NORMAL if firm else LOW)
        for node, gpus in gang.items():
            left[node] -= gpus
            free[node] -= gpus if firm else 0
        if not firm:
            low[f"g{at}"] = gang
    return low, free


def subsets(names: Collection[str]) -> Iterator[set[str]]:
    for size in range(len(names) + 1):
        yield from map(set, combinations(sorted(names), size))


def cost(low: Gangs, gone: Collection[str]) -> tuple[int, int, int]:
    """Gangs, pods, GPUs."""
    return (len(gone), sum(len(low[name]) for name in gone), sum(sum(low[name].values()) for name in gone))


# ---------------------------------------------------------------- pods of one shape in one rack, compared with counting


def fits(free: Mapping[str, int], low: Gangs, gone: Collection[str], count: int, gpus: int) -> bool:
    """True if some rack has room for *count* pods of *gpus* GPUs without *gone*."""
    room = dict.fromkeys(RACKS.values(), 0)
    for node, rack in RACKS.items():
        taken = sum(gang.get(node, 0) for name, gang in low.items() if name not in gone)
        room[rack] += (free[node] - taken) // gpus
    return max(room.values()) >= count


@pytest.mark.parametrize("seeds", chunks(200), ids=str)
def test_in_one_rack_only_the_cheapest_needed_gangs_stop(seeds: range) -> None:
    """T4, R3."""
    nominated = 0
    for seed in seeds:
        chance = random.Random(seed)
        world = city("a/r0: 8 8 | a/r1: 8 6 | a/r2: 8", team=PLENTY)
        low, free = filled(world, chance, chance.randint(4, 9))
        count, gpus = chance.choice(ASKED)
        enter(world, group("hi", pods("t", count, gpus, "rack")), "team", HIGH)
        gone = told(world)
        enough = [cost(low, each) for each in subsets(low) if fits(free, low, each, count, gpus)]
        state = entry_of(world, "hi").state
        if not enough:
            assert (state, gone) == (GangState.PENDING, set()), seed
            continue
        assert state is (GangState.NOMINATED if gone else GangState.ADMITTED), seed
        assert cost(low, gone) == min(enough), seed
        (rack,) = {domain_of(world, "hi", node, "rack") for node in pods_on(world, "hi")["t"]}
        assert [name for name in sorted(gone) if rack not in {f"a/{RACKS[node]}" for node in low[name]}] == [], seed
        assert not any(fits(free, low, gone - {name}, count, gpus) for name in gone), seed
        assert overfull(world) == {}, seed
        nominated += bool(gone)
    assert nominated > len(seeds) // 4


# ---------------------------------------------------------------- every kind of requirement, compared with placing it


def asking(chance: random.Random) -> list[TaskSpec]:
    """Nested groups, groups side by side, slices, different pods in one group, preferences inside a zone, or one task
    without any.
    """
    kinds: list[list[tuple[str, ...]]] = [
        [("zone", "rack/x"), ("zone", "rack/y")],
        [("zone", "rack/x"), ("zone", "rack/x"), ("zone", "rack/y")],
        [("rack/x",), ("rack/y",)],
        [("rack*2",)],
        [("rack",), ("rack",)],
        [("zone", "rack/x?"), ("zone", "rack/y?")],
        [("rack",), ()],
    ]
    return [
        pods(f"t{at}", chance.randint(1, 3), chance.randint(1, 6), *asked)
        for at, asked in enumerate(chance.choice(kinds))
    ]


def starts(world: LoggedWorld, gone: Collection[str]) -> bool:
    """True if the gang hi has a placement without *gone*: tried and undone."""
    ledger, entry = world.state.ledger, entry_of(world, "hi")
    entries = [entry_of(world, name) for name in sorted(gone)]
    for each in entries:
        ledger.uncharge(each)
    found = find_place(ledger, entry, entry.bucket.counts)
    for each in reversed(entries):
        ledger.charge(each)
    return found is not None


@pytest.mark.parametrize("seeds", chunks(200), ids=str)
def test_for_any_requirement_only_the_cheapest_needed_gangs_stop(seeds: range) -> None:
    """T4, R3."""
    nominated = 0
    for seed in seeds:
        chance = random.Random(seed)
        world = city(chance.choice(("a/r0: 8 8 | a/r1: 8 | b/r0: 8 4", "a/r0: 3 5 | a/r1: 4 4 | a/r2: 8")), team=PLENTY)
        low, _ = filled(world, chance, chance.randint(4, 7))
        enter(world, group("hi", *asking(chance)), "team", HIGH)
        enough = [each for each in subsets(low) if starts(world, each)]
        gone = told(world)
        if not enough:
            assert (entry_of(world, "hi").state, gone) == (GangState.PENDING, set()), seed
            continue
        assert gone in enough, seed
        assert cost(low, gone) == min(cost(low, each) for each in enough), seed
        assert [name for name in gone if gone - {name} in enough] == [], seed
        nominated += bool(gone)
    assert nominated > len(seeds) // 8
