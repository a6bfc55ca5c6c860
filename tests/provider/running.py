"""The provider while a test runs, and a browser: cookies, redirects and forms."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx2

from tests.tiers import only_slow

PASSWORD = "pw"
CODES = "authorization-code"
DEVICES = "urn:ietf:params:oauth:grant-type:device_code"


@dataclass(frozen=True)
class Running:
    issuer: str
    process: "subprocess.Popen[str]"

    @property
    def origin(self) -> str:
        return self.issuer.removesuffix("/o")

    def groups(self, **members: list[str]) -> None:
        """Sets the groups of users."""
        self.tell(groups=members)

    def rename(self, **names: str) -> None:
        self.tell(rename=names)

    def rotate(self) -> None:
        """Another key signs from now on, and the old one is forgotten."""
        self.tell(rotate=True)

    def knows(self, kind: str) -> None:
        """CODES or DEVICES: an application of the package knows one of them."""
        self.tell(kind=kind)

    def returns_to(self, url: str) -> None:
        """Applications may have people sent back to *url* too."""
        self.tell(returns=url)

    def tell(self, **command: object) -> None:
        httpx2.post(f"{self.origin}/test/", json=command).raise_for_status()


@contextmanager
def provider(folder: Path) -> Iterator[Running]:
    only_slow("an identity provider")
    command = [sys.executable, "-m", "tests.provider.site", str(folder / "provider.db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Running(process.stdout.readline().strip(), process)
        finally:
            process.kill()


class Browser:
    """The browser of one person."""

    def __init__(self, user: str) -> None:
        self._user = user
        self._client = httpx2.Client(follow_redirects=False, timeout=30)

    def open(self, url: str, until: str, **typed: str) -> str:
        """Follows *url* through redirects and forms, until it is sent to an address that begins with *until*; that address.

        *typed*: into fields of these names.
        """
        answer = self._client.get(url)
        for _ in range(20):
            while answer.status_code in (301, 302, 303):
                url = urljoin(str(answer.url), answer.headers["location"])
                if url.startswith(until):
                    return url
                answer = self._client.get(url)
            assert answer.status_code == 200, (answer.status_code, answer.text[:2000])
            answer = self._client.post(str(answer.url), data=self._filled(answer.text, typed))
        raise AssertionError(f"no way from {url} to {until}")

    def _filled(self, page: str, typed: Mapping[str, str]) -> dict[str, str]:
        form = _Form()
        form.feed(page)
        known = {"username": self._user, "password": PASSWORD, "allow": "Authorize", "action": "accept", **typed}
        assert form.fields, page
        return form.fields | {
            name: value for name, value in known.items() if name in form.fields or name == form.button
        }


class _Form(HTMLParser):
    """*fields*: of all forms of a page.  *button*: the last that has a name."""

    def __init__(self) -> None:
        super().__init__()
        self.fields: dict[str, str] = {}
        self.button = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attributes}
        if tag == "button" or found.get("type") == "submit":
            self.button = found.get("name", self.button)
        elif tag == "input" and "name" in found:
            self.fields[found["name"]] = found.get("value", "")


def returned(url: str) -> Mapping[str, str]:
    """What the provider sent the browser back with."""
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
