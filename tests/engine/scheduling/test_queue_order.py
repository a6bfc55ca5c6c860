"""The order in which waiting gangs are evaluated (rules P4, P5)."""

import random

from runrig.domain.gangs import Priority
from runrig.domain.nodes import Flavor, Node
from runrig.domain.observed import Observation, Phase, TaskFact
from runrig.domain.plan import PutPool
from runrig.domain.pools import Pool, Queueing, Quota
from runrig.domain.quantities import GPU, FlavorResource
from runrig.domain.steps import drained
from runrig.engine.scheduling.queue_order import ahead_of, first_in, head_of, waiting_in_order
from tests.worlds.engine import HIGH, LOW, NORMAL, STRICT, World, gpu_quota


def served(world: World, *work: tuple[str, str, Priority, int]) -> list[str]:
    """Everything is submitted; returns the gangs that one cycle starts, in order."""
    for name, pool, priority, gpus in work:
        world.submit(name, pool, priority, gpus)
    return world.cycle()


def test_priority_comes_before_time_over_all_pools() -> None:
    world = World({"a": 4, "b": 4}, {"n0": 8})
    work = (("l", "a", LOW, 1), ("n1", "b", NORMAL, 1), ("h", "b", HIGH, 1), ("n2", "a", NORMAL, 1))
    assert served(world, *work) == ["admit h", "admit n1", "admit n2", "admit l"]


def test_low_work_within_its_pools_nominal_is_ahead_of_low_work_that_borrows() -> None:
    world = World({"a": 0, "b": 2}, {"n0": 4})
    assert served(world, ("borrows", "a", LOW, 1), ("within", "b", LOW, 1)) == ["admit within", "admit borrows"]


def test_low_work_of_one_pool_borrows_from_the_first_gang_beyond_the_nominal() -> None:
    world = World({"a": 2, "b": 2}, {"n0": 4})
    work = (("a1", "a", LOW, 1), ("a2", "a", LOW, 1), ("a3", "a", LOW, 1), ("b1", "b", LOW, 1), ("b2", "b", LOW, 1))
    assert served(world, *work) == ["admit a1", "admit a2", "admit b1", "admit b2"]


def test_guaranteed_work_of_the_same_cycle_counts_when_deciding_whether_low_borrows() -> None:
    world = World({"a": 1, "b": 1}, {"n0": 2})
    work = (("low", "a", LOW, 1), ("other", "b", LOW, 1), ("firm", "a", NORMAL, 1))
    assert served(world, *work) == ["admit firm", "admit other"]


def test_equal_times_are_ordered_by_id() -> None:
    world = World({"a": 2}, {"n0": 1})
    for name in ("y", "x"):
        world.now = 0
        world.submit(name, "a", NORMAL)
    assert world.cycle() == ["admit x"]


def test_one_cycle_starts_everything_that_can_start() -> None:
    """P5."""
    world = World({"a": 9, "b": 9}, {"n0": 8})
    work = [(f"w{at}", "ab"[at % 2], NORMAL, 1) for at in range(9)]
    assert served(world, *work) == [f"admit w{at}" for at in range(8)]


def test_behind_a_waiting_head_a_smaller_gang_may_start() -> None:
    """BEST_EFFORT_FIFO."""
    world = World({"a": 3}, {"n0": 3})
    assert served(world, ("first", "a", NORMAL, 2), ("wide", "a", NORMAL, 2), ("small", "a", NORMAL, 1)) == [
        "admit first",
        "admit small",
    ]


def test_behind_the_head_of_a_strict_pool_nothing_starts_but_other_pools_continue() -> None:
    """STRICT_FIFO."""
    world = World({"a": Pool("a", gpu_quota(3), queueing=STRICT), "b": 1}, {"n0": 4})
    work = (
        ("first", "a", NORMAL, 2),
        ("wide", "a", NORMAL, 2),
        ("small", "a", NORMAL, 1),
        ("low", "a", LOW, 1),
        ("other", "b", NORMAL, 1),
    )
    assert served(world, *work) == ["admit first", "admit other"]
    world.submit("late", "b", LOW, 1)
    assert world.cycle() == ["admit late"]
    world.finish("first-1")
    assert world.cycle() == ["admit wide", "nominate small", "preempt late for small (RECLAIM)"]


