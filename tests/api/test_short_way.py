"""Requests take a short way through the framework; the answer is the one that the framework gives on its own way."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from runrig.api.app import create_app
from runrig.http.short_way import ShortWay
from tests.api.client import AUTHORIZED, PORT, URL, Api, api
from tests.worlds.service import one_task

SUBMIT = "/api/pool/pool1/workflow"
FILE = json.dumps({"file": one_task("b")}).encode()
JSON = {"content-type": "application/json"}


@contextmanager
def long_way(it: Api) -> Iterator[TestClient]:
    """A client of an application on the same service, whose routes are the framework's own."""
    app = create_app(it.desk.service, token="", port=PORT)
    app.router.routes[:] = [_by_framework(route) for route in app.router.routes]
    client = TestClient(app, base_url=URL, headers=AUTHORIZED, raise_server_exceptions=False)
    yield client
    client.close()


def _by_framework(route: Any) -> Any:
    if not isinstance(route.app, ShortWay):
        return route
    route = copy(route)
    route.app = route.app.framework
    return route


def said(client: TestClient, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, Any, str]:
    kinds = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = client.request(method, path, content=body, headers=kinds)
    return answer.status_code, answer.json(), answer.headers["content-type"]


QUERIES = (
    "/api/workflow?all_users=true",
    "/api/workflow?all_users=1&users=&limit=1&order=ASC",
    "/api/workflow?users=ann&users=bob&statuses=PENDING&statuses=RUNNING&priority=LOW&priority=HIGH",
    "/api/workflow?users=ann&statuses=pending",
    "/api/workflow?limit=0",
    "/api/workflow?limit=1001&offset=x",
    "/api/workflow?all_users=perhaps&submitted_after=yesterday&name=",
    "/api/workflow?all_users=true&submitted_after=2020-01-01T00:00:00&submitted_before=0001-01-01T00:00:00%2B14:00",
    "/api/workflow/a-1",
    "/api/workflow/a-1?verbose=yes",
    "/api/workflow/a-1?verbose=",
    "/api/workflow/none-1",
    "/api/v1/workflows/a-1/why",
    "/api/v1/workflows/a-1/why?changes=all&depth=2",
    "/api/v1/workflows/a-1/why?depth=2",
    "/api/v1/workflows/a-1/wait?for=PENDING&timeout=0",
    "/api/v1/workflows/a-1/wait?for=ENDED&timeout=nan",
    "/api/v1/workflows/a-1/events?limit=5&attempt=-0",
    "/api/v1/workflows/a-1/logs?stream=neither",
    "/api/v1/pools/pool1/past?at=2020-02-30",
    "/api/pool_quota?pools=pool1&pools=pool2&archived=off",
    "/api/resources?limit=5&offset=0",
    "/api/v1/access-events?limit=0",
    "/healthz",
)

BODIES: tuple[tuple[bytes, dict[str, str]], ...] = (
    (FILE, JSON),
    (FILE, {"content-type": "Application/JSON; charset=utf-8"}),
    (FILE, {"content-type": "application/vnd.x+json"}),
    (FILE, {"content-type": "text/plain"}),
    (FILE, {}),
    (b"", JSON),
    (b"null", JSON),
    (b"[]", JSON),
    (b'"text"', JSON),
    (b"{}", JSON),
    (b'{"file": 1}', JSON),
    (b'{"file": "x", "more": 1}', JSON),
    (b'{"file": "x", "file": "workflow:"}', JSON),
    (b'{"file": "x", "more": {"a": [{"b": 1, "b": 2}]}}', JSON),
    (b'{"file": "x", "file": "y"}', {"content-type": "application/vnd.x+json"}),
    (b'{"file": "' + b"x" * 70_000 + b'", "file": "y"}', JSON),
    (b'{"file": "\\ud800"}', JSON),
    (b"{", JSON),
    (b"\xff\xfe", JSON),
    (b'{"file": NaN}', JSON),
    (b"[" * 10_000, JSON),
    (b"[" * 100_000, JSON),
    (json.dumps({"file": one_task("b") + "#" * 100_000}).encode(), JSON),
    ('{"file": "workflow: {}"}'.encode("utf-16"), JSON),
)


def test_query_parameters_are_read_as_the_framework_reads_them(tmp_path: Path) -> None:
    with api(tmp_path) as it, long_way(it) as other:
        it.submit(one_task("a"))
        for path in QUERIES:
            assert said(it.http, "GET", path) == said(other, "GET", path), path


@pytest.mark.parametrize(("method", "path"), [("GET", "/api/workflow"), ("POST", SUBMIT), ("GET", "/readyz")])
def test_unknown_parameter_is_refused(tmp_path: Path, method: str, path: str) -> None:
    """A filter that is passed over would list, and let a script cancel, what nobody meant."""
    with api(tmp_path) as it:
        status, answer = it.error(method, path, {"file": one_task("a")} if method == "POST" else None, owner="ann")
        assert (status, answer["error_code"]) == (400, "USAGE")
        assert answer["message"].startswith("unknown parameter 'owner'. Parameters: ")
        assert it.get("/api/workflow", all_users=True)["workflows"] == []


def test_a_parameter_and_a_field_of_a_body_are_sent_once(tmp_path: Path) -> None:
    """The last one would count, and others in between may have read the first."""
    with api(tmp_path) as it:
        path, file = f"{SUBMIT}?priority=LOW&priority=HIGH", json.dumps(one_task("a"))
        status, answer, _ = said(it.http, "POST", path, f'{{"file": {file}}}'.encode(), content_type="application/json")
        assert (status, answer["message"]) == (400, "the parameter 'priority' was sent twice. Send it once")
        for short in ("", "#" * 70_000):
            body = f'{{"file": {file}, "more": "{short}", "file": ""}}'.encode()
            status, answer, _ = said(it.http, "POST", SUBMIT, body, content_type="application/json")
            assert (status, answer["message"]) == (422, "the body has the field 'file' twice. Keep one of them")
        assert it.get("/api/workflow", all_users=True)["workflows"] == []


@pytest.mark.parametrize(
    "path", [f"{SUBMIT}?validation_only=true", f"{SUBMIT}?dry_run=1&priority=LOW", f"{SUBMIT}?priority=low"]
)
def test_bodies_are_read_as_the_framework_reads_them(tmp_path: Path, path: str) -> None:
    with api(tmp_path) as it, long_way(it) as other:
        for body, headers in BODIES:
            kinds = {name.replace("-", "_"): value for name, value in headers.items()}
            assert said(it.http, "POST", path, body, **kinds) == said(other, "POST", path, body, **kinds), (
                body[:80],
                headers,
            )


def test_default_list_of_a_route_is_not_shared(tmp_path: Path) -> None:
    """What a route adds to it is not there for the next request."""
    with api(tmp_path) as it:
        apps = [getattr(route, "app", None) for route in create_app(it.desk.service, port=PORT).router.routes]
        ways = [each for each in apps if isinstance(each, ShortWay)]
        lists = [each for way in ways for each in way._query if each.is_list and each.default is not None]
        assert lists
        for each in lists:
            first = each.left_out()
            before = list(first)
            first.append("added by a route")
            assert each.left_out() == before
