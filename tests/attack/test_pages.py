"""What a web page can make a browser send, and who one claims to be."""

import pytest

from tests.attack.target import Target, refused

UPGRADE = [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13")]
KEY = ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")


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


def test_duplicate_security_headers_are_refused(target: Target) -> None:
    host = f"127.0.0.1:{target.port}"
    for extra in (("Host", host), ("Origin", f"http://{host}"), ("Origin", "https://evil.example")):
        twice = [extra, ("Origin", "https://evil.example")]
        refused(target, target.ask("GET", "/api/version", headers=[*target.headers(), *twice]), 400, 403)
