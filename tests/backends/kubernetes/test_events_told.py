"""What users are told: our own lines, and between them what programs of the cluster noted."""

from pathlib import Path
from typing import Any

import pytest

from runrig.domain.observed import ClusterEvent
from runrig.domain.workflows import TaskKey
from tests.api.client import api
from tests.cli.canned_server import at, page, serving
from tests.worlds.service import T0, one_task

MAIN = TaskKey("a-1", "main", 0)
OTHER = TaskKey("a-1", "other", 1)
NOTED = (
    ClusterEvent(T0 + 0.5, None, "main-group", "kai-scheduler", "Unschedulable", "no node"),
    ClusterEvent(T0, MAIN, "main-group", "kubelet", "Pulling", 'Pulling image "x"'),
    ClusterEvent(T0 + 1, OTHER, "main-group", "kubelet", "BackOff", "again\x1b[31m", count=7),
    ClusterEvent(T0 + 50, None, "", "runrig", "Dropped", "more"),
)
"""In the order of `latest`."""
UNSCHEDULABLE = "kai-scheduler: group main-group: Unschedulable: no node"
PULLING = 'kubelet: task main (attempt 0): Pulling image "x"'
BACKOFF = "kubelet: task other (attempt 1): BackOff: again\x1b[31m (x7)"
DAY = "2027-01-15"


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.worlds.service.Backend.events", lambda _, workflow: NOTED if workflow == "a-1" else ())


@pytest.mark.usefixtures("noted")
def test_cluster_events_are_merged_by_time(tmp_path: Path) -> None:
    """Ours keep their order, and what is told to the second stands behind what we did in it."""
    with api(tmp_path) as it:
        it.submit(one_task("a", duration=5))
        it.desk.later(0)
        it.desk.later(10)
        start, second, end = f"{DAY} 08:00:00.000000", f"{DAY} 08:00:01.000000", f"{DAY} 08:00:10.000000"
        assert it.get("/api/workflow/a-1/events").splitlines() == [
            f"{start}  a-1 submitted to pool pool1 by ann (priority NORMAL)",
            f"{start}  a-1 queued in pool pool1",
            f"{start}  a-1 admitted on n0 (GPU 0)",
            f"{start}  task main (attempt 0) is RUNNING",
            f"{start}  group main-group is RUNNING",
            f"{start}  a-1 is RUNNING",
            f"{DAY} 08:00:00.500000  {UNSCHEDULABLE}",
            f"{start}  {PULLING}",
            f"{second}  {BACKOFF}",
            f"{end}  task main (attempt 0) is COMPLETED with exit code 0",
            f"{end}  a-1 released its resources",
            f"{end}  group main-group is COMPLETED",
            f"{end}  a-1 is COMPLETED",
            f"{DAY} 08:00:50.000000  runrig: Dropped: more",
        ]
        assert "kubelet" not in it.get(f"/api/workflow/{it.submit(one_task('b'))['name']}/events")


@pytest.mark.usefixtures("noted")
def test_task_or_attempt_shows_only_its_own_events(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        it.submit(one_task("a"))
        it.desk.later(0)
        run = f"{DAY} 08:00:00.000000  task main (attempt 0) is RUNNING"
        pulled, backoff = f"{DAY} 08:00:00.000000  {PULLING}", f"{DAY} 08:00:01.000000  {BACKOFF}"
        asked: list[tuple[dict[str, Any], list[str]]] = [
            ({"task_name": "main"}, [run, pulled]),
            ({"task_name": "other"}, [backoff]),
            ({"retry_id": 1}, [backoff]),
            ({"task_name": "main", "retry_id": 0}, [run, pulled]),
        ]
        for query, lines in asked:
            assert it.get("/api/workflow/a-1/events", **query).splitlines() == lines, query
        missing = it.http.get("/api/workflow/a-1/events", params={"task_name": "main", "retry_id": 1})
        said = "a-1 has no such attempt. Attempts so far: main 1"
        assert (missing.status_code, missing.json()["message"]) == (404, said)


@pytest.mark.usefixtures("noted")
def test_events_name_the_reporting_program_and_have_no_control_characters(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        it.submit(one_task("a"))
        it.desk.later(0)
        found = it.get("/api/v1/workflows/a-1/events")["items"]
    ours, backoff = found[0], next(each for each in found if each["kind"] == "BackOff")
    assert (ours["actor"], ours["kind"], ours["law"]) == ("ann", "Submit", "P3")
    assert backoff == {
        "revision": None,
        "seq": None,
        "time": f"{DAY}T08:00:01Z",
        "actor": "kubelet",
        "kind": "BackOff",
        "law": "",
        "text": BACKOFF,
    }
    with serving({"GET /api/v1/workflows/w/events": page(backoff)}) as server:
        said = at(server, "workflow", "events", "w").out
    assert "  kubelet: task other (attempt 1): BackOff: again (x7)\n" in said
    assert "\x1b" not in said


def test_events_of_one_second_keep_the_order_of_the_cluster_on_every_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("Pulling", "Created", "BackOff")  # not alphabetically
    noted = [
        ClusterEvent(T0, MAIN, "main-group", "kubelet", each, "x", version=number) for number, each in enumerate(words)
    ]
    monkeypatch.setattr("tests.worlds.service.Backend.events", lambda _, workflow: tuple(noted))
    with api(tmp_path) as it:
        it.submit(one_task("a"))
        it.desk.later(0)
        found, cursor = [], None
        while True:
            page = it.get("/api/v1/workflows/a-1/events", limit=1, **({"cursor": cursor} if cursor else {}))
            found += [each["kind"] for each in page["items"] if each["revision"] is None]
            if (cursor := page["next_cursor"]) is None:
                break
    assert found == list(words)
