"""The client signs in at a provider of identities: its requests with a real one, Django OAuth Toolkit on loopback."""

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from fastapi.testclient import TestClient

from runrig.api.app import create_app
from runrig.service.access.access import Access
from tests.api.client import PORT, URL
from tests.provider.access import settings
from tests.provider.running import CODES, DEVICES, Browser, Running, provider, returned
from tests.worlds.service import desk

pytestmark = pytest.mark.slow

BACK = "http://localhost:45555"
VERIFIER, NONCE, STATE = "v" * 64, "n" * 32, "s" * 32
ROLES = {"ml": ("pool1-user",)}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with provider(tmp_path_factory.mktemp("provider")) as it:
        it.groups(alice=["ml"])
        yield it


@pytest.fixture
def http(running: Running, tmp_path: Path) -> Iterator[TestClient]:
    with desk(tmp_path) as found:
        real = found.service.access
        found.service.access = Access(
            real._accounts._store, now=real.now, pools=lambda: ("pool1", "pool2"), oidc=settings(running.issuer, ROLES)
        )
        with TestClient(create_app(found.service, port=PORT), base_url=URL, raise_server_exceptions=False) as client:
            yield client


def offer(http: TestClient) -> Any:
    """What the client asks first."""
    answer = http.get("/api/auth/login")
    assert answer.status_code == 200, answer.text
    return answer.json()


def claims(token: str) -> Any:
    """As the client reads a token, which it does not check."""
    body = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(body + "=="))


def user(http: TestClient, token: str) -> tuple[str, list[str]]:
    answer = http.get("/api/profile/settings", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 200, answer.text
    return answer.json()["profile"]["username"], answer.json()["roles"]


def code(found: Any) -> str:
    """The browser goes to the provider with what the client puts into the address, and comes back to a port of the client."""
    digest = hashlib.sha256(VERIFIER.encode()).digest()
    query = {
        "client_id": found["browser_client_id"],
        "response_type": "code",
        "redirect_uri": BACK,
        "response_mode": "query",
        "scope": "openid profile groups",  # without offline_access, which this provider does not support
        "state": STATE,
        "nonce": NONCE,
        "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
        "code_challenge_method": "S256",
    }
    back = returned(Browser("alice").open(f"{found['browser_endpoint']}?{urlencode(query)}", BACK))
    assert back.get("state") == STATE, back
    return back["code"]


def granted(http: TestClient, found: Any, **form: str) -> tuple[int, Any]:
    answer = http.post(found["token_endpoint"], data={"client_id": found["browser_client_id"], **form})
    return answer.status_code, answer.json()


def test_browser_signs_in_and_the_token_is_renewed(http: TestClient, running: Running) -> None:
    running.returns_to(BACK)
    found = offer(http)
    asked = {"grant_type": "authorization_code", "code": code(found), "code_verifier": VERIFIER, "redirect_uri": BACK}
    status, answer = granted(http, found, **asked)
    assert status == 200, answer
    told = claims(answer["id_token"])
    assert (told["nonce"], told["name"], told["exp"] > told["iat"]) == (NONCE, "oidc:alice", True)
    assert user(http, answer["id_token"]) == ("oidc:alice", ["osmo-pool1-user"])
    status, renewed = granted(http, found, grant_type="refresh_token", refresh_token=answer["refresh_token"])
    assert status == 200, renewed
    assert user(http, renewed["id_token"]) == ("oidc:alice", ["osmo-pool1-user"])
    assert granted(http, found, **asked)[0] == 400, "a code is good for once"


def test_code_sent_elsewhere_or_with_another_verifier_is_refused(http: TestClient, running: Running) -> None:
    running.returns_to(BACK)
    found = offer(http)
    right = {"grant_type": "authorization_code", "code": code(found), "code_verifier": VERIFIER, "redirect_uri": BACK}
    for wrong in ({"redirect_uri": "http://evil.example.org"}, {"code_verifier": "w" * 64}, {"code": "no"}):
        status, answer = granted(http, found, **right | wrong)
        assert (status, answer["error"]) == (400, "invalid_grant"), answer


def test_machine_without_a_browser_signs_in_with_a_code(http: TestClient, running: Running) -> None:
    running.knows(DEVICES)
    try:
        found = offer(http)
        begun = http.post(found["device_endpoint"], data={"client_id": found["device_client_id"], "scope": "openid"})
        assert begun.status_code == 200, begun.text
        shown = begun.json()
        asked = {"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": shown["device_code"]}
        assert granted(http, found, **asked)[1]["error"] == "authorization_pending"
        end = f"{running.issuer}/device-grant-status"
        Browser("alice").open(shown["verification_uri"], end, user_code=shown["user_code"])
        status, answer = granted(http, found, **asked)
        assert status == 200, answer
        assert user(http, answer["id_token"])[0] == "oidc:alice"
    finally:
        running.knows(CODES)


def test_password_is_refused_with_the_method_that_works(http: TestClient) -> None:
    status, answer = granted(http, offer(http), grant_type="password", username="alice", password="x")
    assert (status, answer["error"]) == (400, "unsupported_grant_type")
    assert "log in with a token: `login URL --method token --token-file FILE`" in answer["error_description"]
