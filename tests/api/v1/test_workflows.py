"""Workflows at our own door."""

from pathlib import Path
from typing import Any

import pytest

from tests.api.client import Api, api
from tests.api.v1.ours import page_through, problem
from tests.worlds.service import one_task


def _submit(it: Api, name: str = "x", pool: str = "pool1", **more: Any) -> Any:
    headers = more.pop("headers", {})
    return it.http.post("/api/v1/workflows", json={"pool": pool, "file": one_task(name), **more}, headers=headers)


def test_workflow_is_submitted_shown_and_cancelled(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        made = _submit(it, priority="LOW", environment={"SEED": "1=2", "EMPTY": ""})
        assert (made.status_code, made.headers["location"]) == (201, "/api/v1/workflows/x-1")
        assert made.json() == {"id": "x-1", "warnings": []}
        it.desk.service.settle()
        found = it.http.get(made.headers["location"]).json()
        assert (found["id"], found["pool"], found["priority"], found["status"]) == ("x-1", "pool1", "LOW", "RUNNING")
        assert found["submit_time"].endswith("Z")
        assert (found["end_time"], found["message"], found["repeats"]) == (None, "", None)
        (group,) = found["groups"]
        assert [(task["name"], task["attempt"], task["exit_code"]) for task in group["tasks"]] == [("main", 0, None)]
        spec = it.http.get("/api/v1/workflows/x-1/spec").text
        assert spec == one_task("x")
        stored = it.desk.service.workflow_queries.spec("x-1").spec
        assert [dict(task.environment) for group in stored.groups for task in group.tasks] == [
            {"SEED": "1=2", "EMPTY": ""}
        ]
        stopped = it.http.post("/api/v1/workflows/x-1/cancel", json={"message": "wrong data"})
        assert (stopped.status_code, stopped.json()) == (200, {"id": "x-1"})
        it.desk.later(1)
        it.desk.later(31)
        ended = it.http.get("/api/v1/workflows/x-1").json()
        assert (ended["status"], ended["cancelled_by"]) == ("FAILED_CANCELED", "ann")
        problem(it.http.post("/api/v1/workflows/x-1/cancel", json={}), 409, "CONFLICT")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"file": one_task("x")}, 422, "USAGE"),
        ({"pool": "nope", "file": one_task("x")}, 404, "NOTFOUND"),
        ({"pool": "pool1", "file": "workflow: {nam: x}"}, 422, "USAGE"),
        ({"pool": "pool1", "file": one_task("x"), "environment": {"A=B": "c"}}, 422, "USAGE"),
        ({"pool": "pool1", "file": one_task("x"), "priority": "URGENT"}, 422, "USAGE"),
        ({"pool": "pool1", "file": one_task("x"), "dry_run": True}, 422, "USAGE"),
        ({"pool": "pool1", "file": one_task("x", gpus=3)}, 400, "RESOURCE"),
    ],
)
def test_refused_submission_stores_nothing(quiet: Api, body: Any, status: int, code: str) -> None:
    problem(quiet.http.post("/api/v1/workflows", json=body), status, code)


