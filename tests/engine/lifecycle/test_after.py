"""Workflows that wait for others to end (rule W5)."""

from dataclasses import replace

import pytest

from runrig.domain.after import After, When, parse_after
from runrig.domain.errors import Refused
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Array, GroupSpec, Status, WorkflowSpec
from runrig.engine.cycle import CycleInParts
from runrig.engine.explain.why import why
from runrig.engine.lifecycle.arrays import cancel_element
from runrig.engine.lifecycle.contradictions import contradiction
from runrig.engine.lifecycle.holds import end_hold, put_on_hold
from runrig.engine.lifecycle.setting_aside import abandon, set_aside
from runrig.engine.state.state import State
from tests.worlds.engine import World, task, workflow

OK, ANY, FAIL = When.OK, When.ANY, When.FAIL


def world(*after: After) -> World:
    """Runs a workflow train-1, and submits report-1, which waits."""
    it = World({"a": 8}, {"n0": 8})
    it.submit("train", "a")
    it.submit("report", "a", after=after or (After("train-1"),))
    it.cycle()
    it.cycle()
    return it


def ends(it: World, id: str, code: int = 0) -> None:
    it.finish(id, code)
    it.cycle()


@pytest.mark.parametrize(("when", "code", "starts"), [
    (OK, 0, True), (OK, 1, False), (FAIL, 0, False), (FAIL, 1, True), (ANY, 0, True), (ANY, 1, True),
])  # fmt: skip
def test_the_outcome_of_the_other_workflow_decides(when: When, code: int, starts: bool) -> None:
    it = world(After("train-1", when))
    assert (it.running(), it.status("report-1")) == ({"train-1"}, [Status.WAITING])
    ends(it, "train-1", code)
    if starts:
        assert it.running() == {"report-1"}
        assert it.state.workflows["report-1"].submit_time == 2
        return
    assert it.status("report-1") == [Status.FAILED_UPSTREAM]
    ended = it.state.workflows["report-1"]
    must = "complete" if when is OK else "fail"
    is_ = "FAILED" if code else "COMPLETED"
    assert (ended.status, ended.failure_message) == (
        WorkflowStatus.FAILED,
        f"train-1 is {is_}, and had to {must} first",
    )
    assert [task.exit_code for task in it.state.current_tasks(("report-1", "t-group"))] == [3000]


def test_a_cancelled_workflow_has_failed_even_if_it_never_ran() -> None:
    it = World({"a": 1}, {"n0": 1})
    for name in ("runs", "waits"):
        it.submit(name, "a")
    it.submit("mourns", "a", after=[After("waits-1", FAIL)])
    it.submit("hopes", "a", after=[After("waits-1")])
    it.cancel("waits-1")
    it.cycle()
    assert it.status("mourns-1") == [Status.SCHEDULING]
    assert it.state.workflows["hopes-1"].failure_message == "waits-1 is FAILED_CANCELED, and had to complete first"


def test_all_of_several_must_complete_and_one_failure_is_enough() -> None:
    it = World({"a": 8}, {"n0": 8})
    for name in ("one", "two"):
        it.submit(name, "a")
    it.submit("both", "a", after=[After("one-1"), After("two-1")])
    it.cycle()
    it.cycle()
    ends(it, "one-1")
    assert it.status("both-1") == [Status.WAITING]
    assert [str(each.reason) for each in why(it.state, "both-1")[0].blockers] == ["two-1 must complete first"]
    ends(it, "two-1", 1)
    assert it.status("both-1") == [Status.FAILED_UPSTREAM]


def test_a_chain_fails_from_its_first_to_its_last() -> None:
    it = world()
    array = Array(GroupSpec("runs", (task("main"),)), (0, 1, 2), 3, most=2)
    it.submit("sweep", "a", spec=WorkflowSpec("sweep", array=array), after=[After("report-1")])
    it.submit("mail", "a", after=[After("sweep-1", element="1")])
    it.submit("cleans", "a", after=[After("mail-1", FAIL)])
    ends(it, "train-1", 1)
    it.cycle()
    it.cycle()
    it.cycle()
    assert it.status("sweep-1") == 3 * [Status.FAILED_UPSTREAM]
    assert it.state.workflows["sweep-1"].status is WorkflowStatus.FAILED
    assert it.status("mail-1") == [Status.FAILED_UPSTREAM]
    assert it.status("cleans-1") in ([Status.INITIALIZING], [Status.SCHEDULING], [Status.RUNNING])


