"""The waiting gangs of one pool, by blocker."""

import pytest

from runrig.domain.pools import Pool
from runrig.domain.reasons import Code
from runrig.domain.steps import drained
from runrig.engine.explain import pool_why as module
from runrig.engine.explain.pool_why import pool_why
from tests.worlds.engine import HIGH, LOW, NORMAL, STRICT, World, gpu_quota


def told(world: World, pool: str) -> list[tuple[Code, int, int, tuple[str, ...]]]:
    found = drained(pool_why(world.state, pool))
    assert found.gangs == sum(each.gangs for each in found.held) + found.unasked
    return [(each.reason.code, each.gangs, each.gpus, each.first) for each in found.held]


def test_gangs_are_grouped_by_their_first_blocker_largest_group_first() -> None:
    world = World({"a": 2, "b": 2}, {"n0": 2, "n1": 2})
    world.submit("n1", "a", NORMAL, 2)
    world.submit("n2", "b", NORMAL, 2)
    world.cycle()
    for at in range(4):
        world.submit(f"w{at}", "a", NORMAL, 1 + at % 2)
    world.submit("low", "a", LOW, 1)
    world.submit("other", "b", LOW, 1)
    world.cycle()
    assert told(world, "a") == [
        (Code.QUOTA_FULL, 4, 6, ("w0-1/t-group", "w1-1/t-group", "w2-1/t-group")),
        (Code.NO_IDLE_TO_BORROW, 1, 1, ("low-1/t-group",)),
    ]


def test_the_front_of_the_queue_is_listed_in_order_with_the_reason_of_each() -> None:
    world = World({"a": 2, "b": 2}, {"n0": 2, "n1": 2})
    world.submit("n1", "a", NORMAL, 2)
    world.submit("n2", "b", NORMAL, 2)
    world.cycle()
    for name, priority, gpus in (("low", LOW, 1), ("w0", NORMAL, 1), ("w1", NORMAL, 2), ("high", HIGH, 1)):
        world.submit(name, "a", priority, gpus)
    world.submit("other", "b", NORMAL, 1)
    world.cycle()
    places = drained(pool_why(world.state, "a")).places
    assert [(each.gang, each.gpus, each.reason and each.reason.code) for each in places] == [
        ("high-1/t-group", 1, Code.QUOTA_FULL),
        ("w0-1/t-group", 1, Code.QUOTA_FULL),
        ("w1-1/t-group", 2, Code.QUOTA_FULL),
        ("low-1/t-group", 1, Code.NO_IDLE_TO_BORROW),
    ]


def test_in_a_strict_pool_all_others_wait_for_the_head() -> None:
    """P4."""
    world = World({"a": Pool("a", gpu_quota(2), queueing=STRICT)}, {"n0": 2})
    world.submit("runs", "a", NORMAL, 1)
    world.cycle()
    for name in ("head", "x", "y"):
        world.submit(name, "a", NORMAL, 2)
    world.cycle()
    assert told(world, "a") == [
        (Code.BEHIND_HEAD, 2, 4, ("x-1/t-group", "y-1/t-group")),
        (Code.QUOTA_FULL, 1, 2, ("head-1/t-group",)),
    ]


def test_a_nominated_gang_waits_for_its_targets() -> None:
    """R4."""
    world = World({"a": 2, "b": 0}, {"n0": 2})
    world.submit("low", "b", LOW, 2)
    world.cycle()
    world.submit("w", "a", NORMAL)
    world.cycle()
    assert told(world, "a") == [(Code.WAITS_FOR_TARGETS, 1, 1, ("w-1/t-group",))]
    assert told(world, "b") == []


def test_excess_kinds_of_gangs_are_only_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World({"a": 2}, {"n0": 2})
    world.submit("n", "a", NORMAL, 2)
    world.cycle()
    world.submit("one", "a", NORMAL, 1)
    world.submit("two", "a", NORMAL, 2)
    world.cycle()
    monkeypatch.setattr(module, "MOST_ASKED", 1)
    assert told(world, "a") == [(Code.QUOTA_FULL, 1, 1, ("one-1/t-group",))]
    assert drained(pool_why(world.state, "a")).unasked == 1
