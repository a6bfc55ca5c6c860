"""What holds for every route of our own door: errors, unknown parameters, pages, times, names of operations."""

from pathlib import Path

import pytest

from tests.api.client import URL, api
from tests.api.document import document
from tests.api.v1.ours import LISTS, OURS, QUESTIONS, problem

STREAM = "/api/v1/events/stream"


def test_every_error_is_a_problem(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        http = it.http
        problem(http.get("/api/v1/pools", headers={"Authorization": ""}), 401, "FORBIDDEN")
        problem(http.get("/api/v1/pools", headers={"Host": "evil.example"}), 403, "FORBIDDEN")
        problem(http.get("/api/v1/pools", headers={"Origin": "http://evil.example"}), 403, "FORBIDDEN")
        problem(http.get(f"{URL}//api/v1/nothing"), 404, "NOTFOUND")
        problem(http.get("/api/v1"), 404, "NOTFOUND")
        problem(http.put("/api/v1/pools"), 405, "USAGE")
        problem(http.post("/api/v1/pools", content=b"x" * (2 * 1024 * 1024 + 1)), 413, "USAGE")
        problem(http.post("/api/v1/pools", content=b"{", headers={"Content-Type": "application/json"}), 422, "USAGE")
        problem(http.post("/api/v1/pools", content=b"\xff", headers={"Content-Type": "application/json"}), 422, "USAGE")
        found = problem(http.post("/api/v1/pools", json={"nam": "x"}), 422, "USAGE")
        assert [each["path"] for each in found["problems"]] == ["name", "nam"]
        assert "problems" not in found.get("details", {})
        found = problem(http.post("/api/v1/pools", content=b"{}", headers={"Content-Type": "text/plain"}), 422, "USAGE")
        assert found["detail"] == "the body is not JSON: its Content-Type must be application/json"
        found = problem(http.post("/api/v1/pools", json={"name": "x", "quota": 1.5}), 422, "USAGE")
        assert found["detail"] == (
            "quota: invalid value 1.5: Input should be a valid integer, got a number with a fractional part, or a valid string, "
            "or a valid dictionary"
        )
        found = problem(http.post("/api/v1/pools", json=[]), 422, "USAGE")
        assert found["detail"] == "body: invalid value []: Input should be an object"
        found = problem(http.get("/api/v1/pools/nope"), 404, "NOTFOUND")
        assert found == {
            "type": "urn:runrig:problem:notfound",
            "title": "Not found",
            "status": 404,
            "detail": "unknown pool 'nope' (pools: pool1, pool2)",
            "code": "NOTFOUND",
        }


def test_osmo_api_keeps_its_own_error_format(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        for path in ("/api/resources/nope", "/api/v10/pools", "/api/v1x", "/nothing"):
            answer = it.http.get(path)
            assert (answer.status_code, answer.headers["content-type"]) == (404, "application/json")
            assert set(answer.json()) == {"message", "error_code", "details"}


def test_head_answers_as_get_without_the_body(tmp_path: Path) -> None:
    """Proxies, monitors and link checkers ask so. A stream ends with its headers."""
    with api(tmp_path) as it:
        for path in (*QUESTIONS, "/healthz", "/metrics", "/api/version", "/api/v1/pools/pool1", "/api/v1/pools/nope"):
            head = it.http.head(path)
            assert head.content == b"", path
            if path != STREAM:
                found = it.http.get(path)
                assert head.status_code == found.status_code, path
                assert head.headers["content-type"] == found.headers["content-type"]
        assert it.http.head(STREAM).headers["content-type"].startswith("text/event-stream")
        refused = it.http.head("/api/v1/plan")
        assert (refused.status_code, refused.headers["allow"]) == (405, "POST")


def test_method_without_a_route_names_those_that_there_are(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        refused = it.http.options("/api/v1/pools/pool1")
        assert refused.headers["allow"] == "DELETE, GET, HEAD, PATCH"
        said = "/api/v1/pools/pool1 does not support OPTIONS, only DELETE, GET, HEAD, PATCH. See /openapi.json"
        assert problem(refused, 405, "USAGE")["detail"] == said


def test_unknown_parameter_is_an_error(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        for path in QUESTIONS:
            found = problem(it.http.get(path, params={"stauts": "RUNNING", "LIMIT": "3"}), 400, "USAGE")
            assert [each["path"] for each in found["problems"]] == ["stauts", "LIMIT"], path


def test_command_with_an_unknown_parameter_does_nothing(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        problem(it.http.post("/api/v1/cohorts?dryrun=true", json={"name": "new"}), 400, "USAGE")
        problem(it.http.get("/api/v1/cohorts/new"), 404, "NOTFOUND")


@pytest.mark.parametrize(
    "cursor", ["x", "bnVsbA", "WyJhIl0", "WzFlOTk5XQ", "W3RydWUsdHJ1ZV0", "WyJcdTAwMDAiLCJhIl0", "%00", ""]
)
def test_unknown_cursor_is_refused(tmp_path: Path, cursor: str) -> None:
    with api(tmp_path) as it:
        for path in (path for path in LISTS if "{" not in path):
            answer = it.http.get(path, params={"cursor": cursor})
            if not (answer.status_code == 200 and cursor == "WyJhIl0"):  # names an item of a list
                problem(answer, 422, "USAGE")


def test_page_size_is_limited(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        for limit in ("0", "-1", "1001", "1e3", "", "x"):
            problem(it.http.get("/api/v1/pools", params={"limit": limit}), 422, "USAGE")


def test_every_list_has_the_same_paging() -> None:
    for path in LISTS:
        operation = OURS[path, "get"]
        names = {each["name"] for each in operation.get("parameters", ())}
        assert {"limit", "cursor"} <= names, path
        assert "offset" not in names, path
        model = operation["responses"]["200"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        schema = document()["components"]["schemas"][model]
        assert {"items", "next_cursor"} <= set(schema["required"]), path


def test_operation_ids_are_readable() -> None:
    ids = [operation["operationId"] for operation in OURS.values()]
    assert len(ids) == len(set(ids))
    assert [each for each in ids if "api" in each or "v1" in each] == []


def test_document_describes_how_to_sign_in() -> None:
    found = document()
    assert found["components"]["securitySchemes"] == {"bearer": {"type": "http", "scheme": "bearer"}}
    assert found["security"] == [{"bearer": []}]
    methods = [(path, each) for path, methods in found["paths"].items() for each in methods.values()]
    assert sorted(path for path, each in methods if each.get("security") == []) == [
        "/api/auth/jwt/access_token",
        "/api/auth/login",
        "/api/auth/oidc/device",
        "/api/auth/oidc/token",
        "/api/v1/pod-code",
        "/api/v1/sign-in",
        "/api/v1/sign-in/code",
        "/api/v1/sign-in/device",
        "/api/v1/sign-in/device/token",
        "/api/v1/sign-in/renewal",
        "/healthz",
        "/readyz",
    ]


def test_no_url_contains_a_secret() -> None:
    for (path, method), operation in OURS.items():
        query = {each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"}
        assert not query & {"env_vars", "environment", "variables", "token", "file"}, (method, path)
