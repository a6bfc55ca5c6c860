"""A token that gives fewer roles than its user has ends and changes nothing that the user's wider tokens use.

Whatever a user owns without regard to a pool is in `OWNED`, by the route that changes it; a new such route has to enter.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from html import unescape
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from runrig.api import app as application
from runrig.domain.access import OF_A_POOL, Permission, role_named
from runrig.domain.credentials import CredentialKind
from runrig.domain.notices import When
from runrig.http.permissions import declared
from runrig.service.access import browser_sessions
from runrig.service.access.access import Access
from runrig.web.install import ROUTES as PAGES
from tests.api.client import PORT, URL
from tests.web.visitor import Site, site

USER = "una"
ROLES = ("pool1-admin", "pool1-user", "pool2-user")
GIVES: Mapping[str, tuple[str, ...] | None] = {
    "wide": None,
    "whole": ROLES,
    "pools": ("pool1-admin", "pool1-user"),
    "narrow": ("pool1-user",),
    "twin": ("pool1-user",),
}
"""Tokens of *una* with what they give."""

DONE = (200, 201, 204, 303)
OTHER = {"generic_credential": {"credential": {"key": "of a thief"}}}


@dataclass(frozen=True)
class Row:
    """*path*: {name} is the token that the request is about; a path without it is about what all tokens of the user share.
    *body*: of a form, if it is text."""

    path: str
    body: Any = None

    @property
    def of_tokens(self) -> bool:
        return "{name}" in self.path


NOT_OWNED = "changes nothing of a user"
BOUNDED = "makes what gives no more than who asks"
OWNED: Mapping[str, Row | str] = {
    "DELETE /api/auth/access_token/{name}": Row("/api/auth/access_token/{name}"),
    "DELETE /api/credentials/{name}": Row("/api/credentials/own"),
    "DELETE /api/v1/credentials/{name}": Row("/api/v1/credentials/own"),
    "DELETE /api/v1/tokens/{name}": Row("/api/v1/tokens/{name}"),
    "PATCH /api/v1/me": Row("/api/v1/me", {"default_pool": "pool1"}),
    "PUT /api/v1/me/notices": Row("/api/v1/me/notices", {"to": "https://thief.example.org/", "when": ["fail"]}),
    "DELETE /api/v1/me/notices": Row("/api/v1/me/notices"),
    "POST /api/v1/me/notices:test": NOT_OWNED,
    "PATCH /api/v1/tokens/{name}": Row("/api/v1/tokens/{name}", {"roles": ["pool1-user"], "description": "mine now"}),
    "POST /api/auth/access_token/{name}": BOUNDED,
    "POST /api/auth/jwt/access_token": BOUNDED,
    "POST /api/auth/oidc/device": NOT_OWNED,
    "POST /api/auth/oidc/token": NOT_OWNED,
    "POST /api/credentials/{name}": Row("/api/credentials/own", OTHER),
    "POST /api/profile/settings": Row("/api/profile/settings", {"pool": "pool1", "email_notification": True}),
    "POST /api/v1/browser-codes": BOUNDED,
    "POST /api/v1/sign-in/code": NOT_OWNED,
    "POST /api/v1/sign-in/device": NOT_OWNED,
    "POST /api/v1/sign-in/device/token": NOT_OWNED,
    "POST /api/v1/sign-in/renewal": NOT_OWNED,
    "POST /api/v1/tokens": BOUNDED,
    "POST /login": BOUNDED,
    "POST /me/change/{name}": Row("/me/change/{name}", "roles=pool1-user&description=mine+now&key={key}"),
    "POST /me/credential": Row("/me/credential", "name=own&type=GENERIC&values=key:+thief&key={key}"),
    "POST /me/credential/delete/{name}": Row("/me/credential/delete/own", "key={key}"),
    "POST /me/notices": Row("/me/notices", "to=https://thief.example.org/&fail=on"),
    "POST /me/notices/off": Row("/me/notices/off", "key={key}"),
    "POST /me/notices/test": NOT_OWNED,
    "POST /me/pool": Row("/me/pool", "pool=pool1&key={key}"),
    "POST /me/revoke/{name}": Row("/me/revoke/{name}", "key={key}"),
    "POST /me/token": BOUNDED,
    "POST /logout": NOT_OWNED,  # ends the session whose cookie and second secret were sent
    "POST /submit": NOT_OWNED,  # requires permission to submit to the pool in the form
    "POST /run": NOT_OWNED,  # submits a workflow, or previews it
    "POST /workflows/act": NOT_OWNED,  # requires permission to change each selected workflow
    "POST /workflows/columns": NOT_OWNED,  # sets a cookie of the browser
    "PUT /api/v1/credentials/{name}": Row("/api/v1/credentials/own", {"values": {"key": "of a thief"}}),
}
ROWS = {route: row for route, row in OWNED.items() if isinstance(row, Row)}
TOKEN_ROUTES = sorted(route for route, row in ROWS.items() if row.of_tokens)
SHARED_ROUTES = sorted(route for route, row in ROWS.items() if not row.of_tokens)


@dataclass
class Una:
    """*tokens*: the texts, by the names of `GIVES`."""

    site: Site
    http: TestClient
    tokens: dict[str, str]

    @property
    def access(self) -> Access:
        return self.site.desk.service.access

    def send(self, bearer: str, method: str, path: str, body: Any = None, **headers: str) -> httpx2.Response:
        sent = {"Authorization": f"Bearer {bearer}"} | headers
        content: dict[str, Any] = {"json": body}
        if isinstance(body, str):
            content = {"content": body}
            sent["Content-Type"] = "application/x-www-form-urlencoded"
        found: httpx2.Response = self.http.request(method, path, headers=sent, follow_redirects=False, **content)
        return found

    def do(self, by: str, route: str, about: str = "") -> httpx2.Response:
        row = ROWS[route]
        body = row.body.format(key=uuid4()) if isinstance(row.body, str) else row.body
        return self.send(self.tokens[by], route.partition(" ")[0], row.path.format(name=about), body)

    def portrait(self) -> tuple[object, ...]:
        """All that is kept of users, but for when tokens were used."""
        store, whom = self.site.desk.store.access, self.site.desk.store.notices.settings()
        rows = store.load()
        tokens = tuple(replace(each, last_used_at=None) for each in rows.tokens)
        return replace(rows, tokens=tokens), store.profile(USER), store.sessions(), whom


@contextmanager
def una(folder: Path) -> Iterator[Una]:
    with site(folder) as it:
        access = it.desk.service.access
        access.users.create(USER, [role_named(each) for each in ROLES], actor="ann")
        made = {
            name: access.tokens.create(
                USER, name, actor=USER, roles=None if roles is None else [role_named(each) for each in roles]
            ).text
            for name, roles in GIVES.items()
        }
        access.credentials.set(USER, "own", CredentialKind.GENERIC, {"key": "of una"}, actor=USER)
        it.desk.service.notices.set(USER, "https://hooks.example.org/", (When.FAIL,), 0, 0)
        http = TestClient(it.app, base_url=URL, raise_server_exceptions=False, follow_redirects=False)
        yield Una(it, http, made)
        http.close()


def test_every_route_for_personal_settings_has_a_row() -> None:
    decided = {each.value for each in OF_A_POOL}
    decided |= {each.value for each in (Permission.CHANGE_CLUSTER, Permission.ACCESS, Permission.READ_EVERYTHING)}
    decided.add(Permission.SEND_CODE.value)  # from a role on any pool
    found = set()
    for route in (*(each for router in application.ROUTERS for each in router.routes), *PAGES):
        assert isinstance(route, APIRoute)
        if not any(said.partition(" (")[0] in decided for said in map(str, declared(route))):
            found |= {f"{method} {route.path}" for method in route.methods or () if method != "GET"}
    assert found == set(OWNED)


def said(refused: httpx2.Response) -> str:
    """Why, in the words of the rule: a form has a full stop after them."""
    if "html" in refused.headers["content-type"]:
        (told,) = re.findall('role="alert"><p>(.*?)[.]</p>', refused.text)
        return unescape(told)
    told = refused.json()
    return str(told.get("detail") or told["message"])


@pytest.mark.parametrize("route", SHARED_ROUTES)
def test_settings_shared_by_tokens_need_a_token_with_all_roles(tmp_path: Path, route: str) -> None:
    with una(tmp_path) as it:
        before = it.portrait()
        for by in ("narrow", "pools"):
            refused = it.do(by, route)
            assert refused.status_code == 403
            assert said(refused) == (
                f"this token grants only {', '.join(GIVES[by] or ())}, but una has more roles. To change credentials "
                "and settings, which all tokens of una share, use a token that grants all of them"
            )
        assert it.portrait() == before
        assert it.do("whole", route).status_code in DONE
        assert it.portrait() != before


@pytest.mark.parametrize("route", TOKEN_ROUTES)
def test_narrowed_token_manages_only_tokens_with_no_more_roles_than_its_own(tmp_path: Path, route: str) -> None:
    with una(tmp_path) as it:
        before = it.portrait()
        wider = {"narrow": ("wide", "whole", "pools"), "pools": ("wide", "whole")}
        for by, abouts in wider.items():
            for about in abouts:
                refused = it.do(by, route, about)
                assert refused.status_code == 403, (by, about)
                assert said(refused) == (
                    f"token {about} of una grants more roles than {by}, the token of this request. Use a token with at "
                    "least the same roles to change, show or revoke it"
                )
        assert it.portrait() == before
        assert all(it.send(each, "GET", "/api/v1/me").status_code == 200 for each in it.tokens.values())
        for by, about in (("narrow", "twin"), ("narrow", "narrow"), ("whole", "pools"), ("whole", "wide")):
            assert it.do(by, route, about).status_code in DONE, (by, about)


def test_a_token_is_narrowed_as_soon_as_its_user_has_another_role(tmp_path: Path) -> None:
    with una(tmp_path) as it:
        assert it.do("whole", "PUT /api/v1/credentials/{name}").status_code == 200
        it.access.users.grant(USER, role_named("viewer"), actor="ann")
        assert it.do("whole", "PUT /api/v1/credentials/{name}").status_code == 403
        assert it.do("whole", "DELETE /api/v1/tokens/{name}", "wide").status_code == 403
        assert it.do("wide", "PUT /api/v1/credentials/{name}").status_code == 200


def test_revoked_role_still_makes_a_token_wider(tmp_path: Path) -> None:
    """It is wider again once the role is back."""
    with una(tmp_path) as it:
        it.access.users.withdraw(USER, role_named("pool1-admin"), actor="ann")
        assert it.do("narrow", "DELETE /api/v1/tokens/{name}", "pools").status_code == 403


def test_admins_manage_every_token_also_with_a_narrowed_one_of_their_own(tmp_path: Path) -> None:
    with una(tmp_path) as it:
        it.access.users.grant(USER, role_named("admin"), actor="ann")
        assert it.do("narrow", "DELETE /api/v1/tokens/{name}", "wide").status_code == 403
        chief = it.access.tokens.create(USER, "chief", actor=USER, roles=[role_named("admin")]).text
        assert it.send(chief, "DELETE", "/api/v1/tokens/wide").status_code == 200
        assert it.send(chief, "DELETE", f"/api/v1/users/{USER}/tokens/whole").status_code == 200


def exchanged(it: Una, token: str) -> str:
    """The JWT of five minutes for *token*."""
    found: str = it.http.post("/api/auth/jwt/access_token", json={"token": token}).json()["token"]
    return found


def test_token_created_with_a_narrowed_token_is_not_wider(tmp_path: Path) -> None:
    """Its JWT, a token that it makes, and one made by the reference client's door."""
    with una(tmp_path) as it:
        jwt = exchanged(it, it.tokens["narrow"])
        child = it.send(it.tokens["narrow"], "POST", "/api/v1/tokens", {"name": "child"}).json()["token"]
        made = it.send(it.tokens["narrow"], "POST", "/api/auth/access_token/other?expires_at=2030-02-28")
        before = it.portrait()
        for bearer in (jwt, child, made.json()):
            assert it.send(bearer, "DELETE", "/api/v1/tokens/wide").status_code == 403
            assert it.send(bearer, "PATCH", "/api/v1/tokens/pools", {"description": "x"}).status_code == 403
            assert it.send(bearer, "PUT", "/api/v1/credentials/own", {"values": {"key": "x"}}).status_code == 403
        assert it.portrait() == before


