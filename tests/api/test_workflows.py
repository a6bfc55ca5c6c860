"""Routes of workflows: submit, ask, cancel, restart, wait."""

import threading
from pathlib import Path
from typing import Any

import pytest

from runrig.domain.workflows import task_uuid
from tests.api.client import URL, Api, api
from tests.patience import PATIENCE_S
from tests.worlds.service import one_task
from tests.worlds.workflow_files import WIDE

# The test clock shows 08:00:00 when the server starts.
SUBMITTED = "2027-01-15T08:00:00"


def test_response_to_a_submission_has_its_id_and_links(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        assert it.submit(one_task("train")) == {
            "name": "train-1",
            "overview": f"{URL}/workflow/train-1",
            "logs": f"{URL}/api/workflow/train-1/logs",
            "spec": None,
            "warnings": [],
            "dashboard_url": None,
        }
        assert it.submit(one_task("train"))["name"] == "train-2"


def test_workflow_answer_has_every_field(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        it.submit(one_task("train"))
        it.desk.later(0)
        it.desk.time[0] += 12.5
        answer = it.get("/api/workflow/train-1")
        uuid = answer["uuid"]
        link = f"{URL}/api/workflow/train-1"
        nothing = dict.fromkeys(
            ("end_time", "processing_start_time", "initializing_start_time", "failure_message"), None
        )
        assert answer == {
            "name": "train-1",
            "uuid": uuid,
            "submitted_by": "ann",
            "cancelled_by": None,
            "spec": f"{link}/spec",
            "template_spec": f"{link}/spec?use_template=True",
            "logs": f"{link}/logs",
            "events": f"{link}/events",
            "overview": f"{URL}/workflow/train-1",
            "parent_name": None,
            "parent_job_id": None,
            "dashboard_url": None,
            "grafana_url": None,
            "tags": [],
            "submit_time": SUBMITTED,
            "start_time": SUBMITTED,
            "end_time": None,
            "exec_timeout": None,
            "queue_timeout": None,
            "duration": 12.5,
            "queued_time": 0.0,
            "status": "RUNNING",
            "outputs": "",
            "groups": [
                nothing
                | {
                    "name": "main-group",
                    "status": "RUNNING",
                    "start_time": SUBMITTED,
                    "scheduling_start_time": SUBMITTED,
                    "remaining_upstream_groups": [],
                    "downstream_groups": [],
                    "tasks": [
                        nothing
                        | {
                            "name": "main",
                            "retry_id": 0,
                            "status": "RUNNING",
                            "exit_code": None,
                            "logs": f"{link}/logs?task_name=main&retry_id=0",
                            "error_logs": f"{link}/error_logs?task_name=main&retry_id=0",
                            "scheduling_start_time": None,
                            "events": f"{link}/events",
                            "start_time": SUBMITTED,
                            "input_download_start_time": None,
                            "input_download_end_time": None,
                            "output_upload_start_time": None,
                            "dashboard_url": None,
                            "pod_name": "train-1-main-0",
                            "pod_ip": None,
                            "task_uuid": task_uuid(uuid, "main"),
                            "node_name": "n0",
                            "lead": True,
                            "gpus": [0],
                        }
                    ],
                    "attempt": 0,
                    "preemptions": 0,
                    "pods": [],
                }
            ],
            "pool": "pool1",
            "backend": "simulated",
            "app_owner": None,
            "app_name": None,
            "app_version": None,
            "plugins": {"rsync": False},
            "priority": "NORMAL",
            "labels": {},
            "warnings": [],
            "failure_message": None,
        }
        assert it.get(f"/api/workflow/{uuid}") == answer


def test_the_list_is_filtered_ordered_and_paged(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        for name, pool, priority, user in (
            ("a", "pool1", "HIGH", "ann"),
            ("b", "pool2", "LOW", "bob"),
            ("c", "pool1", "LOW", "ann"),
        ):
            it.desk.time[0] += 1
            it.http.post(
                f"/api/pool/{pool}/workflow",
                json={"file": one_task(name)},
                params={"priority": priority},
                headers=it.named(user),
            ).raise_for_status()

        def listed(**query: Any) -> tuple[list[str], bool]:
            answer = it.get("/api/workflow", **query)
            return [entry["name"] for entry in answer["workflows"]], answer["more_entries"]

        assert listed() == (["c-1", "a-1"], False)
        assert listed(all_users="True", order="ASC") == (["a-1", "b-1", "c-1"], False)
        assert listed(users=["bob", "eve"]) == (["b-1"], False)
        assert listed(all_users=True, pools="pool1", priority="LOW") == (["c-1"], False)
        assert listed(all_users=True, limit=2) == (["c-1", "b-1"], True)
        assert listed(all_users=True, limit=2, offset=2) == (["a-1"], False)
        assert listed(all_users=True, statuses=["RUNNING"]) == ([], False)
        assert listed(all_users=True, name="B-") == (["b-1"], False)
        assert listed(all_users=True, submitted_after="2027-01-15T08:00:02") == (["c-1", "b-1"], False)
        assert listed(all_users=True, submitted_before="2027-01-15T09:00:02+01:00") == (["b-1", "a-1"], False)
        assert it.get("/api/workflow", name="c")["workflows"] == [
            {
                "user": "ann",
                "name": "c-1",
                "workflow_uuid": it.get("/api/workflow/c-1")["uuid"],
                "submit_time": "2027-01-15T08:00:03",
                "start_time": None,
                "end_time": None,
                "queued_time": 0.0,
                "duration": None,
                "status": "PENDING",
                "overview": f"{URL}/workflow/c-1",
                "logs": f"{URL}/api/workflow/c-1/logs",
                "error_logs": f"{URL}/api/workflow/c-1/error_logs",
                "grafana_url": None,
                "dashboard_url": None,
                "pool": "pool1",
                "app_owner": None,
                "app_name": None,
                "app_version": None,
                "priority": "LOW",
                "labels": {},
                "gpus": 1,
                "gpus_asked": 1,
            }
        ]


def test_why_has_the_rule_and_its_numbers(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        it.submit(one_task("a", gpus=2))
        it.submit(one_task("b", gpus=2))
        it.desk.later(0)
        reason = {
            "code": "QuotaFull",
            "law": "P2",
            "where": "pool1",
            "resource": "default/gpu",
            "have": 0,
            "need": 2,
            "holders": ["a-1"],
            "domains": [],
            "own": 0,
            "shared": {},
            "concerned": [],
            "gangs": 0,
            "sentence": "needs 2 GPUs, but pool pool1 has no quota left; in use by a-1",
        }
        assert it.get("/api/v1/workflows/b-1/why") == {
            "id": "b-1",
            "status": "PENDING",
            "groups": [
                {
                    "group": "main-group",
                    "state": "SCHEDULING",
                    "position": 1,
                    "ahead": 0,
                    "verdict": "WAITS",
                    "stops": [],
                    "reasons": [reason],
                    "blockers": [{"tier": "quota", "flavors": ["default"], "reason": reason}],
                    "in_full": [],
                    "left": [],
                    "passed": 0,
                    "waits_for": [],
                    "preempted": [],
                }
            ],
            "sentence": f"b-1 is waiting: {reason['sentence']}. Position 1 in pool pool1.",
            "cause": None,
            "ending": None,
            "standstill": None,
            "changes": None,
        }


def test_preempted_workflow_shows_its_preemptor_even_after_it_ended(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        it.submit(one_task("low", gpus=2), priority="LOW")
        it.desk.later(0)
        it.submit(one_task("a", gpus=2))
        it.submit(one_task("b", gpus=2), "pool2")
        for _ in range(3):
            it.desk.later(2)
        it.call("POST", "/api/workflow/low-1/cancel")
        answer = it.get("/api/v1/workflows/low-1/why")
        assert answer == {
            "id": "low-1",
            "status": "FAILED_CANCELED",
            "groups": [
                {
                    "group": "main-group",
                    "state": "FAILED_CANCELED",
                    "position": None,
                    "ahead": None,
                    "verdict": None,
                    "stops": [],
                    "reasons": [],
                    "blockers": [],
                    "in_full": [],
                    "left": [],
                    "passed": 0,
                    "waits_for": [],
                    "preempted": [
                        {
                            "at": answer["groups"][0]["preempted"][0]["at"],
                            "by": "b-1",
                            "law": "RECLAIM",
                            "sentence": "was preempted by b-1, whose pool reclaimed borrowed quota (Reclaim, rule R2)",
                        }
                    ],
                }
            ],
            "sentence": "low-1 is FAILED_CANCELED: cancelled by ann.",
            "cause": None,
            "ending": None,
            "standstill": None,
            "changes": None,
        }


def test_admitted_and_requested_pods_are_both_shown(tmp_path: Path) -> None:
    """Laws A1, A3: 12 GPUs run of the 17 that it asks for."""
    with api(tmp_path, gpus=12, cluster="pools: [{name: pool1, quota: 12}]") as it:
        it.submit(WIDE, priority="LOW")

        def shown() -> Any:
            (entry,) = it.get("/api/workflow")["workflows"]
            return entry["gpus"], entry["gpus_asked"], it.get("/api/workflow/wide-1")["groups"][0]["pods"]

        pods = {"task": "worker", "asked": 3, "least": 1}
        assert shown() == (17, 17, [pods | {"got": None}])
        it.desk.later(0)
        assert shown() == (12, 17, [pods | {"got": 2}])
        says = "wide-1 admitted on n0 (GPU 0-11), with 2 of 3 pods of worker (minimum 1)"
        assert it.get("/api/workflow/wide-1/events").splitlines()[2].endswith(f"  {says}")
        assert it.get("/api/v1/workflows/wide-1/events")["items"][2]["text"] == says
        it.desk.later(200)
        assert it.get("/api/workflow/wide-1")["status"] == "COMPLETED"
        assert shown() == (12, 17, [pods | {"got": 2}])


STAGES = """
workflow:
  name: stages
  resources: {default: {gpu: 1}}
  tasks:
  - {name: a, image: any, command: [ls], duration: 100}
  - {name: b, image: any, command: [ls], duration: 100, inputs: [{task: a}]}
  - {name: c, image: any, command: [ls], duration: 100, inputs: [{task: b}], resource: three}
"""


def test_list_has_the_gpus_in_use_and_the_gpus_requested(tmp_path: Path) -> None:
    stages = STAGES.replace("{default: {gpu: 1}}", "{default: {gpu: 1}, three: {gpu: 2}}")
    with api(tmp_path) as it:
        it.submit(stages)

        def shown() -> tuple[Any, ...]:
            (entry,), (row,) = it.get("/api/workflow")["workflows"], it.get("/api/v1/workflows")["items"]
            assert (entry["gpus"], entry["gpus_asked"]) == (row["gpus"], row["gpus_asked"])
            return entry["status"], entry["gpus"], entry["gpus_asked"], it.get("/api/v1/pools/pool1")["gpus"]["total"]

        assert shown() == ("PENDING", 4, 4, 0)
        it.desk.later(0)
        assert shown() == ("RUNNING", 1, 4, 1)
        it.desk.later(101)
        assert shown() == ("RUNNING", 1, 4, 1)
        it.desk.later(101)
        assert shown() == ("RUNNING", 2, 4, 2)
        it.desk.later(101)
        assert shown() == ("COMPLETED", 4, 4, 0)


def test_events_are_lines_or_objects(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        it.submit(one_task("a"))
        it.desk.later(0)
        at = "2027-01-15 08:00:00.000000"
        assert it.get("/api/workflow/a-1/events").splitlines() == [
            f"{at}  a-1 submitted to pool pool1 by ann (priority NORMAL)",
            f"{at}  a-1 queued in pool pool1",
            f"{at}  a-1 admitted on n0 (GPU 0)",
            f"{at}  task main (attempt 0) is RUNNING",
            f"{at}  group main-group is RUNNING",
            f"{at}  a-1 is RUNNING",
        ]
        events = it.get("/api/v1/workflows/a-1/events")["items"]
        first = {key: value for key, value in events[0].items() if key != "revision"}
        assert first == {
            "seq": 0,
            "time": f"{SUBMITTED}Z",
            "actor": "ann",
            "kind": "Submit",
            "law": "P3",
            "text": "a-1 submitted to pool pool1 by ann (priority NORMAL)",
        }
        assert it.get("/api/workflow/a-1/events", task_name="main").splitlines() == [
            f"{at}  task main (attempt 0) is RUNNING"
        ]


def test_file_is_stored_as_rendered_and_as_sent(tmp_path: Path) -> None:
    template = one_task("a").replace("name: main", "name: {{ who }}") + "default-values: {who: main}\n"
    with api(tmp_path) as it:
        it.call("POST", "/api/pool/pool1/workflow", {"file": template, "set_variables": ["who=lead"]})
        assert "name: lead" in it.get("/api/workflow/a-1/spec")
        assert it.get("/api/workflow/a-1/spec", use_template=True) == template
        assert it.get("/api/workflow/a-1")["groups"][0]["tasks"][0]["name"] == "lead"


def test_dry_run_renders_and_validation_checks_and_neither_stores(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        before = it.desk.revision
        text = one_task("a")
        rendered = it.submit(text, dry_run="True")
        assert (rendered["name"], rendered["spec"], rendered["logs"]) == ("a-?", text, None)
        unfinished = text.replace("duration: 100.0", "files: [{path: /x, localpath: ./x}]")
        assert it.submit(unfinished, dry_run=True)["spec"] == unfinished  # the client adds the file before it submits
        checked = it.submit(text, validation_only=True)
        assert (checked["name"], checked["spec"], checked["logs"]) == ("a-?", None, "a would be accepted")
        assert (
            it.error("POST", "/api/pool/pool1/workflow", {"file": one_task("a", gpus=3)}, validation_only=True)[0]
            == 400
        )
        assert it.desk.revision == before


def test_the_same_file_with_another_environment_is_another_specification(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        it.submit(one_task("a"))
        it.submit(one_task("a"), env_vars=["MODE=x=y", "EMPTY="])
        it.desk.later(0)
        launches = {key.workflow: dict(launch.environment) for key, launch in it.desk.backend.desired.run.items()}
        assert launches == {"a-1": {}, "a-2": {"MODE": "x=y", "EMPTY": ""}}


def test_priority_comes_from_the_command_then_from_the_file(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        low = one_task("a").replace("name: a", "name: a\n  priority: LOW")
        it.submit(low)
        it.submit(low, priority="HIGH")
        assert [it.get(f"/api/workflow/a-{n}")["priority"] for n in (1, 2)] == ["LOW", "HIGH"]


def test_cancel_and_restart(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        it.submit(one_task("a"), priority="LOW")
        assert it.error("POST", "/api/pool/pool1/workflow/a-1/restart")[0] == 409
        assert it.call("POST", "/api/workflow/a-1/cancel", message="enough", force="False") == {"name": "a-1"}
        status, answer = it.error("POST", "/api/workflow/a-1/cancel")
        assert (status, answer["message"]) == (409, "a-1 is already FAILED_CANCELED and can no longer be changed")
        assert it.call("POST", "/api/pool/pool2/workflow/a-1/restart")["name"] == "a-2"
        again = it.get("/api/workflow/a-2")
        assert [again[key] for key in ("parent_name", "pool", "priority")] == ["a-1", "pool2", "LOW"]
        assert it.call("POST", "/api/pool/pool1/workflow", workflow_id="a-2")["name"] == "a-3"
        uuid = it.get("/api/workflow/a-3")["uuid"]
        assert it.call("POST", f"/api/workflow/{uuid}/cancel") == {"name": "a-3"}
        assert [it.error("POST", f"/api/workflow/{each}/cancel")[0] for each in (uuid, "a-9")] == [409, 404]


def test_wait_returns_when_the_status_is_reached(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        it.submit(one_task("a"))
        assert it.get("/api/v1/workflows/a-1/wait", **{"for": "RUNNING", "timeout": 0})["status"] == "PENDING"
        found: list[str] = []
        names = ("a-1", it.get("/api/workflow/a-1")["uuid"])
        waiting = [
            threading.Thread(
                target=lambda name: found.append(
                    it.get(f"/api/v1/workflows/{name}/wait", timeout=PATIENCE_S)["status"]
                ),
                args=(name,),
                daemon=True,
            )
            for name in names
        ]
        for each in waiting:
            each.start()
        it.desk.later(0)
        assert it.get("/api/v1/workflows/a-1/wait", **{"for": "RUNNING", "timeout": 20})["status"] == "RUNNING"
        it.desk.later(200)
        for each in waiting:
            each.join(PATIENCE_S)
        assert found == ["COMPLETED", "COMPLETED"]
        assert it.get("/api/v1/workflows/a-1/wait", **{"for": "RUNNING", "timeout": 20})["status"] == "COMPLETED"


BAD: list[tuple[str, dict[str, Any], int, str, str]] = [
    ("pool1", {"file": one_task("a").replace("image: any", "imge: any")}, 422, "USAGE", "imge"),
    ("pool1", {"file": one_task("a").replace("[sleep, '1']", "sleep")}, 422, "USAGE", "command"),
    ("pool1", {"file": one_task("a", gpus=-1)}, 422, "USAGE", "-1"),
    ("pool1", {"file": one_task("a", gpus=3)}, 400, "RESOURCE", " needs 3 GPUs, but pool pool1 has a quota of 2 GPUs"),
    ("pool1", {"file": one_task("a").replace("gpu: 1", "tpu: 1")}, 422, "USAGE", "tpu"),
    ("pool1", {"file": "a: &a [x, x]\nb: &b [*a, *a]\nworkflow: *b"}, 422, "USAGE", ""),
    ("pool1", {"file": one_task("a") + "#" * 1_100_000}, 422, "USAGE", ""),
    ("pool1", {"file": one_task("a") + "{% for i in range(10**9) %}x{% endfor %}"}, 422, "USAGE", ""),
    ("pool1", {"file": one_task("a", extra="    files: [{path: ../x, contents: y}]")}, 422, "USAGE", ".."),
    ("pool1", {"file": ""}, 422, "USAGE", ""),
    ("pool1", {"file": 7}, 422, "USAGE", "file: invalid value 7"),
    ("pool1", {"file": "x", "more": 1}, 422, "USAGE", "unknown field 'more'. Omit it"),
    ("nope", {"file": one_task("a")}, 404, "NOTFOUND", "unknown pool 'nope' (pools: pool1, pool2)"),
]


@pytest.mark.parametrize("case", BAD, ids=range(len(BAD)))
def test_invalid_submissions_get_a_clear_error_and_store_nothing(
    quiet: Api, case: tuple[str, dict[str, Any], int, str, str]
) -> None:
    pool, body, status, code, words = case
    found, answer = quiet.error("POST", f"/api/pool/{pool}/workflow", body)
    assert (found, answer["error_code"], words in answer["message"]) == (status, code, True), answer
    assert "Traceback" not in answer["message"]


def test_all_problems_of_a_file_are_reported_with_their_positions(tmp_path: Path) -> None:
    text = one_task("a").replace("image: any", "imge: any").replace("[sleep, '1']", "sleep")
    with api(tmp_path) as it:
        _, answer = it.error("POST", "/api/pool/pool1/workflow", {"file": text})
        problems = answer["details"]["problems"]
        assert len(problems) >= 2
        assert all(each["line"] is not None and each["message"] for each in problems)
        assert answer["message"] == "; ".join(each["message"] for each in problems)


@pytest.mark.parametrize(
    "path",
    [
        "/api/workflow/nope-1",
        "/api/v1/workflows/nope-1/why",
        "/api/workflow/nope-1/events",
        "/api/workflow/nope-1/spec",
        "/api/workflow/nope-1/logs",
        "/api/v1/workflows/nope-1/wait",
    ],
)
def test_unknown_workflow_gets_404(quiet: Api, path: str) -> None:
    status, answer = quiet.error("GET", path)
    assert (status, answer["error_code"], "'nope-1'" in answer["message"]) == (404, "NOTFOUND", True)


def test_invalid_queries_return_422_with_the_value(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        for path, query, words in (
            ("/api/workflow", {"statuses": "DONE"}, "invalid value 'DONE'"),
            ("/api/workflow", {"limit": 0}, "invalid value '0'"),
            ("/api/workflow", {"submitted_after": "yesterday"}, "invalid value 'yesterday'"),
            ("/api/v1/workflows/a-1/wait", {"for": "DONE"}, "invalid value 'DONE'"),
        ):
            status, answer = it.error("GET", path, **query)
            assert (status, words in answer["message"]) == (422, True), answer
        status, answer = it.error("POST", "/api/pool/pool1/workflow", {"file": one_task("a")}, priority="URGENT")
        assert (status, "invalid value 'URGENT'" in answer["message"]) == (422, True)
