"""The three examples of scheduling.md on both backends, through the service, the store and real or virtual tasks."""

from pathlib import Path

import pytest

from runrig.domain.gangs import Priority
from tests.end_to_end.server import server

HIGH, NORMAL, LOW = Priority.HIGH, Priority.NORMAL, Priority.LOW
BACKENDS = pytest.mark.parametrize("backend", ["local", "simulated"])
ONE_POOL = "pools: [{name: pool, quota: 2}]"
TWO_POOLS = "pools: [{name: pool1, quota: 2}, {name: pool2, quota: 2}]"


@BACKENDS
def test_the_queue_is_ordered_by_priority_and_then_by_submit_time(tmp_path: Path, backend: str) -> None:
    with server(tmp_path / "data", backend, gpus=2, cluster=ONE_POOL) as here:
        wf1, wf2 = here.submit("wf1", "pool", NORMAL), here.submit("wf2", "pool", NORMAL)
        here.wait_for(wf1, "RUNNING")
        here.wait_for(wf2, "RUNNING")
        wf3, wf4, wf5, wf6 = (
            here.submit(name, "pool", priority)
            for name, priority in (("wf3", LOW), ("wf4", NORMAL), ("wf5", HIGH), ("wf6", NORMAL))
        )
        for ends, starts in ((wf1, wf5), (wf2, wf4), (wf5, wf6), (wf4, wf3)):
            here.finish(ends)
            here.wait_for(starts, "RUNNING")
        assert here.started() == ["wf1", "wf2", "wf5", "wf4", "wf6", "wf3"]


@BACKENDS
def test_a_preempted_workflow_is_requeued_ahead_of_later_ones(tmp_path: Path, backend: str) -> None:
    with server(tmp_path / "data", backend, gpus=2, cluster=ONE_POOL) as here:
        wf1, wf2 = here.submit("wf1", "pool", LOW), here.submit("wf2", "pool", NORMAL)
        here.wait_for(wf1, "RUNNING")
        here.wait_for(wf2, "RUNNING")
        wf3, wf4 = here.submit("wf3", "pool", LOW), here.submit("wf4", "pool", LOW)
        wf5 = here.submit("wf5", "pool", NORMAL)
        here.wait_for(wf5, "RUNNING")
        assert (here.status(wf1), here.attempts(wf1)) == ("PENDING", ["FAILED_PREEMPTED", "SCHEDULING"])
        for ends, starts in ((wf2, wf1), (wf5, wf3), (wf1, wf4)):
            here.finish(ends)
            here.wait_for(starts, "RUNNING")
        assert here.started()[2:] == ["wf5", "wf1", "wf3", "wf4"]
        assert here.attempts(wf1) == ["FAILED_PREEMPTED", "COMPLETED"]


@BACKENDS
def test_a_pool_reclaims_exactly_what_it_lent(tmp_path: Path, backend: str) -> None:
    with server(tmp_path / "data", backend, gpus=4, cluster=TWO_POOLS) as here:
        wf1, wf2, wf4 = (
            here.submit("wf1", "pool1", NORMAL),
            here.submit("wf2", "pool1", LOW),
            here.submit("wf4", "pool2", NORMAL),
        )
        for workflow in (wf1, wf2, wf4):
            here.wait_for(workflow, "RUNNING")
        wf3 = here.submit("wf3", "pool1", LOW)
        here.wait_for(wf3, "RUNNING")
        wf5 = here.submit("wf5", "pool2", NORMAL)
        here.wait_for(wf5, "RUNNING")
        assert here.attempts(wf3) == ["FAILED_PREEMPTED", "SCHEDULING"]
        assert here.attempts(wf2) == ["RUNNING"]
        here.finish(wf4)
        here.wait_for(wf3, "RUNNING")
        here.finish(wf3)
        assert here.attempts(wf3) == ["FAILED_PREEMPTED", "COMPLETED"]
