"""What people are told about workflows: how those that run stand, and what each asks for."""

from dataclasses import replace
from pathlib import Path

import pytest

from runrig.domain.errors import NotFound
from runrig.domain.gangs import Priority
from runrig.domain.shown.workflows import PodCount
from runrig.domain.workflows import Status, Task
from runrig.ports.store import WorkflowQuery
from runrig.service.queries.failures import first_failed
from tests.worlds.service import Desk, desk, do, one_task
from tests.worlds.workflow_files import WIDE

HIGH, LOW = Priority.HIGH, Priority.LOW

SUBPOOLS = """
pools:
- {name: team, quota: 4, subpools: [{name: a, quota: 2}]}
- {name: other, quota: 2}
"""
CHAIN = """
workflow:
  name: chain
  tasks:
  - {name: first, image: any, command: [ls], duration: 100, resource: one, count: 2}
  - {name: second, image: any, command: [ls], duration: 100, resource: four, inputs: [task: first]}
  resources:
    one: {gpu: 1}
    four: {gpu: 4}
"""


def said(it: Desk, id: str) -> str:
    return it.service.workflow_queries.why(id).sentence


def test_running_guaranteed_work_is_never_preempted(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        it.submit("a", gpus=2)
        it.submit("b", "pool2", HIGH)
        it.later(0)
        assert said(it, "a-1") == "a-1 is RUNNING on n0 (2 GPUs). It cannot be preempted (priority NORMAL)."
        assert said(it, "b-1") == "b-1 is RUNNING on n0 (1 GPU). It cannot be preempted (priority HIGH)."


def told(it: Desk, id: str) -> tuple[str, str, str]:
    """What `why`, the list and the workflow itself say."""
    queries = it.service.workflow_queries
    (entry,) = queries.with_headlines(queries.workflows(WorkflowQuery(name=id))[0])
    return said(it, id), "" if entry.why is None else entry.why.headline, queries.workflow(id).message


def test_work_that_is_stopping_says_so_and_why(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        text = one_task("late").replace("  tasks:", "  timeout: {exec_timeout: 10s}\n  tasks:")
        it.submit("late", "pool2", gpus=2, text=text)
        it.submit("a", gpus=2)
        it.submit("low", priority=LOW)
        it.later(0)
        assert told(it, "late-1")[1:] == ("", "")
        do(it.service, it.service.submissions.cancelling("a-1", user="bob"))
        it.submit("b", "pool2", HIGH)
        it.later(10)
        for id, why in (
            ("late-1", "ran longer than its time limit of 10s (--time, or exec_timeout)"),
            ("a-1", "cancelled by bob"),
        ):
            assert told(it, id) == (f"{id} is stopping: {why}.", f"stopping: {why}", f"stopping: {why}")


def test_running_low_work_reports_whether_it_can_be_reclaimed(tmp_path: Path) -> None:
    """R1, R2."""
    with desk(tmp_path) as it:
        it.submit("a", priority=LOW, gpus=2)
        it.later(0)
        assert said(it, "a-1") == (
            "a-1 is RUNNING on n0 (2 GPUs). "
            "It is within its pool's quota; only HIGH and NORMAL workflows of pool pool1 can preempt it."
        )
        it.submit("b", priority=LOW)
        it.later(0)
        for id, gpus in (("a-1", "2 GPUs"), ("b-1", "1 GPU")):
            borrows = "Pool pool1 is borrowing 1 GPU, which the lending pools can reclaim."
            assert said(it, id) == f"{id} is RUNNING on n0 ({gpus}). {borrows}"


def test_low_work_in_a_pool_with_subpools_names_the_pools_that_can_preempt_it(tmp_path: Path) -> None:
    """R2: between siblings the subpool counts, before other pools the parent, before its subpools what they leave over."""
    with desk(tmp_path, gpus=6, cluster=SUBPOOLS) as it:
        it.submit("over", "team", LOW, gpus=3)
        it.later(0)
        assert said(it, "over-1").endswith(
            "only HIGH and NORMAL workflows of pool team and its subpools can preempt it."
        )
    (tmp_path / "within").mkdir()
    with desk(tmp_path / "within", gpus=6, cluster=SUBPOOLS) as it:
        it.submit("own", "team", LOW)
        it.submit("sub", "team--a", LOW, gpus=3)
        it.later(0)
        assert said(it, "own-1").endswith("only HIGH and NORMAL workflows of pool team can preempt it.")
        assert said(it, "sub-1").endswith(". Pool team--a is borrowing 1 GPU, which the lending pools can reclaim.")
        it.submit("more", "team", LOW, gpus=2)
        it.later(0)
        assert said(it, "sub-1").endswith(". Pool team is borrowing 2 GPUs, which the lending pools can reclaim.")


def test_group_waiting_for_a_running_group_is_not_a_blocker(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        id = it.submit("chain", priority=LOW, text=CHAIN)
        it.later(0)
        assert said(it, id).startswith(f"{id} is RUNNING on n0 (2 GPUs). ")
        it.submit("b", "pool2", gpus=2)
        it.later(100)
        assert said(it, id).startswith(f"{id} is waiting: needs 4 GPUs, but the cluster has only 2 GPUs of idle quota")


def test_work_without_gpus_holds_none(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        it.submit("a", text=one_task("a").replace("gpu: 1", "cpu: 1"))
        it.later(0)
        assert said(it, "a-1") == "a-1 is RUNNING on n0 (no GPUs). It cannot be preempted (priority NORMAL)."


def test_list_shows_requests_with_all_pods(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        it.submit("chain", priority=LOW, text=CHAIN)
        it.submit("a", gpus=2)
        it.submit("b", text=one_task("b").replace("gpu: 1", "cpu: 1"))
        it.later(0)
        for _ in range(2):  # read once, then cached
            page, more = it.service.workflow_queries.workflows(WorkflowQuery())
            assert ([(each.id, each.gpus, each.gpus_asked) for each in page], more) == (
                [("b-1", 0, 0), ("a-1", 2, 2), ("chain-1", 2, 6)],
                False,
            )


def test_requeued_workflow_that_restarts_smaller_is_shown_with_its_current_size(tmp_path: Path) -> None:
    """Law A3: the third worker has an attempt, but not of now."""
    with desk(tmp_path, gpus=17, cluster="pools: [{name: pool1, quota: 17}]") as it:
        wide = it.submit("wide", priority=LOW, text=WIDE)

        def shown() -> tuple[int | None, int | None, tuple[PodCount, ...]]:
            queries = it.service.workflow_queries
            ((listed,), _) = queries.workflows(WorkflowQuery(name="wide"))
            return listed.gpus, listed.gpus_asked, queries.workflow(wide).groups[0].pods

        it.later(0)
        assert shown() == (17, 17, (PodCount("worker", 3, 1, 3),))
        it.submit("high", priority=HIGH, gpus=11, duration=50)
        it.submit("more", priority=HIGH, gpus=5, duration=1000)
        it.later(10)
        it.later(10)  # it has stopped
        assert (it.status("high-1"), it.status("more-1")) == ("RUNNING", "RUNNING")
        assert shown() == (17, 17, (PodCount("worker", 3, 1, None),))
        it.later(60)
        assert shown() == (12, 17, (PodCount("worker", 3, 1, 2),))


def test_workflow_that_never_started_has_no_admitted_pods(tmp_path: Path) -> None:
    with desk(tmp_path, gpus=17, cluster="pools: [{name: pool1, quota: 17}]") as it:
        it.submit("all", priority=HIGH, gpus=17)
        wide = it.submit("wide", priority=LOW, text=WIDE)
        it.later(0)
        do(it.service, it.service.submissions.cancelling(wide, user="ann"))
        it.later(1)
        shown = it.service.workflow_queries.workflow(wide)
        assert (shown.status, shown.groups[0].pods) == ("FAILED_CANCELED", (PodCount("worker", 3, 1, None),))


def test_failed_workflow_lists_tasks_that_failed_by_themselves_in_order() -> None:
    ended = Task("bad-1", "good", 0, "g", "good", 0, lead=True, status=Status.COMPLETED, exit_code=0, end_time=1.0)
    late = replace(ended, name="late", status=Status.FAILED, exit_code=3, end_time=9.0)
    first = replace(ended, name="first", status=Status.FAILED, exit_code=7, end_time=5.0)
    canceled = replace(ended, name="canceled", status=Status.FAILED_CANCELED, exit_code=None, end_time=2.0)
    assert first_failed((ended, late, first, canceled)) == [first, late]
    assert first_failed((ended, canceled)) == []


def test_pool_has_its_own_reasons_and_a_hidden_pool_is_not_found(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        for at in range(5):
            it.submit(f"w{at}", gpus=2)
        it.later(0)
        found = it.service.workflow_queries.pool_why("pool1")
        assert [(each.reason.code.value, each.gangs, each.gpus, each.first) for each in found.held] == [
            ("QuotaFull", 4, 8, ("w1-1", "w2-1", "w3-1"))
        ]
        with pytest.raises(NotFound, match="unknown pool 'pool9'"):
            it.service.workflow_queries.pool_why("pool9")


def test_overtaken_workflow_shows_by_how_many_even_after_a_restart(tmp_path: Path) -> None:
    """P4: of its pool, submitted later, started since; that they have ended changes nothing."""
    with desk(tmp_path) as it:
        it.submit("runs", gpus=1)
        it.later(0)
        it.submit("head", gpus=2)
        it.submit("high", gpus=1, priority=Priority.HIGH, duration=5)
        it.later(0)
        it.later(10)
        for name in ("one", "two"):
            it.submit(name, gpus=1, duration=5)
            it.later(0)
            it.later(10)
        assert it.status("two-1") == "COMPLETED"
        told = it.service.workflow_queries.why("head-1")
        assert told.groups[0].passed == 2
        now = it.time[0]
    with desk(tmp_path, cluster=None, time=now) as it:
        assert it.service.workflow_queries.why("head-1") == told


def test_no_workflow_is_overtaken_in_a_strict_queue(tmp_path: Path) -> None:
    """P4: those that passed it before the pool became STRICT_FIFO are no reason any more."""
    with desk(tmp_path, cluster="pools: [{name: pool1, quota: 2, queueing: STRICT_FIFO}]") as it:
        it.submit("runs", gpus=1)
        it.later(0)
        it.submit("head", gpus=2)
        it.submit("small", gpus=1)
        it.later(0)
        assert [it.service.workflow_queries.why(id).groups[0].passed for id in ("head-1", "small-1")] == [0, 0]


@pytest.mark.parametrize("priority", list(Priority))
def test_high_work_waiting_for_quota_learns_that_it_cannot_borrow(tmp_path: Path, priority: Priority) -> None:
    with desk(tmp_path, cluster="pools: [{name: pool1, quota: 2}, {name: pool2, quota: 2}]") as it:
        it.submit("first", gpus=2)
        it.service.settle()
        it.submit("second", priority=priority, gpus=2)
        it.service.settle()
        sentence = it.service.workflow_queries.why("second-1").sentence
        waits = (
            "second-1 is waiting: needs 2 GPUs, but pool pool1 has no quota left; in use by first-1.{} "
            "Position 1 in pool pool1."
        )
        never = " HIGH workflows never borrow." if priority is Priority.HIGH else ""
        assert (sentence == waits.format(never)) is (priority is not Priority.LOW)
