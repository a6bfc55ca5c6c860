"""Gangs that accept fewer pods, in pools: borrowing, preemption, and requests afterwards (partial-admission.md; A1-A3)."""

from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from runrig.domain.errors import Refused
from runrig.domain.gangs import Priority, Requirement
from runrig.domain.nodes import Node
from runrig.domain.pools import Pool, TopologyKey
from runrig.domain.quantities import GPU
from runrig.domain.workflows import GroupSpec, Status, TaskSpec, WorkflowSpec
from runrig.engine.ledger.fit import find_place
from runrig.engine.placement.partial import ALL_TRIED
from runrig.engine.preemption.targets import find_targets
from tests.exploring import tries
from tests.worlds.engine import HIGH, LOW, NORMAL, STRICT, World, gpu_quota, task, workflow

Range = tuple[int, int | None]
"""The pod sets of the specification, as (count, minimum)."""


def gang(name: str, *ranges: Range) -> WorkflowSpec:
    """One group with a pod set p0, p1, ... of one GPU per pod for each range; the first is the lead."""
    tasks: list[TaskSpec] = [task(f"p{at}", 1, count=count, minimum=least) for at, (count, least) in enumerate(ranges)]
    return WorkflowSpec(name, (GroupSpec("g", tuple(replace(each, lead=each is tasks[0]) for each in tasks)),))


def counts(world: World, name: str) -> list[int]:
    """The granted pods per pod set."""
    return [each.count for each in world.state.ledger.entries[f"{name}-1/g"].placement]


def asked(world: World, name: str) -> list[int]:
    return [each.count for each in world.state.ledger.entries[f"{name}-1/g"].gang.pod_sets]


def running_pods(world: World, name: str) -> int:
    return sum(key.workflow == f"{name}-1" for key in world.state.active)


# ---------------------------------------------------------------- borrowing


def test_low_work_borrows_for_its_full_size_before_it_shrinks_to_its_own_quota() -> None:
    world = World({"a": 4, "b": 4}, {"n0": 8})
    world.submit("w", "b", LOW, spec=gang("w", (2, None), (6, 2)))
    assert world.cycle() == ["admit w"]
    assert counts(world, "w") == [2, 6]


def test_guaranteed_work_never_borrows_for_its_full_size() -> None:
    world = World({"a": 4, "b": 4}, {"n0": 8})
    world.submit("w", "b", NORMAL, spec=gang("w", (2, None), (6, 1)))
    assert world.cycle() == ["admit w"]
    assert counts(world, "w") == [2, 2]


# ---------------------------------------------------------------- preemption


def test_the_largest_size_is_chosen_even_if_more_gangs_must_stop() -> None:
    """A1: a larger size by preemption comes before a smaller one that is free."""
    world = World({"a": 4, "b": 2}, {"n0": 6})
    world.submit("low", "b", LOW, 4)
    assert world.cycle() == ["admit low"]
    world.submit("w", "a", HIGH, spec=gang("w", (6, 1)))
    assert world.cycle() == ["nominate w", "preempt low for w (RECLAIM)"]
    world.cycle()
    assert counts(world, "w") == [4]


# ---------------------------------------------------------------- queued again


def test_a_preempted_gang_requests_its_full_size_again() -> None:
    """A3: 6 of 6, then 3, then 6 again."""
    world = World({"a": 6, "b": 0}, {"n0": 6})
    world.submit("w", "b", LOW, spec=gang("w", (2, 1), (4, 2)))
    assert world.cycle() == ["admit w"]
    assert (counts(world, "w"), running_pods(world, "w")) == ([2, 4], 6)
    world.submit("firm", "a", NORMAL, 3)
    assert world.cycle() == ["nominate firm", "preempt w for firm (RECLAIM)"]
    assert world.cycle() == ["admit firm", "admit w"]
    assert (asked(world, "w"), counts(world, "w"), running_pods(world, "w")) == ([2, 4], [1, 2], 3)
    world.cycle()
    world.submit("rest", "a", NORMAL, 3)
    world.cycle()
    assert world.cycle() == ["admit rest"]
    assert (asked(world, "w"), world.status("w-1"), running_pods(world, "w")) == ([2, 4], [Status.SCHEDULING], 0)
    for name in ("firm-1", "rest-1"):
        world.finish(name)
    assert world.cycle() == ["admit w"]
    assert (counts(world, "w"), running_pods(world, "w")) == ([2, 4], 6)


def test_a_running_gang_does_not_grow_when_capacity_becomes_free() -> None:
    """A3: the admitted counts apply to the whole attempt."""
    world = World({"a": 6}, {"n0": 6})
    world.submit("firm", "a", NORMAL, 4)
    world.cycle()
    world.submit("w", "a", NORMAL, spec=gang("w", (4, 1)))
    assert world.cycle() == ["admit w"]
    world.finish("firm-1")
    assert world.cycle() == []
    assert counts(world, "w") == [2]


