"""A browser signs in at a real provider of identities: Django OAuth Toolkit on loopback, by redirects and forms."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest
from fastapi.testclient import TestClient

from runrig.api.app import create_app
from runrig.domain.access import BrowserSession, role_named
from runrig.domain.shown.server import SignedIn
from runrig.service.access import browser_sessions
from runrig.service.access.access import Access
from runrig.service.access.accounts import hash_of
from runrig.service.access.oidc.fetching import ProviderSilent
from runrig.service.access.oidc.provider import Provider
from runrig.service.access.oidc.sign_ins import SignIns
from runrig.web.install import install
from tests.api.client import PORT, URL
from tests.patience import until
from tests.provider.access import Signing, settings
from tests.provider.running import Browser, Running, provider, returned
from tests.web.visitor import Elements, Visitor
from tests.worlds.service import desk

pytestmark = pytest.mark.slow

BACK = f"{URL}/login/oidc/return"
ROLES = {"ml": ("pool1-user",), "heads": ("pool1-admin", "viewer")}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with provider(tmp_path_factory.mktemp("provider")) as it:
        yield it


class Place:
    """A server with a provider.  *shift*: seconds by which its clock is ahead of the real one."""

    def __init__(self, access: Access, app: object, shift: list[float]) -> None:
        self.access, self.app, self.shift = access, app, shift

    def visitor(self) -> Visitor:
        http = TestClient(self.app, base_url=URL, raise_server_exceptions=False, follow_redirects=False)  # type: ignore[arg-type]
        return Visitor(http)

    def begin(self, visitor: Visitor, next: str = "/", **headers: str) -> str:
        """Where the provider is."""
        answer = visitor.get(f"/login/oidc?{urlencode({'next': next})}", **headers)
        assert answer.status_code == 303, answer.text
        return answer.headers["location"]

    def signed_in(self, name: str, next: str = "/") -> Visitor:
        visitor = self.visitor()
        came_back = Browser(name).open(self.begin(visitor, next), BACK)
        answer = visitor.get(came_back.removeprefix(URL))
        assert answer.status_code == 200, answer.text
        return visitor

    def roles(self, visitor: Visitor) -> list[str] | None:
        """None: signed out."""
        answer = visitor.get("/me")
        if answer.status_code == 303:
            return None
        return [each.partition("<")[0] for each in answer.text.split('<span class="badge">')[1:]]


@pytest.fixture
def it(running: Running, tmp_path: Path) -> Iterator[Place]:
    running.groups(alice=["ml"], bob=[])
    with place(tmp_path, running) as made:
        yield made


@contextmanager
def place(folder: Path, running: Running) -> Iterator[Place]:
    with desk(folder) as found:
        shift = [0.0]
        real = found.service.access
        access = Access(
            real._accounts._store,
            now=lambda: real.now() + shift[0],
            pools=lambda: ("pool1", "pool2"),
            oidc=settings(running.issuer, ROLES),
        )
        found.service.access = access
        app = create_app(found.service, port=PORT)
        install(app, found.service)
        yield Place(access, app, shift)


def test_sign_in_returns_to_the_requested_page(it: Place) -> None:
    visitor = it.visitor()
    (link,) = [
        each
        for each in Elements(visitor.page("/login?next=%2Fwaiting")).named("a")
        if each.get("class") == "button strong"
    ]
    assert link["href"] == "/login/oidc?next=/waiting"
    answer = visitor.get(str(link["href"]))
    asked = parse_qs(urlsplit(answer.headers["location"]).query)
    assert (asked["redirect_uri"], asked["code_challenge_method"]) == ([BACK], ["S256"])
    kept = answer.headers["set-cookie"]
    assert all(each in kept for each in ("HttpOnly", "SameSite=lax", "Max-Age=600", "Path=/"))
    came_back = Browser("alice").open(answer.headers["location"], BACK)
    answer = visitor.get(came_back.removeprefix(URL), **{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"})
    assert answer.status_code == 200
    (refresh,) = [each for each in Elements(answer.text).named("meta") if each.get("http-equiv") == "refresh"]
    assert refresh["content"] == "0;url=/waiting"
    session, ended = answer.headers.get_list("set-cookie")
    assert all(each in session for each in (f"runrig-{PORT}=", "HttpOnly", "SameSite=strict"))
    assert f'runrig-{PORT}-sign-in=""; HttpOnly; Max-Age=0' in ended
    assert it.roles(visitor) == ["pool1-user"]
    assert "oidc:alice" in visitor.page("/me")


def test_without_a_provider_sign_in_is_not_offered(tmp_path: Path) -> None:
    with desk(tmp_path) as found:
        app = create_app(found.service, port=PORT)
        install(app, found.service)
        visitor = Place(found.service.access, app, [0.0]).visitor()
        assert "oidc" not in visitor.page("/login")
        for path in ("/login/oidc", "/login/oidc/return?code=x&state=y"):
            assert visitor.get(path).status_code == 404


# ---------------------------------------------------------------- invalid sign-ins


def refused(answer: httpx2.Response, *said: str) -> None:
    assert answer.status_code == 403, answer.text
    assert [each for each in said if each not in answer.text] == []
    assert f"runrig-{PORT}=" not in answer.headers.get("set-cookie", "")


def test_sign_in_code_works_once(it: Place) -> None:
    visitor = it.visitor()
    url = it.begin(visitor)
    kept = dict(visitor.http.cookies)
    came_back = Browser("alice").open(url, BACK).removeprefix(URL)
    assert visitor.get(came_back).status_code == 200
    again = it.visitor()
    again.http.cookies.update(kept)
    refused(again.get(came_back), "identity provider refused: invalid_grant")
    assert it.roles(again) is None


def test_response_is_accepted_only_in_the_browser_that_started_the_sign_in(it: Place) -> None:
    """Else somebody could sign others in as themselves, and see what they then submit."""
    mine, other = it.visitor(), it.visitor()
    came_back = Browser("alice").open(it.begin(mine), BACK).removeprefix(URL)
    refused(other.get(came_back), "has no sign-in in progress")
    it.begin(other)
    refused(other.get(came_back), "belongs to another sign-in")
    assert mine.get(came_back).status_code == 200


@pytest.mark.parametrize("state", ["", "x", "ä"])
def test_a_wrong_state_is_refused_before_the_provider_is_asked(it: Place, state: str) -> None:
    visitor = it.visitor()
    sent = returned(Browser("alice").open(it.begin(visitor), BACK))
    refused(visitor.get(f"/login/oidc/return?{urlencode({**sent, 'state': state})}"), "belongs to another sign-in")
    kept = visitor.http.cookies.get(f"runrig-{PORT}-sign-in")
    assert not kept  # after a wrong guess, the sign-in starts over


def test_response_must_be_in_time_and_from_the_right_provider(it: Place) -> None:
    for change, shift, said in (
        ({"iss": "https://evil.example"}, 0.0, "came from another identity provider"),
        ({}, 601.0, "ten minutes"),
    ):
        visitor = it.visitor()
        sent = returned(Browser("alice").open(it.begin(visitor), BACK))
        it.shift[0] += shift
        refused(visitor.get(f"/login/oidc/return?{urlencode({**sent, **change})}"), said)


def test_refusal_at_the_provider_is_shown(it: Place) -> None:
    for error, said in (
        ("access_denied", "(access_denied)"),
        ("<script>alert(1)</script>", "did not sign you in. Sign"),
    ):
        visitor = it.visitor()
        state = parse_qs(urlsplit(it.begin(visitor)).query)["state"][0]
        sent = urlencode({"error": error, "state": state, "error_description": "<b>x</b>", "session_state": "1"})
        answer = visitor.get(f"/login/oidc/return?{sent}")
        refused(answer, said)
        assert "<script>alert" not in answer.text
        assert "<b>" not in answer.text


@pytest.mark.parametrize(
    "next", ["https://evil.example/", "//evil.example", "/login", "/api/v1/tokens", "/\\evil", "x" * 2000]
)
def test_sign_in_never_redirects_to_another_site(it: Place, next: str) -> None:
    visitor = it.visitor()
    came_back = Browser("alice").open(it.begin(visitor, next), BACK)
    (refresh,) = [
        each
        for each in Elements(visitor.get(came_back.removeprefix(URL)).text).named("meta")
        if each.get("http-equiv") == "refresh"
    ]
    assert refresh["content"] == "0;url=/"


def test_other_sites_cannot_start_a_sign_in(it: Place) -> None:
    visitor = it.visitor()
    answer = visitor.get("/login/oidc", **{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"})
    assert (answer.status_code, "set-cookie" in answer.headers) == (401, False)
    answer = visitor.get("/login/oidc", Origin="https://evil.example")
    assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)


def test_local_user_with_the_same_name_is_a_different_user(it: Place) -> None:
    it.access.users.create("alice", [role_named("admin")], actor="root")
    visitor = it.signed_in("alice")
    assert it.roles(visitor) == ["pool1-user"]
    assert it.access.users.get("alice").account is None


# ---------------------------------------------------------------- going on


def test_a_withdrawn_group_takes_effect_before_fifteen_minutes_are_over(it: Place, running: Running) -> None:
    visitor = it.signed_in("alice")
    running.groups(alice=["heads"])
    it.shift[0] += 250  # a token of the provider is valid for 300 s, and only this server's clock is ahead
    assert it.roles(visitor) == ["pool1-user"]
    (before,) = it.access.browsers._sessions.values()
    it.access.browsers._sessions[before.hash] = ends_soon(before, it.access)
    assert it.roles(visitor) == ["pool1-user"]  # now the provider is asked
    until(lambda: it.roles(visitor) == ["pool1-admin", "viewer"])
    (after,) = it.access.browsers._sessions.values()
    assert 0 <= it.access.now() + 900 - after.ends_at < 30
    running.groups(alice=[])
    it.access.browsers._sessions[after.hash] = ends_soon(after, it.access)
    until(lambda: it.roles(visitor) == [])


def ends_soon(session: BrowserSession, access: Access, in_s: float = 60) -> BrowserSession:
    return replace(session, ends_at=access.now() + in_s)


def test_late_return_continues_without_a_form(it: Place) -> None:
    visitor = it.signed_in("alice")
    (before,) = it.access.browsers._sessions.values()
    it.access.browsers._sessions[before.hash] = ends_soon(before, it.access, -600)
    answer = visitor.get("/workflows?pool=pool1")
    assert answer.headers["location"].startswith("/login?next=")
    answer = visitor.get(answer.headers["location"])
    assert (answer.status_code, answer.headers["location"]) == (303, "/workflows?pool=pool1")
    assert visitor.get("/workflows?pool=pool1").status_code == 200


@pytest.mark.parametrize("why", ["provider", "restart", "disabled", "out", "idle"])
def test_session_that_cannot_be_renewed_ends(it: Place, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser_sessions, "IDLE_S", 100.0)
    visitor = it.signed_in("alice")
    (before,) = it.access.browsers._sessions.values()
    if why == "provider":
        it.access.browsers._renewals[before.hash].refresh_token = "revoked"
    elif why == "restart":
        it.access.browsers._renewals.clear()
    elif why == "disabled":
        it.access.users.set_disabled("oidc:alice", True, actor="root")
    elif why == "out":
        csrf = it.access.browsers.csrf(str(visitor.http.cookies[f"runrig-{PORT}"]))
        cookies = dict(visitor.http.cookies)
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        assert visitor.http.post("/logout", content=f"csrf={csrf}", headers=form).status_code == 303
        visitor.http.cookies.update(cookies)
    else:
        it.shift[0] += browser_sessions.IDLE_S + 1
    if why == "provider":
        it.access.browsers._sessions[before.hash] = ends_soon(before, it.access)
        until(lambda: it.roles(visitor) is None)  # immediately, not after a timeout
        assert it.access._accounts._store.sessions() == ()
    elif why in ("restart", "idle"):
        it.access.browsers._sessions[before.hash] = ends_soon(before, it.access, -1)
    assert it.roles(visitor) is None
    assert visitor.get("/login").status_code == (303 if why == "restart" else 200)
    assert it.roles(visitor) is None


def opened(it: Place, name: str) -> Visitor:
    """The browser of somebody who signed in on a command line, which keeps the refresh token, and then said `runrig open`."""
    signing = Signing(it.access, it.access.sign_ins.spec, it.shift)
    token = signing.sign_in(Browser(name)).token
    visitor = it.visitor()
    answer = visitor.http.post("/api/v1/browser-codes", headers={"Authorization": f"Bearer {token}"})
    assert visitor.sign_in(answer.json()["code"]).status_code == 303
    return visitor


def test_session_of_runrig_open_restarts_at_the_provider_and_then_continues(it: Place, running: Running) -> None:
    visitor = opened(it, "alice")
    assert it.roles(visitor) == ["pool1-user"]
    assert visitor.get("/login").status_code == 200, "as long as it is good nobody is sent away"
    (before,) = it.access.browsers._sessions.values()
    it.access.browsers._sessions[before.hash] = ends_soon(before, it.access, -1)
    running.groups(alice=["heads"])
    answer = visitor.get("/workflows?pool=pool1")
    answer = visitor.get(answer.headers["location"])
    assert (answer.status_code, answer.headers["location"]) == (303, "/login/oidc?next=%2Fworkflows%3Fpool%3Dpool1")
    came_back = Browser("alice").open(visitor.get(answer.headers["location"]).headers["location"], BACK)
    assert "0;url=/workflows?pool=pool1" in visitor.get(came_back.removeprefix(URL)).text
    assert it.roles(visitor) == ["pool1-admin", "viewer"]
    hash = hash_of(str(visitor.http.cookies[f"runrig-{PORT}"]))
    it.access.browsers._sessions[hash] = ends_soon(it.access.browsers._sessions[hash], it.access, -1)
    assert (visitor.get("/login").headers["location"], it.roles(visitor)) == ("/", ["pool1-admin", "viewer"])


def test_concurrent_returns_ask_the_provider_once(it: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the second use of a refresh token for a theft."""
    asked, ask = [], SignIns.renewed

    def renewed(*arguments: Any) -> SignedIn:
        asked.append(1)
        return ask(*arguments)

    monkeypatch.setattr(SignIns, "renewed", renewed)
    visitor = it.signed_in("alice")
    (before,) = it.access.browsers._sessions.values()
    it.access.browsers._sessions[before.hash] = ends_soon(before, it.access, -1)
    cookie = str(visitor.http.cookies[f"runrig-{PORT}"])
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(it.access.browsers.goes_on, [cookie] * 8)) == [True] * 8
    assert asked == [1]


