"""A submission that is sent again with its key is the same one: nothing is doubled, whatever happened to the first answer."""

from pathlib import Path
from typing import Any

from tests.api.client import Api, api
from tests.worlds.service import one_task

KEY = "5f0c3a1e-8d2b-4c47-9a3e-2f6b7c1d0e9f"
SUBMIT = "/api/pool/pool1/workflow"


def sent(it: Api, text: str, key: str, path: str = SUBMIT, **headers: str) -> tuple[int, dict[str, Any]]:
    answer = it.http.post(path, json={"file": text}, headers={"Idempotency-Key": key, **headers})
    return answer.status_code, answer.json()


def test_repeated_submission_is_answered_as_before_and_stores_nothing(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        first = sent(it, one_task("a"), KEY)
        revision = it.desk.revision
        assert (first[0], first[1]["name"]) == (200, "a-1")
        assert sent(it, one_task("a"), KEY) == first
        assert sent(it, one_task("a"), KEY.upper()) == first
        assert it.desk.revision == revision
        assert it.get("/api/workflow/a-1")["uuid"] == KEY
        assert it.submit(one_task("a"))["name"] == "a-2"
        it.call("POST", "/api/workflow/a-1/cancel")
        it.desk.service.settle()
        assert sent(it, one_task("a"), KEY) == first, "also after it has ended"


def test_a_key_belongs_to_one_submission_of_one_user(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        sent(it, one_task("a"), KEY)
        revision = it.desk.revision
        others = [
            sent(it, one_task("b"), KEY),
            sent(it, one_task("a"), KEY, path="/api/pool/pool2/workflow"),
            sent(it, one_task("a"), KEY, **it.named("bob")),
        ]
        assert [(status, answer["error_code"]) for status, answer in others] == [(409, "CONFLICT")] * 3
        assert it.desk.revision == revision
        both = [("Idempotency-Key", KEY), ("Idempotency-Key", KEY.replace("5f", "6f"))]
        twice = it.http.post(SUBMIT, json={"file": one_task("a")}, headers=both)
        assert (twice.status_code, twice.json()["message"]) == (
            422,
            "the header Idempotency-Key was sent twice. Send it once",
        )


RANDOM = one_task("a").replace("sleep, '1'", "echo, '{{ range(100000) | random }}'")


def test_template_that_renders_differently_each_time_is_compared_as_sent(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        first = sent(it, RANDOM, KEY)
        assert first[1]["name"] == "a-1"
        assert [sent(it, RANDOM, KEY) for _ in range(3)] == [first] * 3
        assert sent(it, RANDOM.replace("echo", "sleep"), KEY)[0] == 409


def test_every_part_of_a_submission_is_compared(tmp_path: Path) -> None:
    template = one_task("{{ name }}").replace("image: any", "image: any{{ other }}")
    body = {"file": template, "set_variables": ["name=a"], "set_string_variables": ["other=1"]}
    query = {"priority": "LOW", "env_vars": ["A=1"]}

    def status(it: Api, body: dict[str, Any], query: dict[str, Any]) -> int:
        return it.http.post(SUBMIT, json=body, params=query, headers={"Idempotency-Key": KEY}).status_code

    with api(tmp_path) as it:
        assert status(it, body, query) == 200
        revision = it.desk.revision
        others = (
            (body, {**query, "priority": "NORMAL"}),
            (body, {"env_vars": ["A=1"]}),
            (body, {**query, "env_vars": ["A=2"]}),
            ({**body, "set_string_variables": ["other=2"]}, query),
            ({**body, "set_variables": ["name=b"]}, query),
            ({**body, "uploaded_templated_spec": template}, query),
        )
        assert [status(it, *each) for each in (*others, (body, query))] == [409] * len(others) + [200]
        assert it.desk.revision == revision


def test_a_workflow_submitted_again_is_compared_with_its_priority(tmp_path: Path) -> None:
    def status(it: Api, **query: str) -> int:
        answer = it.http.post(SUBMIT, params={"workflow_id": "a-1", **query}, headers={"Idempotency-Key": KEY})
        return answer.status_code

    with api(tmp_path) as it:
        it.submit(one_task("a"))
        assert [status(it, priority="LOW"), status(it, priority="LOW"), status(it, priority="HIGH")] == [200, 200, 409]


def test_key_that_is_not_a_uuid_is_refused(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        status, answer = sent(it, one_task("a"), "soon")
        assert (status, answer["message"]) == (
            422,
            "Idempotency-Key 'soon' is not a UUID. Use a new UUID for each submission",
        )


def test_a_restart_has_a_key_too(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        it.submit(one_task("a"))
        it.call("POST", "/api/workflow/a-1/cancel")
        it.desk.service.settle()
        answers = [it.http.post(f"{SUBMIT}/a-1/restart", headers={"Idempotency-Key": KEY}).json() for _ in range(2)]
        assert [answer["name"] for answer in answers] == ["a-2", "a-2"]
