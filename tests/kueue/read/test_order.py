"""Submission order: creation times if given, otherwise the order of the file."""

from typing import Any

import pytest

from runrig.kueue.declared import Workload
from tests.worlds.manifests import home, job, read, workload

LATEST = "2026-04-01T12:00:00Z"
HOLDS = {"admission": {"clusterQueue": "cq", "podSetAssignments": [{"flavors": {"cpu": "f"}}]}}


def order(*documents: Any) -> list[str]:
    """Names in queue order."""
    found: list[Workload] = sorted(read(*home(), *documents).system.workloads, key=lambda each: each.queued_at)
    times = {each.queued_at for each in found}
    assert len(times) == len(found), "two were submitted at the same time"
    return [each.name.removeprefix("default/") for each in found]


@pytest.mark.parametrize("names", [("a", "b", "c"), ("c", "b", "a"), ("j9", "j10", "j1")])
def test_objects_without_a_time_are_submitted_in_file_order(names: tuple[str, ...]) -> None:
    assert order(*(job(name, {}) for name in names)) == list(names)
    assert order(*(workload(name) for name in names)) == list(names)
    assert order({"apiVersion": "v1", "kind": "List", "items": [job(name, {}) for name in names]}) == list(names)


def test_objects_without_a_time_come_after_all_times_in_the_file() -> None:
    dated = workload("dated", meta={"creationTimestamp": LATEST})
    assert order(job("b", {}), job("a", {}), dated) == ["dated", "b", "a"]


def test_running_workloads_were_submitted_before_pending_ones() -> None:
    assert order(workload("b"), workload("run2", status=HOLDS), workload("a"), workload("run1", status=HOLDS)) == [
        "run2",
        "run1",
        "b",
        "a",
    ]


def test_the_order_holds_for_many_objects_and_distant_times() -> None:
    late = workload("late", meta={"creationTimestamp": "9999-12-31T23:59:59Z"})
    names = [f"j{at}" for at in range(300, 0, -1)]
    assert order(late, *(job(name, {}) for name in names)) == ["late", *names]
