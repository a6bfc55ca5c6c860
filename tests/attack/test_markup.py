"""HTML and script in every field that people can write, on a real server whose tasks really write: all of it stays text.

Each payload ends an attribute, a text, a comment and a script, wherever it stands, and then opens an element that nobody else has.
"""

import re
import shlex
from collections.abc import Iterator
from html.parser import HTMLParser
from urllib.parse import quote, urljoin, urlsplit

import pytest
import yaml

from tests.attack.target import Target, started
from tests.attack.test_browsers import sign_in

EVIL = "\"'>--></title></textarea></script></svg><x-evil/onload=alert(1)/style=color:red><script>alert(1)</script>{{777767*777787}}"
QUOTE = "\" onmouseover=alert(1) style='color:red' x='{{777767*777787}}"
"""Where `<` is refused."""
CLUSTER = """
backend: {type: local}
pools:
- {name: team, quota: 1}
"""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("markup")
    data, cluster = folder / "data", folder / "cluster.yaml"
    cluster.write_text(CLUSTER)
    words = ["up", "--cluster", str(cluster), "--data", str(data), "--gpus", "2", "--port", "0"]
    with started(words, folder / "stderr") as (running, line):
        port = int(line.split(" is up at ")[1].split(" ")[0].rpartition(":")[2])
        yield Target(port, data, data / "server.log", running, {"admin": (data / "token").read_text().strip()})


