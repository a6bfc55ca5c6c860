"""Arrays at our own door: what is shown of them, and what can be changed (rule W4)."""

from pathlib import Path
from typing import Any

from tests.api.client import Api, api
from tests.api.v1.ours import problem
from tests.worlds.workflow_files import sweep


def _post(it: Api, where: str, **body: Any) -> Any:
    return it.http.post(f"/api/v1/workflows{where}", json=body)


def _get(it: Api, where: str, **query: Any) -> Any:
    return it.http.get(f"/api/v1/workflows{where}", params=query).json()


def submitted(it: Api, seconds: int = 30) -> None:
    assert _post(it, "", pool="pool1", file=sweep("0-5", duration=seconds)).status_code == 201
    it.desk.service.settle()


def _stop(it: Api) -> None:
    """Tasks that were stopped end after their grace period."""
    it.desk.later(1)
    it.desk.later(31)
    it.desk.service.settle()


def counts(elements: int, **numbers: int) -> dict[str, int]:
    none = dict.fromkeys(("waiting", "queued", "running", "completed", "failed", "cancelled"), 0)
    return {"elements": elements, "most": 2, **none, **numbers}


def test_an_array_is_one_workflow_with_its_elements_counted(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        submitted(it)
        stands = counts(6, waiting=4, running=2)
        shown = _get(it, "/sweep-1")
        assert shown["array"] == stands
        assert [(each["name"], each["status"]) for each in shown["groups"][1:3]] == [("1", "RUNNING"), ("2", "WAITING")]
        assert [(each["id"], each["array"]) for each in _get(it, "")["items"]] == [("sweep-1", stands)]
        it.desk.later(31)
        it.desk.service.settle()
        assert _get(it, "/sweep-1")["array"] == counts(6, waiting=2, running=2, completed=2)


def test_why_explains_one_element_or_the_first_in_each_status(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        submitted(it)
        assert [each["group"] for each in _get(it, "/sweep-1/why")["groups"]] == ["0", "2"]
        (group,) = _get(it, "/sweep-1/why", element="5")["groups"]
        (blocker,) = group["blockers"]
        sentence = "2 of its 6 elements are running or queued, and at most 2 may run at a time"
        assert (group["group"], blocker["reason"]["law"], blocker["reason"]["sentence"]) == ("5", "W4", sentence)
        missing = problem(it.http.get("/api/v1/workflows/sweep-1/why", params={"element": "6"}), 404, "NOTFOUND")
        assert missing["detail"] == "sweep-1 has no element '6'"


def test_when_one_element_is_cancelled_the_next_one_starts(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        submitted(it, 3000)
        assert _post(it, "/sweep-1/elements/3/cancel", message="wrong").json() == {"id": "sweep-1/3"}
        assert _post(it, "/sweep-1/elements/0/cancel").json() == {"id": "sweep-1/0"}
        _stop(it)
        shown = _get(it, "/sweep-1")
        assert (shown["groups"][3]["status"], shown["groups"][3]["message"]) == (
            "FAILED_CANCELED",
            "cancelled by ann: wrong",
        )
        assert (shown["array"]["failed"], shown["array"]["cancelled"]) == (0, 2)
        assert problem(_post(it, "/sweep-1/elements/3/cancel"), 409, "CONFLICT")
        assert problem(_post(it, "/sweep-1/elements/9/cancel"), 404, "NOTFOUND")


def test_the_limit_changes_and_a_dry_run_says_how_many_would_follow(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        submitted(it)
        planned = _post(it, "/sweep-1/array", most=5, dry_run=True).json()
        assert planned == {"id": "sweep-1", "most": 5, "queued": 3, "unqueued": 0}
        assert _get(it, "/sweep-1")["array"]["most"] == 2
        assert _post(it, "/sweep-1/array", most=5).json()["most"] == 5
        assert _get(it, "/sweep-1")["array"] == {**counts(6, waiting=1, queued=3, running=2), "most": 5}
        for wrong, status, code in ((0, 422, "USAGE"), (1001, 422, "USAGE"), (5, 409, "CONFLICT")):
            problem(_post(it, "/sweep-1/array", most=wrong), status, code)


def test_restart_of_failed_elements_skips_completed_ones(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        submitted(it, 100)
        it.desk.later(101)
        it.desk.service.settle()
        assert _post(it, "/sweep-1/cancel").status_code == 200
        _stop(it)
        assert _get(it, "/sweep-1")["message"].startswith("4 of 6 cancelled: 2-5 (")
        again = _post(it, "/sweep-1/repeat", pool="pool1", keep_completed=True).json()
        shown = _get(it, f"/{again['id']}")
        assert [each["name"] for each in shown["groups"]] == ["2", "3", "4", "5"]


def test_invalid_array_is_one_problem_and_nothing_is_stored(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        wrong = problem(_post(it, "", pool="pool1", file=sweep("5-3")), 422, "USAGE")
        assert wrong["detail"] == "indices: the range 5-3 is reversed. Use 3-5"
        assert _get(it, "")["items"] == []
