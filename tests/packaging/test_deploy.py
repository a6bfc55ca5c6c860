"""What belongs to an installation on Kubernetes beside the chart's objects: the base of the image, and the boards of Grafana."""

import json
import re
import runpy
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

ROOT = Path(__file__).parents[2]
BASE = runpy.run_path(str(ROOT / ".ci" / "image_base.py"))
DIGEST = "sha256:" + "0a" * 32


class Registry(BaseHTTPRequestHandler):
    """A registry that gives a token to everybody, and a digest to those who have it."""

    def do_GET(self) -> None:
        wanted = {"service": ["images"], "scope": ["repository:library/python:pull"]}
        self._answer(200 if parse_qs(urlsplit(self.path).query) == wanted else 403, body=b'{"token": "t1"}')

    def do_HEAD(self) -> None:
        if self.headers["Authorization"] != "Bearer t1":
            realm = f"http://{self.headers['Host']}/token"
            asks = f'Bearer realm="{realm}",service="images",scope="repository:library/python:pull"'
            self._answer(401, {"WWW-Authenticate": asks})
        elif self.path == "/v2/library/python/manifests/3.12":
            self._answer(200, {"Docker-Content-Digest": DIGEST})
        else:
            self._answer(404)

    def _answer(self, status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def registry() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_base_of_the_image_gets_the_digest_that_its_registry_has_for_the_tag() -> None:
    with registry() as host:
        image = f"{host}/library/python:3.12"
        assert BASE["pinned"](image, "http") == f"{image}@{DIGEST}"
    assert BASE["pinned"](image, "http") is None, "it cannot be reached any more"


def test_the_dockerfile_names_registry_and_tag_of_its_base() -> None:
    base = BASE["base_of"]((ROOT / "deploy" / "Dockerfile").read_text())
    assert re.fullmatch(r"[a-z.]+/[a-z/]+:[a-z0-9.-]+", base), base


def boards() -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((ROOT / "deploy/helm/runrig/boards").iterdir())]


def test_the_boards_of_grafana_show_metrics_that_the_server_has() -> None:
    shown = {
        name
        for board in boards()
        for panel in board["panels"]
        for each in panel["targets"]
        for name in names(each["expr"])
    }
    known = names((ROOT / "docs" / "production-monitor.md").read_text())
    assert len(shown) > 10
    assert shown <= known, shown - known


def test_grafana_can_import_both_boards_side_by_side_and_asks_for_the_data_source() -> None:
    """A board with the uid or the title of another one would replace it."""
    found = boards()
    assert len({board["uid"] for board in found}) == len({board["title"] for board in found}) == len(found) == 2
    for board in found:
        source, *_ = board["templating"]["list"]
        assert (source["type"], source["query"]) == ("datasource", "prometheus")
        panels = board["panels"]
        assert len({panel["id"] for panel in panels}) == len(panels)
        assert {panel["datasource"]["uid"] for panel in panels} == {f"${{{source['name']}}}"}
        assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)


def names(text: str) -> set[str]:
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"\brunrig_\w+", text)}