@pytest.mark.parametrize("roles", [{}, {"roles": ["pool1-admin"]}])
def test_idempotency_key_does_not_reveal_a_token_with_more_roles(tmp_path: Path, roles: dict[str, Any]) -> None:
    """The text is made of the user and the key, so that who repeats the request is told it again."""
    asked, key = {"name": "again", **roles}, {"Idempotency-Key": "0123456789abcdef0123456789abcdef"}
    with una(tmp_path) as it:
        first = it.send(it.tokens["wide"], "POST", "/api/v1/tokens", asked, **key)
        assert first.status_code == 201
        stolen = it.send(it.tokens["narrow"], "POST", "/api/v1/tokens", asked, **key)
        assert stolen.status_code in (403, 409)
        assert first.json()["token"] not in stolen.text
        assert it.send(it.tokens["wide"], "POST", "/api/v1/tokens", asked, **key).json() == first.json()


def test_narrowed_token_signs_out_only_browsers_with_no_more_roles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user has so many sessions; one more ends the oldest."""
    monkeypatch.setattr(browser_sessions, "MOST", 3)
    with una(tmp_path) as it:
        browsers = it.access.browsers

        def enter(by: str) -> str:
            return browsers.enter(it.tokens[by], "here")

        def signed_in(*cookies: str) -> list[bool]:
            return [
                it.http.get("/me", headers={"Cookie": f"runrig-{PORT}={each}"}).status_code == 200 for each in cookies
            ]

        wide, narrow = [enter("wide"), enter("pools")], enter("narrow")
        code = it.send(it.tokens["narrow"], "POST", "/api/v1/browser-codes").json()["code"]
        by_code = browsers.enter(code, "here")
        assert signed_in(*wide, narrow, by_code) == [True, True, False, True]
        newest = enter("whole")  # which covers them all: the oldest one is revoked
        assert signed_in(*wide, by_code, newest) == [False, True, True, True]
        enter("wide"), enter("wide"), enter("wide")
        before = it.portrait()
        form = {"Origin": URL, "Content-Type": "application/x-www-form-urlencoded"}
        refused = it.http.post("/login", content=f"shown={it.tokens['narrow']}", headers=form)
        assert refused.status_code == 409
        assert "una already has 3 browser sessions, all with more permissions than this token" in refused.text.lower()
        assert it.portrait() == before
