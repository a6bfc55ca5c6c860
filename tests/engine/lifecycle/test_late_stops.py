"""Stops that come too late: a task that ended before it was asked to stop keeps its result (R6, N2)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from runrig.domain.observed import Observation, Phase, TaskFact
from runrig.domain.pools import Pool
from runrig.domain.workflows import ExitAction, ExitRule, GroupSpec, Status, TaskKey, TaskSpec, WorkflowSpec
from runrig.engine import cycle
from runrig.engine.lifecycle import nodes
from tests.worlds.engine import HIGH, LOW, World, gpu_quota, task


def preempt(world: World) -> None:
    world.submit("by", "a", HIGH, 8)
    assert "preempt w for by (PRIORITY)" in world.cycle()


def drain(world: World) -> None:
    world.do(*nodes.drain(world.state, ["n0"], user="u").plan.actions)


def cancel(world: World) -> None:
    world.cancel("w-1")


def time_out(world: World) -> None:
    world.now += 1000
    world.cycle()


HOW: dict[str, Callable[[World], None]] = {
    "preempted": preempt,
    "drained": drain,
    "cancelled": cancel,
    "timed out": time_out,
}
STOPPED = {
    "preempted": "FAILED_PREEMPTED",
    "drained": "FAILED_EVICTED",
    "cancelled": "FAILED_CANCELED",
    "timed out": "FAILED_EXEC_TIMEOUT",
}
each_way = pytest.mark.parametrize("how", HOW)
QUEUED_AGAIN = ("preempted", "drained")


def running(*tasks: TaskSpec, ignore: bool = True, looks: int = 2, **more: Any) -> World:
    """The LOW workflow w-1, whose first task leads, runs on the only node; after a single observation it has been
    admitted.
    """
    world = World({"a": Pool("a", gpu_quota(8))}, {"n0": 8})
    mates = tuple(replace(each, lead=at == 0) for at, each in enumerate(tasks))
    spec = WorkflowSpec("w", (GroupSpec("g", mates, ignore_nonlead_status=ignore),), exec_timeout_s=500, **more)
    world.submit("w", "a", LOW, spec=spec)
    for _ in range(looks):
        world.cycle()
    return world


def see(world: World, **facts: TaskFact) -> None:
    """Runs a cycle that observes *facts* for the first attempts of w-1; everything else is running."""
    tasks = {key: TaskFact(Phase.RUNNING) for key in world.state.active}
    found = {key: fact for name, fact in facts.items() if (key := TaskKey("w-1", name, 0)) in tasks}
    world.now += 1
    cycle.run(world.state, Observation({**tasks, **found}), world.now)


def by_itself(code: int) -> TaskFact:
    return TaskFact(Phase.ENDED, code, by_itself=True)


BY_SIGTERM = TaskFact(Phase.ENDED, 143)


def first_attempts(world: World) -> dict[str, tuple[str, int | None]]:
    found = {
        key.task: each for key, each in world.state.tasks.records.items() if key.workflow == "w-1" and not key.retry_id
    }
    return {name: (each.status.value, each.exit_code) for name, each in sorted(found.items())}


def ended(world: World) -> tuple[str, str]:
    return world.status("w-1")[0].value, world.state.workflows["w-1"].status.value


@each_way
@pytest.mark.parametrize(("code", "status"), [(0, "COMPLETED"), (1, "FAILED"), (143, "FAILED")])
def test_a_task_that_had_ended_keeps_its_result_and_does_not_run_again(how: str, code: int, status: str) -> None:
    world = running(task("t"))
    HOW[how](world)
    see(world, t=by_itself(code))
    assert first_attempts(world) == {"t": (status, code)}
    assert ended(world) == (status, status)
    assert len(world.state.attempts("w-1", "t")) == 1
    assert "w-1/g" not in world.state.ledger.entries


@each_way
def test_a_stopped_task_is_recorded_as_stopped(how: str) -> None:
    world = running(task("t"))
    HOW[how](world)
    see(world, t=BY_SIGTERM)
    code = {"preempted": 3006, "drained": 3004}.get(how, 143)
    assert first_attempts(world) == {"t": (STOPPED[how], code)}
    assert len(world.state.attempts("w-1", "t")) == (2 if how in QUEUED_AGAIN else 1)


TOGETHER, LEAD_FIRST, MATE_FIRST = "together", "the lead first", "the mate first"
each_order = pytest.mark.parametrize("order", [TOGETHER, LEAD_FIRST, MATE_FIRST])


def see_in_turn(world: World, order: str, lead: TaskFact, mate: TaskFact) -> None:
    """Both ends are observed in one cycle, or in one cycle each."""
    if order == LEAD_FIRST:
        see(world, lead=lead)
    if order == MATE_FIRST:
        see(world, mate=mate)
    see(world, lead=lead, mate=mate)


@each_way
@each_order
def test_a_gang_whose_tasks_had_all_ended_ends_like_them(how: str, order: str) -> None:
    world = running(task("lead"), task("mate"))
    HOW[how](world)
    see_in_turn(world, order, by_itself(0), by_itself(3))
    of_no_account = how in QUEUED_AGAIN and order != MATE_FIRST  # as for any sibling of a completed lead
    assert first_attempts(world) == {"lead": ("COMPLETED", 0), "mate": ("COMPLETED" if of_no_account else "FAILED", 3)}
    assert ended(world) == ("COMPLETED", "COMPLETED")


@each_way
@each_order
@pytest.mark.parametrize(("code", "status"), [(0, "COMPLETED"), (1, "FAILED")])
@pytest.mark.parametrize("ignore", [True, False])
def test_a_gang_whose_lead_was_stopped_is_stopped(how: str, order: str, code: int, status: str, ignore: bool) -> None:
    """The mate may have completed, or failed because it lost the lead: the whole gang is requeued or has ended (W1)."""
    world = running(task("lead"), task("mate"), ignore=ignore)
    HOW[how](world)
    see_in_turn(world, order, BY_SIGTERM, by_itself(code))
    assert first_attempts(world)["mate"] == (status, code)
    assert first_attempts(world)["lead"][0] == STOPPED[how]
    if how in QUEUED_AGAIN:
        assert [len(world.state.attempts("w-1", name)) for name in ("lead", "mate")] == [2, 2]
    else:
        assert ended(world) == (STOPPED[how], STOPPED[how])


@pytest.mark.parametrize("how", ["drained", "cancelled"])
@pytest.mark.parametrize("code", [0, 143])
@pytest.mark.parametrize("ignore", [True, False])
def test_a_stop_counts_if_another_task_is_first_seen_running_after_its_end(how: str, code: int, ignore: bool) -> None:
    """The mate ran and ended between two observations, and the stop came in between."""
    world = running(task("lead"), task("mate"), ignore=ignore, looks=1)
    assert world.status("w-1")[0].value == "INITIALIZING"
    HOW[how](world)
    see(world, mate=by_itself(code), lead=TaskFact(Phase.STARTING))
    assert world.state.groups["w-1", "g"].stopping is Status(STOPPED[how])
    see(world, lead=BY_SIGTERM)
    assert first_attempts(world)["lead"][0] == STOPPED[how]
    if how in QUEUED_AGAIN:
        assert [len(world.state.attempts("w-1", name)) for name in ("lead", "mate")] == [2, 2]
    else:
        assert ended(world) == (STOPPED[how], STOPPED[how])


@pytest.mark.parametrize("how", QUEUED_AGAIN)
@each_order
@pytest.mark.parametrize("ignore", [True, False])
def test_a_gang_whose_lead_had_completed_is_complete(how: str, order: str, ignore: bool) -> None:
    world = running(task("lead"), task("mate"), ignore=ignore)
    HOW[how](world)
    see_in_turn(world, order, by_itself(0), BY_SIGTERM)
    assert first_attempts(world)["lead"] == ("COMPLETED", 0)
    assert ended(world) == ("COMPLETED", "COMPLETED")
    assert len(world.state.attempts("w-1", "mate")) == 1


def test_an_end_that_would_retry_counts_as_the_stop() -> None:
    """The gang is requeued anyway; the retry does not count towards the limit."""
    world = running(task("t", exit_rules=(ExitRule(ExitAction.RESCHEDULE, 75, 75),)))
    drain(world)
    see(world, t=by_itself(75))
    assert first_attempts(world) == {"t": ("FAILED_EVICTED", 3004)}
    assert len(world.state.attempts("w-1", "t")) == 2


def test_a_task_that_ended_before_it_was_seen_running_has_still_run() -> None:
    world = World({"a": 8}, {"n0": 8})
    world.submit("w", "a", LOW)
    world.cycle()
    drain(world)
    see(world, t=by_itself(0))
    done = world.state.tasks[TaskKey("w-1", "t", 0)]
    assert (done.status.value, done.start_time, done.end_time) == ("COMPLETED", world.now, world.now)


@each_way
def test_downstream_groups_start_unless_the_workflow_was_cancelled(how: str) -> None:
    world = World({"a": Pool("a", gpu_quota(8))}, {"n0": 8})
    spec = WorkflowSpec(
        "w", (GroupSpec("g", (task("t"),)), GroupSpec("next", (task("n"),), upstream=("g",))), exec_timeout_s=500
    )
    world.submit("w", "a", LOW, spec=spec)
    world.cycle()
    world.cycle()
    HOW[how](world)
    see(world, t=by_itself(0))
    first, behind = (each.value for each in world.status("w-1"))
    assert first == "COMPLETED"
    assert (behind == "FAILED_CANCELED") == (how == "cancelled")
    assert behind in ("FAILED_CANCELED", "SCHEDULING", "INITIALIZING")
