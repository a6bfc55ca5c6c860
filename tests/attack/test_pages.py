"""What a web page can make a browser send, and who one claims to be."""

import pytest

from tests.attack.target import TREASURE, Target, refused
from tests.attack.wire import request

ORIGINS = ("https://evil.example", "null", "http://127.0.0.1", "http://127.0.0.1.evil.example", "file://", "")
UPGRADE = [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13")]
KEY = ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")


@pytest.mark.parametrize("origin", ORIGINS)
def test_cors_preflight_is_refused(target: Target, origin: str) -> None:
    asks = [
        ("Host", f"127.0.0.1:{target.port}"),
        ("Origin", origin),
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "authorization"),
    ]
    answer = target.ask("OPTIONS", "/api/pool/team/workflow", headers=asks)
    refused(target, answer, 403)
    assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_request_for_another_host_is_not_forwarded(target: Target) -> None:
    for line in ("http://evil.example/api/version", "//evil.example/api/version", "evil.example:443"):
        method = "CONNECT" if line.endswith("443") else "GET"
        refused(target, target.ask(method, line), 400, 404, 405)


@pytest.mark.parametrize("origin", ["https://evil.example", "null", None])
@pytest.mark.parametrize("user", ["admin", None])
def test_unexpected_websocket_is_refused_cleanly(target: Target, origin: str | None, user: str | None) -> None:
    said = [header for header in target.headers(user) if header[0] != "Connection"]
    headers = [*said, *UPGRADE, KEY, *([] if origin is None else [("Origin", origin)])]
    for path in ("/api/stream", "/api/workflow", "/"):
        answer = target.ask("GET", path, headers=headers)
        assert "upgrade" not in answer.headers
        if origin is None and user == "admin" and path != "/api/stream":
            assert answer.status == 200  # requests from its own page get the usual answer
        else:
            refused(target, answer, 401 if origin is None and user is None else 403 if origin else 404)


def test_form_of_another_page_submits_nothing(target: Target) -> None:
    """What needs no question first: a simple request, without a token because a form cannot send one."""
    body = b'{"file": "' + TREASURE.replace("\n", "\\n").encode() + b'"}'
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        headers = [("Host", f"127.0.0.1:{target.port}"), ("Content-Type", kind)]
        refused(target, target.ask("POST", "/api/pool/team/workflow", headers=headers, body=body), 401)
        headers.append(("Sec-Fetch-Site", "cross-site"))
        headers.append(("Cookie", f"token={target.tokens['admin']}"))
        refused(target, target.ask("POST", "/api/pool/team/workflow", headers=headers, body=body), 401)


@pytest.mark.parametrize(
    "name", ["", " ", "ann\x7f", "\u202eann", "x" * 129, "runrig", "cluster file", "ann\u0000", "\u2028"]
)
def test_impossible_user_name_is_ignored(target: Target, name: str) -> None:
    head = [*target.headers(), ("x-osmo-user", name)]
    answer = target.raw(request("POST", "/api/workflow/nothing-1/cancel", head))
    refused(target, answer, 400, 403, 404, 422)


def test_duplicate_security_headers_are_refused(target: Target) -> None:
    host = f"127.0.0.1:{target.port}"
    for extra in (("Host", host), ("Origin", f"http://{host}"), ("Origin", "https://evil.example")):
        twice = [extra, ("Origin", "https://evil.example")]
        refused(target, target.ask("GET", "/api/version", headers=[*target.headers(), *twice]), 400, 403)