def test_session_ends_at_its_expiry_while_the_provider_is_down(it: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def silent(*_: object) -> None:
        asked.append(1)
        raise ProviderSilent("the identity provider does not respond")

    visitor = it.signed_in("alice")
    monkeypatch.setattr(Provider, "tokens", silent)
    (before,) = it.access.browsers._sessions.values()
    it.access.browsers._sessions[before.hash] = ends_soon(before, it.access)
    for _ in range(5):
        assert it.roles(visitor) == ["pool1-user"]
    until(lambda: len(asked) == 1)  # it is not asked again for a while
    it.shift[0] += 61
    assert it.roles(visitor) is None
    assert visitor.get("/login").status_code == 200
    assert len(asked) == 2
    monkeypatch.undo()
    it.shift[0] += browser_sessions.AGAIN_S
    assert visitor.get("/login").status_code == 303
    assert it.roles(visitor) == ["pool1-user"]


def test_nothing_of_the_provider_is_stored_or_shown(it: Place) -> None:
    visitor = it.signed_in("alice")
    (renewal,) = it.access.browsers._renewals.values()
    stored = repr((it.access._accounts._store.sessions(), it.access._accounts._store.load(), it.access.events()))
    assert renewal.refresh_token not in stored + visitor.page("/me") + repr(renewal) + repr(dict(visitor.http.cookies))
