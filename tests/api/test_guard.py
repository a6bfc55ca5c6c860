"""The guard: token, Host, Origin and size of a request."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runrig.http.body_limits import LARGEST_BODY
from tests.api.client import AUTHORIZED, PORT, TOKEN, Api, api
from tests.worlds.service import one_task

SUBMIT = "/api/pool/pool1/workflow"


@pytest.mark.parametrize(
    "value",
    ["", "Bearer", "Bearer wrong", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN, "Bearer "],
)
def test_nothing_is_answered_or_stored_without_a_token(tmp_path: Path, value: str) -> None:
    with api(tmp_path) as it:
        before = it.desk.revision
        answer = it.http.post(SUBMIT, json={"file": one_task("a")}, headers={"Authorization": value})
        assert (answer.status_code, answer.json()) == (
            401,
            {
                "message": "the token is missing or invalid. Send the header 'Authorization: Bearer TOKEN'",
                "error_code": "FORBIDDEN",
                "details": {},
            },
        )
        assert answer.headers["www-authenticate"] == "Bearer"
        assert it.desk.revision == before


@pytest.mark.parametrize("path", ["/openapi.json", "/api/version", "/api/nothing", "/", "//api/pool"])
def test_every_other_path_requires_a_token_too(tmp_path: Path, path: str) -> None:
    with api(tmp_path) as it:
        assert it.http.get(path, headers={"Authorization": ""}).status_code == 401


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "http://127.0.0.1:9999",
        "http://127.0.0.1",
        "http://127.0.0.1.evil.example",
        "file://",
        "null",
        "https://127.0.0.1:8700",
        "",
    ],
)
def test_page_of_another_origin_cannot_submit_or_cancel(tmp_path: Path, origin: str) -> None:
    with api(tmp_path) as it:
        it.submit(one_task("a"))
        before = it.desk.revision
        for method, path in (("POST", SUBMIT), ("POST", "/api/workflow/a-1/cancel"), ("OPTIONS", SUBMIT)):
            answer = it.http.request(method, path, json={"file": one_task("b")}, headers={"Origin": origin})
            assert not [name for name in answer.headers if name.startswith("access-control-")]
            assert (answer.status_code, answer.json()) == (
                403,
                {"message": f"pages of {origin!r} may not call this server", "error_code": "FORBIDDEN", "details": {}},
            )
        assert it.desk.revision == before


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8700",
        "localhost.evil.example",
        "127.0.0.1",
        "127.0.0.1:80",
        "localhost:8701",
        "0.0.0.0",
        "[::ffff:127.0.0.1]",
        "",
    ],
)
def test_rebound_host_name_is_refused(quiet: Api, host: str) -> None:
    for path in ("/api/version", "/healthz"):
        answer = quiet.http.get(path, headers={"Host": host})
        assert (answer.status_code, answer.json()["error_code"]) == (403, "FORBIDDEN")


@pytest.mark.parametrize("host", ["10.0.0.7:8700", "evil.example"])
def test_monitors_with_a_token_can_read_metrics_at_the_address_of_a_pod(tmp_path: Path, host: str) -> None:
    with api(tmp_path) as it:
        answers = [it.http.get("/metrics", headers={"Host": host, **more}) for more in ({}, {"Authorization": ""})]
        assert [each.status_code for each in answers] == [200, 401]
        del it.http.headers["Authorization"]
        assert it.http.get("/metrics", headers={"Host": host}).status_code == 403


@pytest.mark.parametrize("host", ["127.0.0.1:8700", "localhost:8700", "LOCALHOST:8700", "[::1]:8700"])
def test_server_accepts_its_own_names_and_pages(quiet: Api, host: str) -> None:
    answer = quiet.http.get("/api/version", headers={"Host": host, "Origin": f"http://{host.lower()}"})
    assert answer.status_code == 200


def test_health_is_open_and_readiness_follows_the_loop(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        open_to_all = {"Authorization": ""}
        assert it.http.get("/healthz", headers=open_to_all).json() == {"status": "ok"}
        assert it.http.get("/readyz", headers=open_to_all).json() == {"status": "ready"}
        it.desk.service._reconciler.failure = "OSError: disk"
        answer = it.http.get("/readyz", headers={**open_to_all, "x-request-id": "r1"})
        assert (answer.status_code, answer.json()) == (
            503,
            {
                "message": "the server is not ready: OSError: disk",
                "error_code": "UNAVAILABLE",
                "details": {"request_id": "r1"},
            },
        )


def test_large_body_is_refused_with_or_without_a_length(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        body = b'{"file": "' + b"x" * LARGEST_BODY + b'"}'

        def pieces() -> Iterator[bytes]:
            yield body[:1000]
            yield body[1000:]

        for content in (body, pieces()):
            answer = it.http.post(SUBMIT, content=content, headers={**AUTHORIZED, "Content-Type": "application/json"})
            assert (answer.status_code, answer.json()) == (
                413,
                {"message": "the request is larger than 2 MiB. Send less", "error_code": "USAGE", "details": {}},
            )


def test_two_slashes_before_api_count_as_one(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        answer = it.http.get("http://127.0.0.1:8700//api/version")
        assert (answer.status_code, answer.json()["version"]) == (200, "0.1.0")


def test_responses_cannot_be_framed_cached_or_sniffed(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        for headers in (AUTHORIZED, {"Authorization": ""}):
            answer = it.http.get("/api/version", headers=headers)
            assert {
                name: answer.headers[name] for name in ("cache-control", "x-content-type-options", "x-frame-options")
            } == {"cache-control": "no-store", "x-content-type-options": "nosniff", "x-frame-options": "DENY"}
            assert "access-control-allow-origin" not in answer.headers


def test_unknown_paths_have_the_usual_error_format(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        assert it.error("GET", "/api/nothing") == (
            404,
            {"message": "unknown path /api/nothing. See /openapi.json", "error_code": "NOTFOUND", "details": {}},
        )
        assert it.error("DELETE", "/api/version")[0] == 405


def test_response_to_a_bug_has_no_internals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with api(tmp_path) as it:
        monkeypatch.setattr(it.desk.service.queries, "pools", lambda **_: 1 // 0)
        answer = it.http.get("/api/pool_quota", headers={"x-request-id": "r1"})
        assert (answer.status_code, answer.json()) == (
            500,
            {
                "message": "internal server error (ZeroDivisionError). Please report it with the lines in the server's log",
                "error_code": "SERVER",
                "details": {"request_id": "r1"},
            },
        )


# ---------------------------------------------------------------- browsers


class Browser:
    """What a browser sends that is signed in as ann."""

    def __init__(self, it: Api) -> None:
        self.cookie = it.desk.service.access.browsers.enter(TOKEN, "127.0.0.1")
        self.csrf = it.desk.service.access.browsers.csrf(self.cookie)
        self._http = it.http

    def ask(self, method: str, path: str, **headers: str) -> Any:
        sent = {"Authorization": "", "Cookie": f"runrig-{PORT}={self.cookie}", "Accept": "*/*"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        del sent["Authorization"]
        with_token = self._http.headers.pop("Authorization")
        try:
            return self._http.request(
                method, path, headers=sent, json={} if method == "POST" else None, follow_redirects=False
            )
        finally:
            self._http.headers["Authorization"] = with_token


def test_cookie_alone_cannot_use_the_api(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        it.submit(one_task("a"))
        browser, before = Browser(it), it.desk.revision
        for method, path in (
            ("GET", "/api/v1/workflows"),
            ("GET", "/api/version"),
            ("GET", "/metrics"),
            ("GET", "/openapi.json"),
            ("POST", "/api/v1/workflows/a-1:cancel"),
            ("POST", "/api/workflow/a-1/cancel"),
            ("POST", "/api/v1/browser-codes"),
            ("DELETE", "/api/v1/pools/pool1"),
            ("POST", "/page/anything"),
        ):
            for sent in (
                {},
                {"X_CSRF_Token": ""},
                {"X_CSRF_Token": browser.csrf[:-1]},
                {"X_CSRF_Token": browser.cookie},
            ):
                assert browser.ask(method, path, **sent).status_code == 401, (method, path, sent)
        assert it.desk.revision == before
        assert browser.ask("GET", "/api/v1/workflows", X_CSRF_Token=browser.csrf).status_code == 200
        assert browser.ask("POST", "/api/v1/browser-codes", X_CSRF_Token=browser.csrf).status_code == 200


def test_cookie_of_another_server_on_this_machine_is_ignored(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        browser = Browser(it)
        for cookie in (
            f"runrig-8701={browser.cookie}",
            f"runrig={browser.cookie}",
            f"__Host-runrig={browser.cookie}",
            f"runrig-{PORT}={browser.cookie}; runrig-{PORT}=another",
            f"runrig-{PORT}=",
            f"runrig-{PORT}",
        ):
            assert browser.ask("GET", "/page/state", Cookie=cookie).status_code == 401


@pytest.mark.parametrize("site", ["cross-site", "same-site", "anything"])
def test_requests_by_other_sites_have_no_session(tmp_path: Path, site: str) -> None:
    with api(tmp_path) as it:
        browser = Browser(it)
        for path, secret in (("/page/state", {}), ("/api/v1/workflows", {"X_CSRF_Token": browser.csrf})):
            sent = {"Sec_Fetch_Site": site, "Sec_Fetch_Mode": "no-cors"} | secret
            assert browser.ask("GET", path, **sent).status_code == 401
            assert browser.ask("GET", path, **sent, Origin="https://evil.example").status_code == 403


def test_page_without_a_session_redirects_to_the_login_and_back(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        it.http.headers.pop("Authorization")
        for path, login in (
            ("/", "/login"),
            ("/workflow/a-1", "/login?next=/workflow/a-1"),
            ("/waiting?pool=a%26b&law=P2", "/login?next=/waiting%3Fpool%3Da%2526b%26law%3DP2"),
        ):
            answer = it.http.get(path, headers={"Accept": "text/html,*/*"}, follow_redirects=False)
            assert (answer.status_code, answer.headers["location"]) == (303, login)
            assert it.http.get(path, follow_redirects=False).status_code == 401
        assert it.http.get("/api/v1/pools", headers={"Accept": "text/html"}, follow_redirects=False).status_code == 401
        assert it.http.get("/waiting", headers={"Accept": "text/html", "Host": "evil.example"}).status_code == 403