def test_a_higher_priority_becomes_the_head_of_a_strict_pool() -> None:
    world = World({"a": Pool("a", gpu_quota(2), queueing=STRICT)}, {"n0": 2})
    assert served(world, ("runs", "a", NORMAL, 1), ("wide", "a", NORMAL, 2)) == ["admit runs"]
    assert served(world, ("urgent", "a", HIGH, 1)) == ["admit urgent"]


class Slow(World):
    """Stopped gangs run on until `finish`."""

    def observe(self) -> Observation:
        return Observation({key: self.facts.get(key, TaskFact(Phase.RUNNING)) for key in self.state.active})


def test_a_higher_priority_passes_a_nominated_head_of_a_strict_pool() -> None:
    world = Slow({"a": Pool("a", gpu_quota(4), queueing=STRICT), "b": 0}, {"n0": 2, "n1": 2})
    assert served(world, ("lent", "b", LOW, 2)) == ["admit lent"]
    nominated = ["nominate wide", "preempt lent for wide (RECLAIM)"]
    assert served(world, ("runs", "a", NORMAL, 1), ("wide", "a", NORMAL, 2), ("later", "a", NORMAL, 1)) == [
        "admit runs",
        *nominated,
    ]
    assert served(world, ("urgent", "a", HIGH, 1)) == ["admit urgent"]
    world.finish("lent-1")
    assert world.cycle() == ["admit wide"]


def test_a_preempted_gang_is_the_head_of_its_strict_pool_again() -> None:
    """P4: later gangs cannot pass it, however small; with BEST_EFFORT_FIFO they can."""
    for queueing, started in ((STRICT, []), (Queueing.BEST_EFFORT_FIFO, ["admit late"])):
        world = World({"a": 3, "b": Pool("b", gpu_quota(0), queueing=queueing)}, {"n0": 3})
        assert served(world, ("early", "b", LOW, 2)) == ["admit early"]
        assert served(world, ("in", "a", NORMAL, 2)) == ["nominate in", "preempt early for in (RECLAIM)"]
        world.submit("late", "b", LOW, 1)
        assert world.cycle() == ["admit in", *started]
        world.finish("in-1")
        assert world.cycle() == (["admit early", "admit late"] if queueing is STRICT else ["admit early"])


def test_borrowing_low_work_does_not_block_other_low_work_in_a_strict_pool() -> None:
    """P4: LOW within the nominal is ahead of it in the overall order, so it is not behind it."""
    world = World({"a": Pool("a", gpu_quota(1), queueing=STRICT), "b": 3}, {"n0": 4})
    work = (("firm", "b", NORMAL, 3), ("wide", "a", LOW, 2), ("small", "a", LOW, 1))
    assert served(world, *work) == ["admit firm", "admit small"]


def test_queue_positions_follow_the_order_of_the_next_cycle() -> None:
    """P4: HIGH, NORMAL, LOW within its pool's nominal, LOW that borrows; each by submit time."""
    world = World({"a": 1, "b": 4, "full": 4}, {"n0": 1, "n1": 4})
    assert served(world, ("rest", "full", NORMAL, 4), ("one", "b", NORMAL, 1)) == ["admit rest", "admit one"]
    work = (
        ("borrows", "a", LOW, 2),
        ("within", "b", LOW, 3),
        ("alike", "a", LOW, 2),
        ("normal", "b", NORMAL, 3),
        ("high", "b", HIGH, 3),
    )
    assert served(world, *work) == []
    assert [entry.gang.workflow.removesuffix("-1") for entry in waiting_in_order(world.state.ledger)] == [
        "high", "normal", "within", "borrows", "alike"
    ]  # fmt: skip


def test_skipped_gangs_are_evaluated_again_when_capacity_may_have_grown() -> None:
    """A negative result is kept only as long as nothing improves."""
    world = World({"a": 2, "b": 2}, {"n0": 4})
    served(world, ("n1", "a", NORMAL, 2), ("n2", "a", NORMAL, 2))
    assert world.cycle() == []
    world.do(PutPool(Pool("a", gpu_quota(4)), world.state.pools["a"]))
    assert world.cycle() == ["admit n2"]
    assert served(world, ("n3", "b", NORMAL, 1)) == []
    world.cancel("n1-1")
    assert world.cycle() == ["admit n3"]


