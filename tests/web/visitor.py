"""A browser without a screen: the real application with its pages, and somebody who is signed in."""

from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx2
from fastapi.testclient import TestClient

from runrig.api.app import create_app
from runrig.domain.access import role_named
from runrig.web.install import install
from tests.api.client import PORT, TOKEN, URL
from tests.worlds.service import Desk, desk


class Site:
    def __init__(self, desk: Desk, app: Any) -> None:
        self.desk = desk
        self.app = app

    def visitor(self, token: str = TOKEN) -> "Visitor":
        """Somebody who signed in with *token*."""
        found = Visitor(TestClient(self.app, base_url=URL, raise_server_exceptions=False, follow_redirects=False))
        assert found.sign_in(token).status_code == 303
        return found

    def person(self, name: str, *roles: str) -> "Visitor":
        """A new user with *roles* who signed in."""
        access = self.desk.service.access
        access.users.create(name, [role_named(role) for role in roles], actor="ann")
        return self.visitor(access.tokens.create(name, "t", actor="ann").text)


class Visitor:
    def __init__(self, http: TestClient) -> None:
        self.http = http

    def sign_in(self, shown: str, next: str = "/", **headers: str) -> httpx2.Response:
        sent = {"Origin": URL, "Content-Type": "application/x-www-form-urlencoded"} | headers
        body = httpx2.QueryParams({"shown": shown, "next": next})
        return self.http.post("/login", content=str(body), headers=sent)

    def get(self, path: str, **headers: str) -> httpx2.Response:
        return self.http.get(path, headers={"Accept": "text/html"} | headers)

    def page(self, path: str) -> str:
        found = self.get(path)
        assert found.status_code == 200, found.text
        return found.text


@contextmanager
def site(folder: Path, **settings: Any) -> Iterator[Site]:
    with desk(folder, **settings) as it:
        app = create_app(it.service, token=TOKEN, port=PORT, user="ann")
        install(app, it.service)
        yield Site(it, app)


class Elements(HTMLParser):
    """Every element of a page with its attributes, and every address that it names."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]

    @property
    def addresses(self) -> list[str]:
        return [
            value
            for _, attributes in self.found
            for name in ("href", "src", "action")
            if (value := attributes.get(name))
        ]
