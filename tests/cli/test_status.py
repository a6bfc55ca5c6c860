"""`runrig status`: what of mine runs, waits or ended today, and my pools."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from runrig.domain.shown.access import Me
from runrig.domain.shown.why import WorkflowCause
from runrig.domain.shown.workflows import WorkflowHeadline
from runrig.wire.base import example_of
from tests.cli.canned_server import answered, at, entry, page, pool, refused, serving, workflow
from tests.worlds.command_line import lines
from tests.worlds.served import served
from tests.worlds.service import one_task

NOW = datetime.now(UTC)
LONG_AGO = (NOW - timedelta(days=2)).isoformat()
ALIVE = (
    entry("eval-2", status="PENDING", node=None, nodes=0, why=example_of(WorkflowHeadline)),
    entry("held-1", status="PENDING", node=None, nodes=0, held_by="bob"),
    entry("train-3", nodes=2),
)
ENDED = (
    entry("train-2", status="FAILED", end_time=NOW.isoformat(), node=None, nodes=0),
    entry("train-1", status="COMPLETED", end_time=LONG_AGO, node=None, nodes=0),
)
FAILED = workflow("FAILED", cause=example_of(WorkflowCause))


def answers() -> dict[str, Any]:
    return {
        "GET /api/v1/me": example_of(Me),
        "GET /api/v1/workflows": [(200, page(*ALIVE)), (200, page(*ALIVE, *ENDED))],
        "GET /api/v1/workflows/train-2": FAILED,
        "GET /api/v1/pools": page(pool("vision", used=6, available=2, low=1), pool("vision--a")),
    }


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")


def test_status_shows_pools_and_work_that_is_running_or_waiting_or_ended_today() -> None:
    with serving(answers()) as server:
        done = at(server, "status")
    cause = FAILED["cause"]["sentence"]
    rows = [" ".join(line.split()) for line in lines(done.out)]
    assert (done.code, rows[2:4]) == (0, ["vision 8 6 2 1 0", ""])
    assert rows[6:] == [
        "RUNNING train-3 4 of 6 NORMAL on n00 and 1 more; ran 12s",
        "PENDING eval-2 4 of 6 NORMAL quota: 2 GPUs left in vision, needs 4; waited 0.1s",
        "PENDING held-1 4 of 6 NORMAL on hold by bob; waited 0.1s",
        f"FAILED train-2 4 of 6 NORMAL ended {NOW.astimezone():%H:%M}, ran 12s; {cause}",
        "",
        "Nearest limit: pool vision has 2 of 8 GPUs of quota left.",
    ]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"cause": None, "message": "cannot start 'x'"}, "; cannot start 'x'"),
        ({"status": "FAILED_EXEC_TIMEOUT", "message": "time limit of 1h"}, "; time limit of 1h"),
        ({"cause": None, "message": ""}, ""),
    ],
)
def test_status_of_a_failure_without_a_cause_in_its_output_has_its_message(fields: dict[str, Any], why: str) -> None:
    failed = FAILED | fields
    ended = entry("train-2", status=failed["status"], end_time=NOW.isoformat(), node=None, nodes=0)
    found = {"GET /api/v1/workflows": [(200, page()), (200, page(ended))], "GET /api/v1/workflows/train-2": failed}
    with serving(answers() | found) as server:
        done = at(server, "status")
    assert f"ran 12s{why}\n" in done.out


def test_status_as_json_has_pools_and_workflows() -> None:
    answer = answered(answers(), "status", "-t", "json").json
    assert [each["id"] for each in answer["workflows"]] == ["train-3", "eval-2", "held-1", "train-2"]
    assert [each["name"] for each in answer["pools"]] == ["vision"]
    assert answer["workflows"][-1]["cause"] == FAILED["cause"]


def test_failed_workflow_deleted_in_the_meantime_is_shown_without_its_cause() -> None:
    gone = {"GET /api/v1/workflows/train-2": (404, refused("gone", "NOTFOUND"))}
    answer = answered(answers() | gone, "status", "-t", "json").json
    assert (answer["workflows"][-1]["id"], answer["workflows"][-1]["cause"]) == ("train-2", None)


def test_watched_status_cannot_be_json() -> None:
    done = answered({}, "status", "--watch", "-t", "json")
    assert (done.code, "cannot be used with -t json" in done.json["message"]) == (2, True)


def test_status_without_workflows_reports_that() -> None:
    nobody = example_of(Me) | {"default_pool": None}
    done = answered({"GET /api/v1/me": nobody, "GET /api/v1/workflows": page()}, "status")
    assert (done.code, done.out) == (
        0,
        "You have no workflows that run, wait or ended today. `runrig list` shows earlier ones.\n",
    )


def test_running_work_shows_the_time_left_of_the_group_that_ends_first(tmp_path: Path) -> None:
    text = one_task("train", duration=900).replace("  tasks:", "  timeout: {exec_timeout: 10m}\n  tasks:")
    with served(tmp_path) as there:
        there.submit(text, "--pool", "pool1")
        there.submit(one_task("free"), "--pool", "pool2")
        there.desk.later(0)
        there.desk.later(570)
        rows = [" ".join(line.split()) for line in lines(there.runrig("status").out)]
        assert [row for row in rows if "RUNNING" in row] == ["RUNNING train-1 1 NORMAL on n0; ran 9m30s; 30s left"]
        assert rows[-1] == "Nearest limit: train-1 reaches its run time limit in 30s."
        assert there.json("status")["nearest_limit"] == "train-1 reaches its run time limit in 30s"
        there.desk.later(30)
        there.desk.later(31)
        assert there.desk.status("train-1") == "FAILED_EXEC_TIMEOUT"
