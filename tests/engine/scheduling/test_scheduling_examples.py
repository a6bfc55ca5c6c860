"""The three examples of scheduling.md, cycle by cycle."""

from runrig.domain.workflows import Status
from tests.worlds.engine import HIGH, LOW, NORMAL, World, task, workflow


def test_the_queue_is_ordered_by_priority_and_then_by_submit_time() -> None:
    world = World({"pool": 2}, {"n0": 2})
    world.submit("wf1", "pool", NORMAL)
    world.submit("wf2", "pool", NORMAL)
    assert world.cycle() == ["admit wf1", "admit wf2"]
    for name, priority in (("wf3", LOW), ("wf4", NORMAL), ("wf5", HIGH), ("wf6", NORMAL)):
        world.submit(name, "pool", priority)
    assert world.cycle() == []
    started = []
    for ended in ("wf1", "wf2", "wf5", "wf4", "wf6"):
        world.finish(f"{ended}-1")
        started += world.cycle()
    assert started == ["admit wf5", "admit wf4", "admit wf6", "admit wf3"]


def test_a_preempted_workflow_is_requeued_ahead_of_later_ones() -> None:
    world = World({"pool": 2}, {"n0": 2})
    world.submit("wf1", "pool", LOW)
    world.submit("wf2", "pool", NORMAL)
    assert world.cycle() == ["admit wf2", "admit wf1"]
    world.submit("wf3", "pool", LOW)
    world.submit("wf4", "pool", LOW)
    assert world.cycle() == []
    world.submit("wf5", "pool", NORMAL)
    assert world.cycle() == ["nominate wf5", "preempt wf1 for wf5 (PRIORITY)"]
    assert world.cycle() == ["admit wf5"]
    assert world.status("wf1-1") == [Status.SCHEDULING]
    started = []
    for ended in ("wf2", "wf5", "wf1"):
        world.finish(f"{ended}-1")
        started += world.cycle()
    assert started == ["admit wf1", "admit wf3", "admit wf4"]


def test_a_pool_reclaims_exactly_what_it_lent() -> None:
    world = World({"pool1": 2, "pool2": 2}, {"n0": 4})
    world.submit("wf1", "pool1", NORMAL)
    world.submit("wf2", "pool1", LOW)
    world.submit("wf4", "pool2", NORMAL)
    assert world.cycle() == ["admit wf1", "admit wf4", "admit wf2"]
    world.submit("wf3", "pool1", LOW)
    assert world.cycle() == ["admit wf3"]
    world.submit("wf5", "pool2", NORMAL)
    assert world.cycle() == ["nominate wf5", "preempt wf3 for wf5 (RECLAIM)"]
    assert world.cycle() == ["admit wf5"]
    assert world.status("wf3-1") == [Status.SCHEDULING]
    world.finish("wf2-1")
    assert world.cycle() == ["admit wf3"]


def test_gangs_of_one_shape_keep_their_own_names() -> None:
    world = World({"pool": 2}, {"n0": 2})
    world.submit("wf1", "pool", spec=workflow("wf1", task("walk")))
    world.submit("wf2", "pool", spec=workflow("wf2", task("run")))
    assert world.cycle() == ["admit wf1", "admit wf2"]
    assert {(key.workflow, key.task) for key in world.state.active} == {("wf1-1", "walk"), ("wf2-1", "run")}
