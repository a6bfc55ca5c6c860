"""One line per request and one per commit, tied by the id of the request; nothing in them that a client sent but that."""

import logging
import re
from pathlib import Path

import pytest

from runrig.service.runtime import logs
from tests.api.client import api
from tests.worlds.service import one_task

CANARY = "canary-4711"


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="runrig")
    return caplog


def told(lines: pytest.LogCaptureFixture, event: str) -> list[str]:
    """What `runrig` said of *event*, without how long it took."""
    found = [each.getMessage() for each in lines.records if each.name.startswith("runrig")]
    return [re.sub(r"ms=[0-9.]+", "ms=…", each) for each in found if each.startswith(f"event={event} ")]


def headers(**more: str) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in more.items()}


def test_request_and_its_commit_have_the_same_id(tmp_path: Path, lines: pytest.LogCaptureFixture) -> None:
    with api(tmp_path) as it:
        lines.clear()
        answer = it.http.post(
            "/api/pool/pool1/workflow", json={"file": one_task("a")}, headers=headers(x_request_id="abc-1")
        )
        assert answer.headers["x-request-id"] == "abc-1"
        it.desk.later(0)
        assert told(lines, "committed") == [
            "event=committed revision=3 actor=ann actions=Queue:1,Submit:1 ms=… request=abc-1",
            "event=committed revision=4 actor=engine actions=Admit:1 ms=…",
            "event=committed revision=5 actor=engine actions=MoveGroup:1,MoveTask:1,MoveWorkflow:1 ms=…",
        ]
        assert told(lines, "request") == [
            "event=request method=POST route=/api/pool/{pool}/workflow status=200 ms=… user=ann request=abc-1"
        ]


def test_log_line_of_an_unauthenticated_request_has_no_user(tmp_path: Path, lines: pytest.LogCaptureFixture) -> None:
    with api(tmp_path) as it:
        answer = it.http.get(
            "/api/workflow", headers={"Authorization": f"Bearer {CANARY}", **headers(x_request_id="r1")}
        )
        assert (answer.status_code, answer.headers["x-request-id"]) == (401, "r1")
        assert told(lines, "request") == ["event=request method=GET route=(none) status=401 ms=… request=r1"]


@pytest.mark.parametrize("sent", ["", "a b", "x" * 65, 'a"b', "-a", "a=b", "{}"])
def test_invalid_request_id_is_replaced(tmp_path: Path, sent: str) -> None:
    with api(tmp_path) as it:
        first = it.http.get("/healthz", headers=headers(x_request_id=sent)).headers["x-request-id"]
        second = it.http.get("/healthz").headers["x-request-id"]
        assert re.fullmatch(r"[0-9a-f]{16}", first)
        assert first != second


def test_successful_health_checks_are_not_logged(tmp_path: Path, lines: pytest.LogCaptureFixture) -> None:
    with api(tmp_path) as it:
        for path in ("/healthz", "/readyz", "/metrics"):
            assert it.http.get(path).status_code == 200
        assert told(lines, "request") == []


def test_response_to_a_server_error_has_the_request_id(tmp_path: Path, lines: pytest.LogCaptureFixture) -> None:
    with api(tmp_path) as it:
        it.desk.service.workflow_queries.workflow = broken  # type: ignore[method-assign, assignment] # it breaks on purpose
        answer = it.http.get("/api/workflow/a-1", headers=headers(x_request_id="r9"))
        assert (answer.status_code, answer.headers["x-request-id"]) == (500, "r9")
        assert answer.json()["details"] == {"request_id": "r9"}
        assert told(lines, "request_crashed") == ["event=request_crashed request=r9"]
        assert told(lines, "request") == [
            "event=request method=GET route=/api/workflow/{id} status=500 ms=… user=ann request=r9"
        ]


def broken(*_: object, **__: object) -> None:
    raise RuntimeError("broken for the test")


@pytest.mark.parametrize(
    ("fields", "written"),
    [
        ({"a": "plain", "b": 7}, "event=e a=plain b=7"),
        ({"a": None, "b": "", "c": 0}, "event=e c=0"),
        ({"a": 'two "words"'}, 'event=e a="two \\"words\\""'),
        ({"a": "x\nevent=forged"}, 'event=e a="x\\nevent=forged"'),
        ({"a": "x=y", "b": "\\"}, 'event=e a="x=y" b="\\\\"'),
        ({"a": "\x1b[31m"}, 'event=e a="\\x1b[31m"'),
        ({"a": 1.26}, "event=e a=1.3"),
        ({"a": "x" * 300}, f"event=e a={'x' * 200}…"),
    ],
)
def test_log_line_can_be_parsed(fields: dict[str, object], written: str) -> None:
    assert logs.line("e", **fields) == written