def test_the_first_flavor_of_the_pool_with_room_is_used() -> None:
    flavors = (Flavor("h100", {"gpu": "h100"}), Flavor("b200", {"gpu": "b200"}))
    nodes = {name: Node(name, {GPU: 2}, name, {"gpu": name}) for name in ("h100", "b200")}
    quota = {FlavorResource(name, GPU): Quota(2) for name in ("h100", "b200")}
    world = World({"a": Pool("a", quota, flavors=("b200", "h100")), "b": Pool("b", quota)}, nodes, flavors=flavors)
    served(world, ("w1", "a", NORMAL, 2), ("w2", "a", NORMAL, 1), ("w3", "b", NORMAL, 1))
    taken = {key.workflow: world.state.tasks[key].node for key in world.state.active}
    assert taken == {"w1-1": "b200", "w2-1": "h100", "w3-1": "h100"}


def test_queue_positions_match_the_complete_order() -> None:
    """P4: in all pools, in the own pool, and the head of each pool."""
    chance = random.Random(4)
    world = World({"a": 3, "b": 2, "c": 0}, {"n0": 4})
    for at in range(60):
        gpus = chance.randint(1, 3)
        world.submit(f"w{at}", chance.choice("abc") if gpus < 3 else "a", LOW, gpus)
        if gpus < 3:
            world.submit(f"f{at}", "b" if gpus == 2 else chance.choice("ab"), chance.choice((HIGH, NORMAL)), gpus)
    world.cycle()
    assert len(waiting_in_order(world.state.ledger)) > 80
    counts_as_the_order_has_them(world)
    for gpus in (1, 5, 2):  # the LOW request is within nominal now, but not afterwards
        world.do(PutPool(Pool("c", gpu_quota(gpus)), world.state.pools["c"]))
        counts_as_the_order_has_them(world)


def test_positions_of_gangs_with_equal_times_follow_the_id() -> None:
    """P4, in one bucket and over several."""
    world = World({"a": 1, "b": 1}, {"n0": 2})
    for name in ("m", "z", "c", "x", "a", "k", "b", "y"):
        world.submit(name, "a" if name < "l" else "b", LOW, 1 + (name in "xyz"))
        world.now -= 1
    counts_as_the_order_has_them(world)
    world.cancel("c-1")
    world.cancel("z-1")
    counts_as_the_order_has_them(world)


def test_positions_follow_a_pool_that_prefers_another_flavor() -> None:
    """Whether LOW borrows depends on its pool's first flavor for it."""
    flavors = (Flavor("h100", {"gpu": "h100"}), Flavor("b200", {"gpu": "b200"}))
    nodes = {name: Node(name, {GPU: 2}, name, {"gpu": name}) for name in ("h100", "b200")}
    quota = {FlavorResource("h100", GPU): Quota(2), FlavorResource("b200", GPU): Quota(0)}
    world = World({"a": Pool("a", quota), "b": Pool("b", quota)}, nodes, flavors=flavors)
    for name, pool in (("w1", "a"), ("w2", "b"), ("w3", "a")):
        world.submit(name, pool, LOW, 1)
    for order in (("h100", "b200"), ("b200", "h100"), ("b200",), ()):
        world.do(PutPool(Pool("a", quota, flavors=order), world.state.pools["a"]))
        counts_as_the_order_has_them(world)


def counts_as_the_order_has_them(world: World) -> None:
    order = waiting_in_order(world.state.ledger)
    assert sorted(order, key=lambda entry: entry.gang.id) == sorted(
        (entry for bucket in world.state.ledger.pending.values() for entry in bucket.waiting),
        key=lambda entry: entry.gang.id,
    )
    for at, entry in enumerate(order):
        before = [each for each in order[:at] if each.gang.pool == entry.gang.pool]
        assert drained(ahead_of(world.state.ledger, entry)) == (at, len(before)), entry.gang.id
    for pool in {entry.gang.pool for entry in order}:
        mine = [each for each in order if each.gang.pool == pool]
        assert head_of(world.state.ledger, pool) is mine[0]
        assert list(first_in(world.state.ledger, pool, 3).values()) == mine[:3]
        assert list(first_in(world.state.ledger, pool, 1_000)) == [each.gang.id for each in mine]