def test_groups_of_the_workflow_wait_for_both_others_and_their_own() -> None:
    it = World({"a": 8}, {"n0": 8})
    it.submit("train", "a")
    spec = workflow("graph", task("x"), task("y"), upstream={"y": ("x",)})
    it.submit("graph", "a", spec=spec, after=[After("train-1")])
    it.cycle()
    it.cycle()
    first, second = why(it.state, "graph-1")
    assert [(each.tier.value, each.reason.law) for each in first.blockers] == [("waiting_for", "W5")]
    assert [each.reason.law for each in second.blockers] == ["W5", "W1"]
    ends(it, "train-1")
    it.cycle()
    assert it.status("graph-1") == [Status.RUNNING, Status.WAITING]
    ends(it, "graph-1")
    assert it.status("graph-1")[0] is Status.COMPLETED
    assert it.running() == {"graph-1"}


def test_submission_is_refused_if_it_could_never_start() -> None:
    it = World({"a": 8}, {"n0": 8})
    with pytest.raises(Refused) as refused:
        it.submit("late", "a", after=[After("train-1", OK, WorkflowStatus.FAILED)])
    assert (refused.value.law, refused.value.message) == (
        "W5",
        "late can never start: train-1 is FAILED, and would have to complete first. Restart train-1 and wait for the new "
        "workflow, or submit without `--after train-1`",
    )
    assert it.submit("fine", "a", after=[After("train-1", OK, WorkflowStatus.COMPLETED)]) == "fine-1"
    assert it.status("fine-1") == [Status.SCHEDULING]


@pytest.mark.parametrize("id", ["train-1", "sweep-1/4"])
def test_what_completed_cannot_be_restarted_so_the_way_out_is_another(id: str) -> None:
    after = replace(parse_after(f"{id}:fail"), ended=WorkflowStatus.COMPLETED)
    with pytest.raises(Refused) as refused:
        World({"a": 8}, {"n0": 8}).submit("late", "a", after=[after])
    assert refused.value.message == (
        f"late can never start: {id} is COMPLETED, and would have to fail first. Submit without `--after {id}:fail`"
    )


# ---------------------------------------------------------------- one element of an array


def sweeping(*after: After) -> World:
    """Runs an array sweep-1 of three elements, two at a time, and submits report-1, which waits."""
    it = World({"a": 8}, {"n0": 8})
    array = Array(GroupSpec("runs", (task("main"),)), (0, 1, 2), 3, most=2)
    it.submit("sweep", "a", spec=WorkflowSpec("sweep", array=array))
    it.submit("report", "a", after=after)
    it.cycle()
    it.cycle()
    return it


def element_ends(it: World, index: int, code: int = 0) -> None:
    it.finish_task("sweep-1", f"main-{index}", code)
    it.cycle()
    it.cycle()


@pytest.mark.parametrize(("when", "code", "starts"), [
    (OK, 0, True), (OK, 1, False), (FAIL, 0, False), (FAIL, 1, True), (ANY, 0, True), (ANY, 1, True),
])  # fmt: skip
def test_the_outcome_of_one_element_decides_while_the_others_run(when: When, code: int, starts: bool) -> None:
    it = sweeping(After("sweep-1", when, element="1"))
    (waits,) = why(it.state, "report-1")[0].blockers
    must = {OK: "complete", ANY: "end", FAIL: "fail"}[when]
    assert str(waits.reason) == f"sweep-1/1 must {must} first"
    element_ends(it, 0, 1 - code)
    assert it.status("report-1") == [Status.WAITING]
    it.state = State.load(it.state.rows())
    element_ends(it, 1, code)
    assert it.state.workflows["sweep-1"].status is WorkflowStatus.RUNNING
    if starts:
        assert it.status("report-1") == [Status.RUNNING]
        assert contradiction(it.state.rows()) is None
        return
    is_ = "FAILED" if code else "COMPLETED"
    assert it.state.workflows["report-1"].failure_message == f"sweep-1/1 is {is_}, and had to {must} first"


@pytest.mark.parametrize("way", ["element", "array", "abandon"])
def test_an_element_that_is_cancelled_has_failed(way: str) -> None:
    it = sweeping(After("sweep-1", FAIL, element="2"))
    if way == "element":
        it.do(*cancel_element(it.state, "sweep-1", "2", user="u").actions)
    elif way == "array":
        it.cancel("sweep-1")
    else:
        it.do(*set_aside(it.state, "sweep-1", "boom").actions)
        it.do(*abandon(it.state, "sweep-1", user="u", message="m").actions)
    it.cycle()
    it.cycle()
    assert it.state.workflows["report-1"].after[0].ended is WorkflowStatus.FAILED_CANCELED
    assert it.running() >= {"report-1"}


def test_an_array_on_hold_keeps_others_waiting_for_its_elements() -> None:
    it = sweeping(After("sweep-1", element="2"))
    it.do(*put_on_hold(it.state, "sweep-1", user="u").actions)
    for index in (0, 1):
        element_ends(it, index)
    assert it.status("report-1") == [Status.WAITING]
    it.do(*end_hold(it.state, "sweep-1").actions)
    it.cycle()
    it.cycle()
    element_ends(it, 2)
    assert it.running() == {"report-1"}


