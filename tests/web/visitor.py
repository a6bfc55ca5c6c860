"""A browser without a screen: the real application with its pages, and somebody who is signed in."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx2
from anyio.from_thread import BlockingPortal, start_blocking_portal
from fastapi.testclient import TestClient

from runrig.api.app import create_app
from runrig.domain.access import role_named
from runrig.web.install import install
from tests.api.client import PORT, TOKEN, URL
from tests.worlds.service import Desk, desk


class Site:
    """*loop*: where all requests are answered, as in a server."""

    def __init__(self, desk: Desk, app: Any, loop: BlockingPortal) -> None:
        self.desk = desk
        self.app = app
        self._loop = loop

    def visitor(self, token: str = TOKEN) -> "Visitor":
        """Somebody who signed in with *token*."""
        http = TestClient(self.app, base_url=URL, raise_server_exceptions=False, follow_redirects=False)
        http.portal = self._loop
        found = Visitor(http)
        assert found.sign_in(token).status_code == 303
        return found

    def person(self, name: str, *roles: str) -> "Visitor":
        """A new user with *roles* who signed in."""
        access = self.desk.service.access
        access.users.create(name, [role_named(role) for role in roles], actor="ann")
        return self.visitor(access.tokens.create(name, "t", actor="ann").text)


class Visitor:
    def __init__(self, http: httpx2.Client) -> None:
        self.http = http

    def sign_in(self, shown: str, next: str = "/", **headers: str) -> httpx2.Response:
        sent = {"Origin": URL, "Content-Type": "application/x-www-form-urlencoded"} | headers
        body = httpx2.QueryParams({"shown": shown, "next": next})
        return self.http.post("/login", content=str(body), headers=sent)

    def get(self, path: str, **headers: str) -> httpx2.Response:
        return self.http.get(path, headers={"Accept": "text/html"} | headers)

    def post(self, path: str, fields: Mapping[str, str], **headers: str) -> httpx2.Response:
        """As a browser sends a form: the fields in their order, the second secret of the session first."""
        sent = {"Origin": URL, "Accept": "text/html", "Content-Type": "application/x-www-form-urlencoded"} | headers
        in_order = {name: fields[name] for name in sorted(fields, key="csrf".__ne__)}
        return self.http.post(path, content=str(httpx2.QueryParams(in_order)), headers=sent)

    def fill(self, path: str, **typed: str) -> httpx2.Response:
        """Opens the form at *path*, types, and presses the first button."""
        return self.post(path, fields_of(self.page(path)) | {"step": "check"} | typed)

    def confirm(self, path: str, page: str, **typed: str) -> httpx2.Response:
        """Says yes to what *page*, with a form, says."""
        return self.post(path, fields_of(page) | {"step": "send"} | typed)

    def page(self, path: str) -> str:
        found = self.get(path)
        assert found.status_code == 200, found.text
        return found.text


@contextmanager
def site(folder: Path, **settings: Any) -> Iterator[Site]:
    with desk(folder, **settings) as it, start_blocking_portal() as loop:
        app = create_app(it.service, token=TOKEN, port=PORT, user="ann")
        install(app, it.service)
        yield Site(it, app, loop)


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


def fields_of(page: str) -> dict[str, str]:
    """What the form on *page* would send if nobody touched it: hidden fields and what was typed, without the buttons."""
    page = page.partition("<main")[2]  # Without the field in the header.
    elements = Elements(page)
    inputs = [each for each in elements.named("input") if each.get("type") != "checkbox" or "checked" in each]
    found = {str(each["name"]): each.get("value") or "" for each in inputs if each.get("name")}
    for kind in ("textarea", "select"):
        for name, inner in re.findall(rf'<{kind}[^>]* name="([^"]*)"[^>]*>(.*?)</{kind}>', page, re.DOTALL):
            chosen = re.search(r"<option selected>(.*?)</option>", inner)
            first = "" if "<option value=" in inner else (re.findall(r"<option>(.*?)</option>", inner) or [""])[0]
            found[name] = unescape(inner[1:] if kind == "textarea" else chosen[1] if chosen else first)
    return found


def words_of(page: str) -> str:
    """The text of the page, below its head."""
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page.partition("<main")[2]))).strip()