# ---------------------------------------------------------------- any ranges

ranges = st.lists(
    st.integers(1, 9).flatmap(lambda count: st.tuples(st.just(count), st.none() | st.integers(1, count))),
    min_size=1,
    max_size=4,
)


def steps(found: list[Range]) -> list[list[int]]:
    """Every size, the largest first, by rule A1: each pod set loses the same part of its range."""
    least = [count if minimum is None else minimum for count, minimum in found]
    total = sum(count - low for (count, _), low in zip(found, least, strict=True))
    return [
        [count - (count - low) * step // max(total, 1) for (count, _), low in zip(found, least, strict=True)]
        for step in range(total + 1)
    ]


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(ranges, st.integers(0, 36), st.sampled_from((HIGH, NORMAL, LOW)))
def test_the_size_is_the_largest_that_fits(found: list[Range], room: int, priority: Priority) -> None:
    """A1, against an exhaustive search; others use the rest of the pool."""
    sizes = steps(found)
    assert all(larger >= smaller for one, other in pairwise(sizes) for larger, smaller in zip(one, other, strict=True))
    world = World({"a": Pool("a", gpu_quota(36), queueing=STRICT)}, {"n0": 36})
    if room < 36:
        world.submit("rest", "a", HIGH, spec=workflow("rest", task("t", 36 - room)))
        world.cycle()
    world.submit("w", "a", priority, spec=gang("w", *found))
    expected = next((size for size in sizes if sum(size) <= room), [])
    assert world.cycle() == (["admit w"] if expected else [])
    assert counts(world, "w") == expected


KEYS = (TopologyKey("rack", "rack"), TopologyKey("host", "host"))
requirements = st.sampled_from(
    (
        (),
        (Requirement("rack"),),
        (Requirement("rack", slice_size=12),),
        (Requirement("host", slice_size=5),),
        (Requirement("rack", "whole", required=False), Requirement("host", "part", slice_size=4)),
    )
)
pod_sets = st.lists(st.tuples(st.integers(70, 90), st.integers(1, 4), requirements), min_size=1, max_size=2)
others = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from((LOW, LOW, NORMAL)), st.integers(1, 30)), max_size=5)


def busy(nodes: list[int], quota: int, held: list[tuple[str, Priority, int]]) -> World:
    """Two pools on racks of two nodes, with work in a settled state."""
    racks = {
        f"n{at}": Node(f"n{at}", {GPU: gpus}, labels={"rack": f"r{at // 2}", "host": f"n{at}"})
        for at, gpus in enumerate(nodes)
    }
    made = {
        name: Pool(name, gpu_quota(own), topology_keys=KEYS) for name, own in (("a", quota), ("b", sum(nodes) - quota))
    }
    world = World(made, racks)
    for at, (pool, priority, gpus) in enumerate(held):
        with suppress(Refused):
            world.submit(f"x{at}", pool, priority, spec=workflow(f"x{at}", task("t", 1, count=gpus)))
        world.cycle()
    world.cycle()
    return world


@pytest.mark.explored
@settings(max_examples=tries(40))
@given(
    st.lists(st.integers(5, 40), min_size=2, max_size=6),
    st.integers(20, 90),
    others,
    pod_sets,
    st.sampled_from((HIGH, NORMAL, LOW)),
)
def test_the_largest_startable_of_many_sizes_is_found(
    nodes: list[int],
    quota: int,
    held: list[tuple[str, Priority, int]],
    asked: list[tuple[int, int, tuple[Requirement, ...]]],
    priority: Priority,
) -> None:
    """A1: more sizes than are tried one by one, against all of them."""
    world = busy(nodes, min(quota, sum(nodes)), held)
    spec = gang("w", *((count, least) for count, least, _ in asked))
    tasks = (
        replace(each, topology=topology) for each, (_, _, topology) in zip(spec.groups[0].tasks, asked, strict=True)
    )
    sizes = [tuple(size) for size in steps([(count, least) for count, least, _ in asked])]
    assert len(sizes) > ALL_TRIED
    try:
        world.submit("w", "a", priority, spec=WorkflowSpec("w", (GroupSpec("g", tuple(tasks)),)))
    except Refused:
        event("refused")
        return
    ledger = world.state.ledger
    entry = ledger.entries["w-1/g"]
    expected = next(
        (size for size in sizes if find_place(ledger, entry, size) or find_targets(ledger, entry, size)), ()
    )
    world.cycle()
    event("nothing" if not expected else "whole" if expected == sizes[0] else f"fewer, {entry.state.value}")
    assert tuple(counts(world, "w")) == expected