def test_a_restart_takes_the_place_of_the_elements_that_it_has() -> None:
    it = sweeping(After("sweep-1", ANY, element="0"), After("sweep-1", ANY, element="1"), After("slow-1"))
    it.submit("slow", "a")
    element_ends(it, 0, 0)
    element_ends(it, 1, 1)
    element_ends(it, 2, 0)
    again = Array(GroupSpec("runs", (task("main"),)), (1,), 3)
    it.submit("sweep", "a", spec=WorkflowSpec("sweep", array=again), parent="sweep-1")
    assert it.state.workflows["report-1"].after == (
        After("sweep-1", ANY, WorkflowStatus.COMPLETED, "0"),
        After("sweep-2", ANY, element="1"),
        After("slow-1"),
    )


# ---------------------------------------------------------------- holds


def test_a_workflow_on_hold_does_not_start_but_fails_with_the_one_it_waits_for() -> None:
    it = world()
    it.submit("other", "a", after=[After("train-1", FAIL)])
    for id in ("report-1", "other-1"):
        it.do(*put_on_hold(it.state, id, user="u").actions)
    ends(it, "train-1")
    assert it.status("report-1") == [Status.WAITING]
    assert it.state.workflows["other-1"].status is WorkflowStatus.FAILED
    it.do(*end_hold(it.state, "report-1").actions)
    it.cycle()
    assert it.running() == {"report-1"}


def test_the_end_of_a_hold_does_not_end_the_wait() -> None:
    it = world()
    it.do(*put_on_hold(it.state, "report-1", user="u").actions)
    it.do(*end_hold(it.state, "report-1").actions)
    assert it.status("report-1") == [Status.WAITING]
    ends(it, "train-1")
    assert it.running() == {"report-1"}


def test_a_restart_replaces_the_failed_workflow_while_others_wait_for_it() -> None:
    it = world(After("train-1", ANY), After("slow-1"))
    it.submit("slow", "a")
    it.cycle()
    ends(it, "train-1", 1)
    it.submit("train", "a", parent="train-1")
    assert it.state.workflows["report-1"].after == (After("train-2", ANY), After("slow-1"))
    it.cycle()
    it.cycle()
    ends(it, "slow-1")
    assert it.status("report-1") == [Status.WAITING]
    ends(it, "train-2")
    assert it.running() == {"report-1"}


def test_an_unfinished_workflow_is_not_replaced_by_its_repetition() -> None:
    it = world()
    it.submit("train", "a", parent="train-1")
    assert it.state.workflows["report-1"].after == (After("train-1"),)


def test_the_end_of_a_workflow_that_was_set_aside_counts() -> None:
    it = world(After("train-1", FAIL))
    it.do(*set_aside(it.state, "train-1", "boom").actions)
    it.do(*abandon(it.state, "train-1", user="u", message="m").actions)
    it.cycle()
    assert it.running() == {"report-1"}


def test_a_workflow_set_aside_continues_to_wait() -> None:
    it = world()
    it.do(*set_aside(it.state, "report-1", "boom").actions)
    ends(it, "train-1", 1)
    assert it.status("report-1") == [Status.WAITING]
    it.do(*end_hold(it.state, "report-1").actions)
    it.cycle()
    assert it.state.workflows["report-1"].status is WorkflowStatus.FAILED


@pytest.mark.parametrize("code", [0, 1])
def test_a_server_killed_between_the_end_and_its_effect_continues(code: int) -> None:
    it = world()
    it.finish("train-1", code)
    seen = it.observe()
    it.now += 1
    CycleInParts(it.state, seen, it.now).part()
    it.state.take_changes()
    assert "train-1" not in it.state.workflows
    again = World({"a": 8}, {"n0": 8})
    again.state, again.now = State.load(it.state.rows()), it.now
    assert again.state.dependents.decided == {"report-1"}
    again.cycle()
    assert again.status("report-1") == [Status.FAILED_UPSTREAM if code else Status.INITIALIZING]
    assert contradiction(again.state.rows()) is None or code


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("train-2", After("train-2")),
        ("train-2:any", After("train-2", ANY)),
        ("a-1:FAIL", After("a-1", FAIL)),
        ("a-1/0", After("a-1", element="0")),
        ("a-1/17:any", After("a-1", ANY, element="17")),
    ],
)
def test_after_is_an_id_and_an_outcome(text: str, after: After) -> None:
    assert parse_after(text) == after
    assert parse_after(str(after)) == after


@pytest.mark.parametrize(
    "text",
    [
        *("", ":", ":ok", "train-2:", "train-2:well", "train 2", "train-2:ok:any", "x" * 200, "-a"),
        *("a-1/", "a-1/x", "a-1/-1", "a-1/07", "a-1/1/2", "a-1/1-3", "a-1/\u0663", "a-1/1000000", "/7", "a-1:ok/7"),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not ID\[/INDEX\]\[:ok\|any\|fail\]"):
        parse_after(text)
