"""What others call their work changes no answer to whoever does not see it: two servers that differ in nothing else answer alike.

The one exception is the number of a submission, which `docs/access.md` tells.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.api.permissions.rows import ROWS
from tests.api.permissions.test_routes import QUESTIONS, _send
from tests.api.permissions.two_teams import TwoTeams, two_teams
from tests.worlds.service import do, one_task

ASKED = "secret"
TASKS = "[{name: main, image: any, command: [run], resource: one}]"
GROUPS = f"""\
workflow:
  name: {ASKED}
  groups:
  - {{name: one, tasks: [{{name: a, lead: true, image: any, command: [run], resource: r}}]}}
  - {{name: two, tasks: [{{name: b, lead: true, image: any, command: [run], resource: r}}]}}
  resources: {{r: {{gpu: 1}}}}
"""
TOO_MUCH = one_task(ASKED, gpus=99)
FILES = {
    "one group": one_task(ASKED),
    "more than fits": one_task(ASKED, gpus=3),
    "two groups": GROUPS,
    "never": TOO_MUCH,
}


def posted(file: str) -> Mapping[str, tuple[str, Any]]:
    """Questions about a submission of *file*, each with its path and body."""
    body = {"pool": "team", "file": file}
    return {
        "check": ("/api/v1/workflows:check", body),
        "check of the template": ("/api/v1/workflows:check", body | {"template_only": True}),
        "plan": ("/api/v1/plan", {"submission": body}),
        "render": ("/api/v1/workflows:render", body),
        "validation of the reference client": ("/api/pool/team/workflow?validation_only=true", {"file": file}),
        "dry run of the reference client": ("/api/pool/team/workflow?dry_run=true", {"file": file}),
    }


def told(it: TwoTeams) -> Iterator[tuple[str, int, str, str | None]]:
    """(question, status, answer, tag) of all that *tom* asks."""
    for route in QUESTIONS:
        answer = _send(it, "tom", route, ROWS[route])
        text = _masked(answer.text)
        yield route, answer.status_code, text, None if "THEN" in text else answer.headers.get("etag")
    for what, file in FILES.items():
        for question, (path, body) in posted(file).items():
            answer = it.send("tom", "POST", path, body)
            yield f"{question}: {what}", answer.status_code, _masked(answer.text), None
    for path in (f"/api/v1/workflows/{ASKED}-1", f"/api/v1/workflows/{ASKED}-7/why", f"/api/workflow/{ASKED}-1/logs"):
        answer = it.send("tom", "GET", path)
        yield path, answer.status_code, answer.text, None


def _masked(text: str) -> str:
    """Without what is drawn by chance, and without times of the real clock; that of the cluster stands still."""
    text = re.sub(r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID", text)
    return re.sub(r"20(?!27-01-15)\d\d-\d\d-\d\dT[\d:.]+", "THEN", text)


def others_did(folder: Path, name: str) -> list[tuple[str, int, str, str | None]]:
    """What *tom* is told on a server where a user of the other team submitted five workflows called *name*; one still runs."""
    with two_teams(folder) as it:
        ids = [it.submit("uwe", name, "team2") for _ in range(5)]
        for id in ids[1:]:
            do(it.api.desk.service, it.api.desk.service.submissions.cancelling(id, user="uwe"))
        it.api.desk.service.settle()
        return list(told(it))


def test_no_response_depends_on_names_of_other_users(tmp_path: Path) -> None:
    named, otherwise = others_did(tmp_path / "named", ASKED), others_did(tmp_path / "otherwise", "zzz")
    assert [each for each in named if each not in otherwise] == []
    assert len(named) == len(otherwise) > 80
    statuses = {question: status for question, status, *_ in named}
    assert {statuses[f"{question}: one group"] for question in posted("")} == {200}
    assert ASKED in next(text for question, _, text, _ in named if question == "check: one group")


@pytest.mark.parametrize("what", ["one group", "two groups"])
def test_dry_run_has_no_number_but_a_submission_does(tmp_path: Path, what: str) -> None:
    with two_teams(tmp_path) as it:
        body = {"pool": "team", "file": FILES[what]}
        for _ in range(2):
            assert it.send("tom", "POST", "/api/v1/workflows:check", body).json()["id"] == f"{ASKED}-?"
            planned = it.send("tom", "POST", "/api/v1/plan", {"submission": body}).json()
            gangs = [each["gang"] for each in planned["starts"]]
            assert gangs == ([f"{ASKED}-?"] if what == "one group" else [f"{ASKED}-?/one", f"{ASKED}-?/two"])
            assert re.search(rf"{ASKED}-\d", it.send("tom", "POST", "/api/v1/workflows:check", body).text) is None
        made = it.send("tom", "POST", "/api/v1/workflows", body)
        assert made.json()["id"] == f"{ASKED}-1"
        again = it.send("tom", "POST", "/api/v1/workflows:check", body).json()
        assert again["id"] == f"{ASKED}-?"
