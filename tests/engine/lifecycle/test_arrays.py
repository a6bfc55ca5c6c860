"""Arrays: a group that runs once for each index, at most so many at a time (rule W4)."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from runrig.domain.errors import Conflict, InvalidInput, NotFound, Refused
from runrig.domain.plan import Plan, Unqueue
from runrig.domain.pools import Pool
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Array, GroupSpec, Status, WorkflowSpec
from runrig.engine.explain.why import why
from runrig.engine.lifecycle.arrays import cancel_element, set_most
from runrig.engine.lifecycle.holds import put_on_hold
from runrig.engine.lifecycle.restarts import without_completed
from tests.worlds.engine import World, gpu_quota, task

COMPLETED, FAILED, CANCELED = Status.COMPLETED, Status.FAILED, Status.FAILED_CANCELED
WAITING, QUEUED, RUNNING = Status.WAITING, Status.SCHEDULING, Status.RUNNING


def array(size: int, most: int | None = None, **more: Any) -> WorkflowSpec:
    group = GroupSpec("runs", (task("main"),))
    return WorkflowSpec("sweep", array=Array(group, tuple(range(size)), size, most=most, **more))


def world(size: int, most: int | None = None, *, gpus: int = 8, **more: Any) -> World:
    """An array that has been seen to run."""
    it = World({"a": gpus}, {"n0": gpus})
    it.submit("sweep", "a", spec=array(size, most, **more))
    it.cycle()
    it.cycle()
    return it


def elements(it: World, *statuses: Status) -> list[int]:
    return [int(each.name) for each in it.state.groups_of("sweep-1") if each.status in statuses]


def ends(it: World, codes: dict[int, int]) -> None:
    """Elements end with their codes; those that follow run."""
    for index, code in codes.items():
        it.finish_task("sweep-1", f"main-{index}", code)
    it.cycle()
    it.cycle()


def the_end(it: World) -> tuple[WorkflowStatus, str]:
    workflow = it.state.workflows["sweep-1"]
    return workflow.status, workflow.failure_message


def test_elements_beyond_the_limit_wait_and_follow_in_the_order_of_their_indices() -> None:
    it = world(7, 3)
    assert (elements(it, RUNNING), elements(it, WAITING)) == ([0, 1, 2], [3, 4, 5, 6])
    ends(it, {1: 0})
    assert (elements(it, RUNNING), elements(it, WAITING)) == ([0, 2, 3], [4, 5, 6])
    ends(it, {0: 0, 3: 1})
    assert (elements(it, RUNNING), elements(it, FAILED)) == ([2, 4, 5], [3])
    assert {entry.gang.submitted_at for entry in it.state.ledger.entries.values()} == {1.0}


@pytest.mark.parametrize(("codes", "status", "message"), [
    ({0: 0, 1: 0, 2: 0, 3: 0}, WorkflowStatus.COMPLETED, ""),
    ({0: 0, 1: 1, 2: 0, 3: 0}, WorkflowStatus.FAILED, "1 of 4 failed: 1 (exit code 1)"),
    ({0: 1, 1: 1, 2: 0, 3: 1}, WorkflowStatus.FAILED, "3 of 4 failed: 0-1, 3 (exit code 1)"),
    ({0: 1, 1: 2, 2: 0, 3: 1}, WorkflowStatus.FAILED, "3 of 4 failed: 0, 3 (exit code 1), 1 (exit code 2)"),
])  # fmt: skip
def test_an_array_completes_if_all_elements_do(codes: dict[int, int], status: WorkflowStatus, message: str) -> None:
    it = world(4, 2)
    for index, code in codes.items():
        assert the_end(it)[0] is WorkflowStatus.RUNNING
        ends(it, {index: code})
    assert the_end(it) == (status, message)


def test_the_first_failure_cancels_the_rest_with_fail_fast() -> None:
    it = world(9, 4, fail_fast=True)
    ends(it, {0: 0})
    ends(it, {2: 7})
    assert (elements(it, COMPLETED), elements(it, FAILED)) == ([0], [2])
    assert elements(it, CANCELED) == [1, 3, 4, 5, 6, 7, 8]
    cause = "cancelled because element 2 failed"
    assert the_end(it) == (WorkflowStatus.FAILED, f"1 of 9 failed: 2 (exit code 7); 7 of 9 cancelled: 1, 3-8 ({cause})")


def do(it: World, plan: Any) -> None:
    it.do(*plan.actions)
    it.cycle()
    it.cycle()


def test_lowering_the_limit_stops_no_running_element() -> None:
    it = world(9, 6, gpus=4)
    plan = set_most(it.state, "sweep-1", 2)
    assert plan.actions[1:] == (Unqueue("sweep-1/4"), Unqueue("sweep-1/5"))
    do(it, plan)
    assert (elements(it, RUNNING), elements(it, QUEUED)) == ([0, 1, 2, 3], [])
    ends(it, {0: 0, 1: 0})
    assert (elements(it, RUNNING), elements(it, WAITING)) == ([2, 3], [4, 5, 6, 7, 8])
    ends(it, {2: 0})
    assert elements(it, RUNNING) == [3, 4]


def test_one_element_can_be_cancelled_in_each_state() -> None:
    it = world(6, 3, gpus=2)
    for element in ("5", "2", "0"):  # waits, is queued, runs
        do(it, cancel_element(it.state, "sweep-1", element, user="ann"))
    assert (elements(it, CANCELED), elements(it, RUNNING), elements(it, QUEUED)) == ([0, 2, 5], [1, 3], [4])
    for index in (1, 3, 4):
        ends(it, {index: 0})
    assert the_end(it) == (WorkflowStatus.FAILED_CANCELED, "3 of 6 cancelled: 0, 2, 5 (cancelled by ann)")


def test_an_array_ends_when_its_last_waiting_element_is_cancelled() -> None:
    it = world(2, 1, gpus=1)
    do(it, put_on_hold(it.state, "sweep-1", user="ann"))
    ends(it, {0: 3})
    do(it, cancel_element(it.state, "sweep-1", "1", user="ann"))
    assert the_end(it) == (
        WorkflowStatus.FAILED,
        "1 of 2 failed: 0 (exit code 3); 1 of 2 cancelled: 1 (cancelled by ann)",
    )


def test_cancelling_the_whole_array_stops_all_elements() -> None:
    it = world(5, 2)
    it.cancel("sweep-1")
    it.cycle()
    assert elements(it, CANCELED) == [0, 1, 2, 3, 4]
    assert the_end(it) == (WorkflowStatus.FAILED_CANCELED, "5 of 5 cancelled: 0-4 (cancelled by u)")


def test_a_restart_has_only_the_elements_that_failed_and_their_number_as_submitted() -> None:
    it = world(5, 5)
    ends(it, {0: 0, 1: 1, 2: 0, 3: 0, 4: 1})
    groups = [it.state.groups["sweep-1", str(index)] for index in range(5)]
    left = without_completed(array(5, 5), groups, ())
    assert [each.name for each in left.groups] == ["1", "4"]
    assert left.groups[1].tasks[0].array == {"array_index": "4", "array_count": "5"}


def blockers(it: World) -> Iterable[tuple[str, str]]:
    for group in why(it.state, "sweep-1"):
        yield from ((group.group, str(each.reason)) for each in group.blockers if each.reason.law == "W4")


def test_why_reports_that_other_elements_are_running() -> None:
    it = world(7, 2)
    sentence = "2 of its 7 elements are running or queued, and at most 2 may run at a time"
    assert list(blockers(it)) == [("2", sentence)]


def test_the_limit_of_a_pool_counts_the_elements_that_may_run_at_a_time() -> None:
    it = World({"a": Pool("a", gpu_quota(8), gpus_per_workflow=3)}, {"n0": 8})
    with pytest.raises(Refused, match="needs 4 GPUs in the elements that may run at a time"):
        it.submit("sweep", "a", spec=array(9, 4))
    it.submit("sweep", "a", spec=array(9, 3))
    with pytest.raises(Refused, match="sweep-1 needs 4 GPUs in the elements that may run at a time"):
        set_most(it.state, "sweep-1", 4)


def test_impossible_changes_are_refused() -> None:
    it = world(3, 2)
    it.submit("one", "a")
    cases: list[tuple[Callable[[], Plan], type[Exception], str]] = [
        (lambda: set_most(it.state, "sweep-1", 2), Conflict, "already runs at most 2"),
        (lambda: set_most(it.state, "sweep-1", 0), InvalidInput, "0 is out of range"),
        (lambda: set_most(it.state, "one-1", 2), Conflict, "one-1 is not an array"),
        (lambda: cancel_element(it.state, "sweep-1", "7", user="u"), NotFound, "no element '7'. Its elements are 0-2"),
        (lambda: cancel_element(it.state, "one-1", "0", user="u"), Conflict, "one-1 is not an array"),
    ]
    for plan, error, message in cases:
        with pytest.raises(error, match=message):
            plan()
    ends(it, {0: 0})
    with pytest.raises(Conflict, match="sweep-1/0 is already COMPLETED"):
        cancel_element(it.state, "sweep-1", "0", user="u")
