"""Workflows that wait for others, at our own door (rule W5)."""

from pathlib import Path
from typing import Any

from tests.api.client import Api, api
from tests.api.v1.ours import problem
from tests.worlds.service import one_task


def _submit(it: Api, name: str, *after: str) -> Any:
    return it.http.post("/api/v1/workflows", json={"pool": "pool1", "file": one_task(name), "after": list(after)})


def _end(it: Api, id: str) -> None:
    assert it.http.post(f"/api/v1/workflows/{id}/cancel", json={}).status_code == 200
    it.desk.later(1)
    it.desk.later(31)
    it.desk.service.settle()


def test_workflow_names_the_one_it_waits_for_and_starts_when_that_has_ended(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        _submit(it, "train")
        it.desk.service.settle()
        assert _submit(it, "report", "train-1:fail").status_code == 201
        it.desk.service.settle()
        why = it.http.get("/api/v1/workflows/report-1/why").json()
        assert why["sentence"] == "report-1 is waiting: train-1 must fail first."
        assert [(each["reason"]["code"], each["reason"]["law"]) for each in why["groups"][0]["blockers"]] == [
            ("WaitsForWorkflow", "W5")
        ]
        shown = it.http.get("/api/v1/workflows/report-1").json()
        assert shown["after"] == [{"id": "train-1", "when": "fail", "ended": None}]
        _end(it, "train-1")
        shown = it.http.get("/api/v1/workflows/report-1").json()
        assert (shown["status"], shown["after"][0]["ended"]) == ("RUNNING", "FAILED_CANCELED")


def test_restart_waits_for_the_latest_restart_of_a_failed_workflow(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        _submit(it, "train")
        _submit(it, "report", "train-1")
        _end(it, "train-1")
        ended = it.http.get("/api/v1/workflows/report-1").json()
        assert (ended["status"], ended["message"]) == (
            "FAILED",
            "train-1 is FAILED_CANCELED, and had to complete first",
        )
        again = {"pool": "pool1", "failed_only": True}
        refused = problem(it.http.post("/api/v1/workflows/report-1/repeat", json=again), 400, "RESOURCE")
        assert refused["detail"].startswith("report can never start: train-1 is FAILED_CANCELED")
        assert it.http.post("/api/v1/workflows/train-1/repeat", json=again).status_code == 201
        assert it.http.post("/api/v1/workflows/report-1/repeat", json=again).status_code == 201
        shown = it.http.get("/api/v1/workflows/report-2").json()
        assert shown["after"] == [{"id": "train-2", "when": "ok", "ended": None}]


def test_missing_and_unreadable_workflows_are_refused(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        _submit(it, "train")
        unknown = problem(_submit(it, "report", "trian-1"), 404, "NOTFOUND")
        assert unknown["detail"] == "workflow 'trian-1' not found. Did you mean 'train-1'?"
        wrong = problem(_submit(it, "report", "train-1:well"), 422, "USAGE")
        assert "'train-1:well' is not ID[/INDEX][:ok|any|fail]" in wrong["detail"]
        assert it.http.get("/api/v1/workflows/report-1").status_code == 404


_SWEEP = """
workflow:
  name: sweep
  groups:
    - name: runs
      array: {indices: "0,7"}
      tasks: [{name: main, image: i, command: ["true"], resource: one}]
  resources: {one: {gpu: 1}}
"""


def test_an_element_can_be_waited_for_and_its_restart_after_the_array_ended(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        assert it.http.post("/api/v1/workflows", json={"pool": "pool1", "file": _SWEEP}).status_code == 201
        _submit(it, "train")
        it.desk.service.settle()
        for wrong, status, code, said in (
            ("sweep-1/3", 404, "NOTFOUND", "sweep-1 has no element '3'. Its elements are 0, 7"),
            ("train-1/0", 409, "CONFLICT", "train-1 is not an array: it has no elements"),
            ("swep-1/7", 404, "NOTFOUND", "workflow 'swep-1' not found. Did you mean 'sweep-1'?"),
            ("sweep-1/x", 422, "USAGE", "'sweep-1/x' is not ID[/INDEX][:ok|any|fail]"),
        ):
            assert said in problem(_submit(it, "report", wrong), status, code)["detail"]
        assert _submit(it, "report", "sweep-1/7:any", "train-1").status_code == 201
        shown = it.http.get("/api/v1/workflows/report-1").json()
        assert shown["after"][0] == {"id": "sweep-1/7", "when": "any", "ended": None}
        why = it.http.get("/api/v1/workflows/report-1/why").json()
        assert why["sentence"] == "report-1 is waiting: sweep-1/7 must end first."
        assert it.http.post("/api/v1/workflows/sweep-1/elements/7/cancel", json={}).status_code == 200
        _end(it, "sweep-1")
        shown = it.http.get("/api/v1/workflows/report-1").json()
        assert (shown["status"], shown["after"][0]["ended"]) == ("PENDING", "FAILED_CANCELED")
        refused = problem(_submit(it, "late", "sweep-1/7"), 400, "RESOURCE")
        assert refused["detail"].startswith("late can never start: sweep-1/7 is FAILED_CANCELED")
        again = {"pool": "pool1", "failed_only": True}
        assert it.http.post("/api/v1/workflows/sweep-1/repeat", json=again).status_code == 201
        shown = it.http.get("/api/v1/workflows/report-1").json()
        assert shown["after"][0] == {"id": "sweep-2/7", "when": "any", "ended": None}
