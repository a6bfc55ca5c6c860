"""`why` for a gang behind one that starts: the next cycle in a what-if run."""

from runrig.domain.blockers import Verdict
from runrig.domain.shown.why import GroupWhy
from runrig.domain.steps import drained
from runrig.engine.explain.why import why
from runrig.engine.foresight.next_cycle import why_next
from tests.worlds.engine import LOW, NORMAL, World


def told(world: World, name: str, most_looks: int = 500) -> tuple[Verdict | None, list[str], GroupWhy]:
    before = world.state.rows()
    (group,) = drained(why_next(world.state, f"{name}-1", most_looks))
    assert world.state.rows() == before
    return group.verdict, [str(each) for each in group.reasons], group


def test_behind_a_gang_that_starts_the_verdict_counts_what_is_left() -> None:
    """P5: nothing blocks it in the current state."""
    world = World({"a": 4}, {"n0": 4})
    world.submit("first", "a", NORMAL, 3)
    world.submit("w", "a", NORMAL, 2)
    world.submit("small", "a", NORMAL, 1)
    assert why(world.state, "w-1")[0].verdict is None
    verdict, reasons, group = told(world, "w")
    left = "needs 2 GPUs, but pool a has no quota left; in use by first-1/t-group and small-1/t-group"
    assert (verdict, reasons, group.blockers) == (Verdict.WAITS, [left], ())
    assert told(world, "small")[:2] == (Verdict.STARTS, [])
    assert sorted(world.cycle()) == ["admit first", "admit small"]


def test_behind_a_gang_that_starts_it_may_start_after_stops() -> None:
    world = World({"a": 4, "b": 4}, {"n0": 8})
    world.submit("low", "b", LOW, 7)
    world.cycle()
    world.submit("first", "a", NORMAL, 1)
    world.submit("w", "a", NORMAL, 2)
    verdict, reasons, group = told(world, "w")
    assert (verdict, reasons, group.stops) == (Verdict.STARTS_AFTER_STOPS, [], ("low-1/t-group",))
    assert world.cycle() == ["admit first", "nominate w", "preempt low for w (RECLAIM)"]


def test_behind_too_many_gangs_the_verdict_is_unknown() -> None:
    world = World({"a": 4}, {"n0": 4})
    for gpus in (1, 2):
        world.submit(f"first{gpus}", "a", NORMAL, gpus)
    world.submit("w", "a", NORMAL)
    assert told(world, "w", most_looks=1)[:2] == (Verdict.NOT_PROVEN, ["queued; not evaluated yet"])
    assert told(world, "w")[0] is Verdict.STARTS