class Elements(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.inline = ""
        self._in_script = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self._in_script = tag == "script"

    def handle_data(self, data: str) -> None:
        if self._in_script:
            self.inline += data.strip()


def file(name: str = "evil", task: str = "main", *, end: str = "exit 3", **labels: str) -> str:
    """A workflow that says what is evil.  A file is a template, so what looks like one is left out."""
    text = EVIL.partition("{{")[0]
    command = ["sh", "-c", f"printf '%s\\n' {shlex.quote(text)}; printf '%s\\n' {shlex.quote(text)} >&2; {end}"]
    main: dict[str, object] = {
        "name": task,
        "image": text,
        "command": command,
        "environment": {"EVIL": text},
        "resource": "some",
    }
    main["files"] = [{"path": "/tmp/evil", "contents": text}]
    resources = {"some": {"gpu": 1}}
    return yaml.safe_dump({"workflow": {"name": name, "labels": labels, "tasks": [main], "resources": resources}})


def write(target: Target) -> dict[str, int]:
    """Puts EVIL wherever somebody can write; the status of each attempt."""
    told: dict[str, int] = {}

    def tried(what: str, method: str, path: str, body: object = None) -> None:
        answer = target.ask(method, path, body=body)
        assert answer.status < 500, (what, answer)
        told[what] = answer.status

    pool = {"pool": "team"}
    for what, text in (
        ("file of one that fails", file("ends")),
        ("file of one that goes on", file("lasts", end="sleep 600")),
        ("name of a workflow", file(EVIL[:60])),
        ("name of a task", file(task=EVIL[:60])),
        ("label in a file", file(a=EVIL)),
        ("text that is no file", EVIL),
    ):
        tried(what, "POST", "/api/v1/workflows", pool | {"file": text, "environment": {"MORE": EVIL}})
    plain = file("plain")
    tried("label", "POST", "/api/v1/workflows", pool | {"file": plain, "labels": {"a": EVIL}})
    tried("key of a variable", "POST", "/api/v1/workflows", pool | {"file": plain, "environment": {EVIL: "x"}})
    tried("tag", "PATCH", "/api/v1/workflows/lasts-1/tags", {"add": [EVIL]})
    tried("message of a cancel", "POST", "/api/v1/workflows/lasts-1/cancel", {"message": EVIL})
    tried("description of a pool", "PATCH", "/api/v1/pools/team", {"description": QUOTE})
    tried("name of a pool", "PUT", f"/api/v1/pools/{quote(EVIL, safe='')}", {"quotas": {}})
    tried("description of a token", "POST", "/api/v1/tokens", {"name": "t", "description": EVIL})
    tried("name of a token", "POST", "/api/v1/tokens", {"name": EVIL})
    tried("name of a user", "POST", "/api/v1/users", {"name": EVIL})
    tried("a role", "POST", "/api/v1/roles", {"user": "ann", "role": f"{EVIL}-user"})
    tried("a credential", "PUT", "/api/v1/credentials/mine", {"values": {"k": EVIL}})
    tried("name of a credential", "PUT", f"/api/v1/credentials/{quote(EVIL, safe='')}", {"values": {"k": "v"}})
    notes = {"configs_dict": {"description": QUOTE + "."}, "description": QUOTE, "tags": ["x"]}
    tried("a note on a change", "PATCH", "/api/configs/pool/team", notes)
    return told


def test_user_input_stays_text_on_every_page(target: Target) -> None:
    told = write(target)
    taken = {what for what, status in told.items() if status < 400}
    assert taken >= {
        "file of one that fails",
        "file of one that goes on",
        "message of a cancel",
        "description of a pool",
        "description of a token",
        "a credential",
        "a note on a change",
    }, told
    target.ok("GET", "/api/v1/workflows/ends-1/wait?timeout=60")
    pages = dict(crawled(target))
    assert len(pages) > 8
    everything = "".join(pages.values())
    for text in ("&lt;x-evil/onload=alert(1)", "{{777767*777787}}", "ends-1", "lasts-1"):
        assert text in everything, text
    assert str(777767 * 777787) not in everything
    for path, text in pages.items():
        found = Elements(text)
        assert not [each for each in found.tags if each.startswith("x-")], path
        assert not [name for name, _ in found.attributes if name.startswith("on") or name == "style"], path
        assert not [value for _, value in found.attributes if value.strip().lower().startswith("javascript:")], path
        assert found.inline == "", path


def crawled(target: Target) -> Iterator[tuple[str, str]]:
    """(path, text) of all pages that can be reached, and of what pages load; each with the headers that make a browser believe it."""
    cookie, seen = sign_in(target), set[str]()
    odd = quote(EVIL, safe="")
    left = [
        "/",
        f"/find?q={odd}",
        f"/workflows?name={odd}&user={odd}&pool={odd}",
        f"/waiting?pool={odd}",
        f"/login?next={odd}",
    ]
    left += [f"/pool/{odd}", f"/node/{odd}", f"/workflow/{odd}", "/page/state", "/page/layout"]
    while left and len(seen) < 200:
        path = left.pop()
        if path in seen or path.startswith("/static/"):
            continue
        seen.add(path)
        headers = [*target.headers(None), ("Cookie", cookie), ("Accept", "text/html")]
        answer = target.ask("GET", path, headers=headers)
        kind = answer.headers.get("content-type", "").partition(";")[0]
        assert answer.headers["x-content-type-options"] == "nosniff", path
        assert kind in ("text/html", "text/plain", "text/csv", "application/json", ""), (path, kind)
        if kind != "text/html":
            assert "default-src 'none'" in answer.headers["content-security-policy"], path
            continue
        assert "script-src 'self'" in answer.headers["content-security-policy"], path
        text = answer.body.decode()
        yield path, text
        for link in re.findall(r'(?:href|data-load|data-follow)="([^"#]+)', text):
            parts = urlsplit(urljoin(path, link.replace("&amp;", "&")))
            if not parts.netloc and parts.path not in ("/logout", "/login/oidc"):
                left.append(parts.path + (f"?{parts.query}" if parts.query else ""))


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/workflows/ends-1/logs",
        "/api/v1/workflows/ends-1/spec",
        "/api/v1/workflows/ends-1",
        "/api/v1/pools/team",
        "/api/v1/me",
        "/api/workflow/ends-1/logs",
        "/api/configs/history?omit_data=true",
        f"/api/v1/workflows/{quote(EVIL, safe='')}",
        f"/api/v1/pools?{quote(EVIL, safe='')}=1",
    ],
)
def test_api_responses_are_never_html(target: Target, path: str) -> None:
    """Opened as an address, too, a browser runs nothing of it."""
    answer = target.ask("GET", path)
    assert answer.status < 500
    assert answer.headers["content-type"].partition(";")[0] in (
        "text/plain", "application/json", "application/problem+json",
    )  # fmt: skip
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