def test_check_stores_nothing(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        revision = it.desk.revision
        found = it.http.post("/api/v1/workflows:check", json={"pool": "pool1", "file": one_task("x")})
        group = {"group": "main-group", "verdict": "STARTS", "nodes": ["n0"], "stops": [], "reasons": []}
        verdict = {"verdict": "STARTS", "sentence": "would start now on n0", "groups": [group]}
        assert found.json() == {"id": "x-?", "file": one_task("x"), "warnings": [], "verdict": verdict}
        rendered = it.http.post("/api/v1/workflows:render", json={"pool": "pool1", "file": one_task("x")}).json()
        assert {each["metadata"].get("namespace") for each in rendered["objects"] if each["kind"] == "Pod"} == {
            "runrig"
        }
        assert it.desk.revision == revision


def test_rendered_objects_name_pull_registries_and_contain_no_values(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        values = {"registry": "nvcr.io", "auth": "s3cr3t-canary"}
        it.http.put("/api/v1/credentials/ngc", json={"type": "REGISTRY", "values": values})
        file = one_task("x").replace("image: any", "image: nvcr.io/team/x")
        answer = it.http.post("/api/v1/workflows:render", json={"pool": "pool1", "file": file})
        (secret,) = [each for each in answer.json()["objects"] if each["kind"] == "Secret"]
        assert secret["stringData"] == {".dockerconfigjson": '{"auths": {"nvcr.io": {"auth": "(hidden)"}}}'}
        assert "canary" not in answer.text


def test_file_of_a_workflow_is_submitted_again(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        _submit(it)
        problem(
            it.http.post("/api/v1/workflows/x-1/repeat", json={"pool": "pool1", "failed_only": True}), 409, "CONFLICT"
        )
        made = it.http.post("/api/v1/workflows/x-1/repeat", json={"pool": "pool2", "priority": "LOW"})
        assert (made.status_code, made.headers["location"]) == (201, "/api/v1/workflows/x-2")
        found = it.http.get("/api/v1/workflows/x-2").json()
        assert (found["repeats"], found["pool"], found["priority"]) == ("x-1", "pool2", "LOW")


def test_pages_of_workflows_are_stable(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        for number in range(5):
            it.desk.time[0] += number % 2  # some have the same time
            _submit(it, f"w{number}")
        ids = [each["id"] for page in page_through(it, "/api/v1/workflows", 2) for each in page]
        assert ids == ["w4-1", "w3-1", "w2-1", "w1-1", "w0-1"] or sorted(ids) == [f"w{n}-1" for n in range(5)]
        first = it.http.get("/api/v1/workflows", params={"limit": 2}).json()
        it.desk.time[0] += 1
        _submit(it, "new")
        seen = [each["id"] for each in first["items"]]
        rest = it.http.get("/api/v1/workflows", params={"limit": 9, "cursor": first["next_cursor"]}).json()
        assert (seen + [each["id"] for each in rest["items"]], rest["next_cursor"]) == (ids, None)


def test_workflows_are_filtered(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        _submit(it, "a", priority="LOW")
        _submit(it, "b", pool="pool2")

        def ids(**query: Any) -> list[str]:
            return [each["id"] for page in page_through(it, "/api/v1/workflows", 10, **query) for each in page]

        assert ids(pool=["pool2"]) == ["b-1"]
        assert ids(priority=["LOW"]) == ["a-1"]
        problem(it.http.get("/api/v1/workflows", params={"user": ["nobody"]}), 404, "NOTFOUND")
        problem(it.http.get("/api/v1/workflows", params={"pool": ["pool1", "pol1"]}), 404, "NOTFOUND")
        assert ids(name="A") == ["a-1"]
        assert sorted(ids(status=["PENDING", "RUNNING"])) == ["a-1", "b-1"]
        problem(it.http.get("/api/v1/workflows", params={"status": "STOPPED"}), 422, "USAGE")


def test_list_includes_reasons_on_request(tmp_path: Path) -> None:
    """Only of those that wait: of the one that runs, and of the one that has ended, nothing."""
    with api(tmp_path) as it:
        for name, gpus in (("a", 2), ("b", 2), ("c", 1), ("d", 1)):
            it.desk.time[0] += 1
            it.http.post("/api/v1/workflows", json={"pool": "pool1", "file": one_task(name, gpus=gpus)})
        it.http.post("/api/v1/workflows/d-1/cancel", json={})
        it.desk.service.settle()

        def whys(**query: Any) -> dict[str, Any]:
            items = it.http.get("/api/v1/workflows", params=query).json()["items"]
            return {each["id"]: each["why"] for each in items}

        assert whys() == dict.fromkeys(("d-1", "c-1", "b-1", "a-1"))
        told = whys(why=True, limit=1000)
        assert (told.pop("a-1"), told.pop("d-1")) == (None, None)
        assert told["c-1"] == {
            "verdict": "WAITS",
            "headline": "quota: 0 GPUs left in pool1, needs 1",
            "sentence": it.http.get("/api/v1/workflows/c-1/why").json()["groups"][0]["reasons"][0]["sentence"],
            "code": "QuotaFull",
            "law": "P2",
        }
        assert [each["headline"] for each in told.values()] == [
            f"quota: 0 GPUs left in pool1, needs {n}" for n in (1, 2)
        ]


def test_page_with_reasons_is_smaller(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        for at in range(0, 102, 34):
            batch = [{"file": one_task(f"w{at + n}", gpus=1)} for n in range(34)]
            assert (
                it.http.post("/api/v1/workflows:batch", json={"pool": "pool1", "workflows": batch}).status_code == 200
            )
        pages = list(page_through(it, "/api/v1/workflows", 1000, why=True))
        assert [len(page) for page in pages] == [100, 2]


def test_event_pages_together_equal_the_whole_log(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        _submit(it)
        it.desk.service.settle()
        path = "/api/v1/workflows/x-1/events"
        whole = it.http.get(path, params={"limit": 1000}).json()["items"]
        assert [event["kind"] for event in whole][:2] == ["Submit", "MoveGroup"] or whole[0]["kind"] == "Submit"
        assert [event for page in page_through(it, path, 2) for event in page] == whole
        assert all(event["time"].endswith("Z") for event in whole)
