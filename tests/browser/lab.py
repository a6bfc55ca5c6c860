"""A server with work on it: a-1 runs and writes, others run beside it, and b-1 waits."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from playwright.sync_api import Browser, BrowserContext, Dialog, Page

from tests.patience import until
from tests.worlds.command_line import Up, up, written

CLUSTER = "pools: [{name: pool1, quota: 2}, {name: pool2, quota: 2}]\n"


def file(name: str, gpus: int, command: str = "sleep 3000") -> str:
    return (
        f"workflow:\n  name: {name}\n  tasks:\n  - {{name: main, image: any, command: [sh, -c, '{command}']}}\n"
        f"  resources: {{default: {{gpu: {gpus}}}}}\n"
    )


@dataclass
class Lab:
    """*signed_in*: what a browser keeps that is signed in."""

    server: Up
    folder: Path
    url: str
    signed_in: object = None

    def submit(
        self, name: str, gpus: int, command: str = "sleep 3000", pool: str = "pool1", priority: str = "NORMAL"
    ) -> str:
        path = written(self.folder, file(name, gpus, command), f"{name}.yaml")
        done = self.server.runrig("workflow", "submit", path, "--pool", pool, "--priority", priority)
        assert done.code == 0, done.err
        return f"{name}-1"

    def address(self) -> str:
        """Returns the address that `runrig open` prints."""
        return self.server.runrig("open").out.strip()

    def context(
        self, browser: Browser, width: int = 1440, height: int = 900, scheme: str = "light", **more: object
    ) -> BrowserContext:
        """A browser that is signed in."""
        if self.signed_in is None:
            first = browser.new_context()
            page = first.new_page()
            page.goto(self.address())
            page.wait_for_url(f"{self.url}/")
            self.signed_in = first.storage_state()
            first.close()
        return browser.new_context(
            storage_state=self.signed_in,  # type: ignore[arg-type]
            viewport={"width": width, "height": height},
            color_scheme=scheme,  # type: ignore[arg-type]
            **more,  # type: ignore[arg-type]
        )


class Served(Protocol):
    @property
    def url(self) -> str: ...


class Watched:
    """A page, with all that it complains of and all whom it asks."""

    def __init__(self, page: Page, lab: Served) -> None:
        self.page, self._lab = page, lab
        self.complaints: list[str] = []
        self.asked: set[str] = set()
        page.on(
            "console", lambda said: self.complaints.append(said.text) if said.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", self._alerted)
        page.on("request", lambda request: self.asked.add(request.url))

    def _alerted(self, dialog: Dialog) -> None:
        self.complaints.append(f"{dialog.type} {dialog.message}")
        dialog.dismiss()

    def goto(self, path: str) -> Page:
        self.page.goto(self._lab.url + path)
        return self.page

    def is_content(self) -> None:
        assert self.complaints == [], self.complaints
        assert [each for each in self.asked if not each.startswith(self._lab.url)] == []


@contextmanager
def lab(folder: Path) -> Iterator[Lab]:
    with up(folder / "data", "--gpus", "4", "--cluster", written(folder, CLUSTER, "cluster.yaml")) as server:
        it = Lab(server, folder, server.said.split(" at ")[1].split(" ")[0])
        it.submit("a", 2, "echo first; while true; do sleep 1; echo more; done")
        it.submit("low", 1, pool="pool2", priority="LOW")
        it.submit("b", 2)
        until(lambda: server.json("workflow", "query", "a-1")["status"] == "RUNNING")
        until(lambda: server.json("workflow", "query", "low-1")["status"] == "RUNNING")
        try:
            yield it
        finally:  # tasks outlive their server
            server.runrig("workflow", "cancel", "a-1", "low-1", "b-1")
            until(lambda: server.json("workflow", "list", "-a", "-s", "RUNNING")["workflows"] == [])
