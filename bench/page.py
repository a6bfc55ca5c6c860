"""The cost of the page: a first visit in a real browser, and many open tabs while workflows start.

The cluster is that of `tests.worlds.seeded`, with 10,000 nodes and 80,000 GPUs.  The server is a separate process, `python -m
bench.page NODES`; the cost of tabs is its usage with them, less its usage without them just before and after.
"""

import gzip
import http.client
import json
import random
import re
import selectors
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.worlds import seeded

from bench.section import Cell, Rows, verdict
from bench.store import FILE, run, started
from bench.submits import processor_s
from bench.traffic import STARTS_WITHIN_S, TOKEN
from runrig.backends.simulated import SimulatedBackend, SimulatedClock
from runrig.domain.access import role_named
from runrig.service.service import Service
from runrig.spec.cluster import read_cluster
from runrig.store import SqlStore

NODES = 10_000
TABS = 100
A_SECOND = 5
"""Workflows that are submitted and start immediately."""
SECONDS = 30.0
LEAST_S, SETTLES_S = 2.0, 20.0
"""The minimum pause of the script, and how long tabs are open before their cost is measured."""
MOST_TABS, TURNS, EACH = 200, 3, 1_000
"""Tabs that are open in every other turn, and submissions in a turn, one after another."""
MORE = 1.1
"""The processor time of a submission with MOST_TABS may be this many times as long."""
COLD_BYTES, SCRIPT_MS, TABS_PERCENT = 50_000, 120.0, 5.0
_REVISION, _SHOWN = re.compile(rb'"r":(\d+)'), re.compile(rb'data-revision="(\d+)"')
ROOM = 1.0
"""This share of the GPUs is requested; some workflows have ended, so some are free."""

ABOUT = (
    f"the page at {NODES:,} nodes and {NODES * seeded.GPUS:,} GPUs: a first visit in Chromium, and what {TABS} open tabs cost the "
    f"server, in percent of a processor, while {A_SECOND} workflows start in a second, and what {MOST_TABS} cost a submission"
)


def rows(runs: int, nodes: int = NODES, tabs: int = TABS, seconds: float = SECONDS) -> Rows:
    return [*_visits(runs, nodes), *_tabs(nodes, tabs, seconds)]


def _row(what: str, here: Cell, goal: Cell, told: str) -> dict[str, Cell]:
    return {"what": what, "here": here, "goal": goal, "is": told}


# ---------------------------------------------------------------- a first visit


def _visits(runs: int, nodes: int) -> Iterator[dict[str, Cell]]:
    from playwright.sync_api import sync_playwright
    from tests.browser.conftest import CHROMIUM, FLAGS
    from tests.browser.costs import cold
    from tests.browser.large import large

    if shutil.which(CHROMIUM) is None:
        yield _row(f"left out: a first visit, because {CHROMIUM} is missing", "-", "-", "")
        return
    with tempfile.TemporaryDirectory() as folder, large(Path(folder), nodes) as it, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for path in ("/", "/map"):
            found = [cold(it, browser, path) for _ in range(max(3, runs))]
            size, script = max(each.bytes for each in found), min(each.script_ms for each in found)
            yield _row(f"{path}: bytes of a first visit", size, COLD_BYTES, verdict(size <= COLD_BYTES))
            yield _row(f"{path}: ms of its scripts", script, SCRIPT_MS, verdict(script <= SCRIPT_MS))
        browser.close()


# ---------------------------------------------------------------- open tabs


@dataclass
class _Tab:
    """An open page, like `live.js`.  *told*, *shown*: revisions.  *due*: when it may ask again, *pause* seconds after an answer."""

    stream: socket.socket
    told: int = 0
    shown: int = 0
    pause: float = LEAST_S
    due: float = 0.0

    def hears(self, now: float) -> None:
        """Reads its stream.  With many tabs it waits for a random part of its pause before it asks."""
        said = self.stream.recv(65536)
        if not said:
            raise RuntimeError("a stream has ended")
        was_new = self.told > self.shown
        self.told = max([self.told, *map(int, _REVISION.findall(said))])
        if self.told > self.shown and not was_new:
            self.due = max(self.due, now) + random.random() * (self.pause - LEAST_S if self.pause > LEAST_S else 0.0)

    def is_due(self, now: float) -> bool:
        return self.told > self.shown and now >= self.due


def _tabs(nodes: int, tabs: int, seconds: float, most: int = MOST_TABS, each: int = EACH) -> Iterator[dict[str, Cell]]:
    """The cost without tabs drifts within a run, so each figure is the excess over the mean just before and just after it."""
    with started("bench.page", str(nodes)) as ((number, cookie), process):
        port = int(number)
        _used(port, process, cookie, 0, False, 2.0)  # warms up
        before, _ = _used(port, process, cookie, 0, False, seconds)
        yield _row(f"no tab: {A_SECOND} workflows a second", before, "-", "")
        for what, count, refreshes in (
            (f"{tabs} streams", tabs, False),
            (f"{tabs} tabs of /", tabs, True),
            ("1 tab of /", 1, True),
        ):
            found, often = _used(port, process, cookie, count, refreshes, seconds)
            after, _ = _used(port, process, cookie, 0, False, seconds)
            cost, before = found - (before + after) / 2, after
            yield _row(what, cost, TABS_PERCENT, verdict(cost < TABS_PERCENT))
            if refreshes:
                yield _row(f"{what}: seconds between two refreshes of one", seconds * count / max(1, often), "-", "")
        yield _row("no tab, at the end", before, "-", "")
        yield from _submissions(port, process, cookie, most, each, min(SETTLES_S, seconds))


def _used(port: int, process: int, cookie: str, tabs: int, refreshes: bool, seconds: float) -> tuple[float, int]:
    """Percent of a processor that the server uses, and how often tabs asked.  Tabs have been open for a while before that."""
    open_tabs = [_Tab(_opened(port, cookie)) for _ in range(tabs)]
    with selectors.DefaultSelector() as selector:
        for each in open_tabs:
            selector.register(each.stream, selectors.EVENT_READ, each)
        _run(selector, port, cookie, refreshes, min(SETTLES_S, seconds) if tabs else 0.0)
        began, used = time.monotonic(), processor_s(process)
        asked = _run(selector, port, cookie, refreshes, seconds)
        used, passed = processor_s(process) - used, time.monotonic() - began
    for each in open_tabs:
        each.stream.close()
    return 100 * used / passed, asked


def _run(selector: selectors.BaseSelector, port: int, cookie: str, refreshes: bool, seconds: float) -> int:
    """Returns how often tabs asked."""
    began, submitted, asked = time.monotonic(), 0, 0
    while (passed := (now := time.monotonic()) - began) < seconds:
        for key, _ in selector.select(0.05):
            key.data.hears(now)
        if submitted < passed * A_SECOND:
            _asked(port, "POST", "/api/pool/speech/workflow", {"Authorization": f"Bearer {TOKEN}"})
            submitted += 1
        for tab in (key.data for key in list(selector.get_map().values())) if refreshes else ():
            if tab.is_due(now):
                _refresh(tab, port, cookie)
                asked += 1
    return asked


def _submissions(
    port: int, process: int, cookie: str, tabs: int, each: int, settles_s: float
) -> Iterator[dict[str, Cell]]:
    """ms of the server's processor for a submission. The tabs are open in a process of their own, and have been for a while."""
    alone, beside = [], []
    for _ in range(TURNS):
        alone.append(_submitted(port, process, each))
        with started("bench.page", "tabs", str(port), cookie, str(tabs)):
            time.sleep(settles_s)
            beside.append(_submitted(port, process, each))
    without, found = median(alone), median(beside)
    yield _row("a submission without tabs: ms of the server's processor", without, "-", "")
    most = MORE * without
    yield _row(f"a submission with {tabs} tabs of /: the same", found, most, verdict(found <= most))


def _submitted(port: int, process: int, each: int) -> float:
    used = processor_s(process)
    for _ in range(each):
        _asked(port, "POST", "/api/pool/speech/workflow", {"Authorization": f"Bearer {TOKEN}"})
    return 1000 * (processor_s(process) - used) / each


def keep_open(port: int, cookie: str, tabs: int) -> None:
    """Keeps tabs open until it is killed; prints a line when they are."""
    open_tabs = [_Tab(_opened(port, cookie)) for _ in range(tabs)]
    with selectors.DefaultSelector() as selector:
        for each in open_tabs:
            selector.register(each.stream, selectors.EVENT_READ, each)
        print("open", flush=True)
        while True:
            for key, _ in selector.select(0.05):
                key.data.hears(time.monotonic())
            for tab in open_tabs:
                if tab.is_due(time.monotonic()):
                    _refresh(tab, port, cookie)


def _refresh(tab: _Tab, port: int, cookie: str) -> None:
    headers, body = _asked(
        port, "GET", "/", {"Cookie": f"runrig-{port}={cookie}", "Accept": "text/html", "X-Page-Refresh": "1"}
    )
    found = _SHOWN.search(gzip.decompress(body))
    assert found is not None, "the response has its revision"
    tab.shown, tab.pause = int(found[1]), float(headers["X-Page-Pause"])
    tab.due = time.monotonic() + tab.pause
    if tab.told > tab.shown:
        tab.due += random.random() * max(0.0, tab.pause - LEAST_S)


def _opened(port: int, cookie: str) -> socket.socket:
    found = socket.create_connection(("127.0.0.1", port), timeout=STARTS_WITHIN_S)
    head = f"GET /page/live?since=0 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: runrig-{port}={cookie}\r\n\r\n"
    found.sendall(head.encode())
    if not found.recv(65536).startswith(b"HTTP/1.1 200"):
        raise RuntimeError("a stream was not opened")
    return found


def _asked(port: int, method: str, path: str, headers: dict[str, str]) -> tuple[http.client.HTTPMessage, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=STARTS_WITHIN_S)
    body = json.dumps({"file": FILE}) if method == "POST" else None
    sent = {"Content-Type": "application/json", "Accept-Encoding": "gzip"} | headers
    connection.request(method, path, body, sent)
    answer = connection.getresponse()
    found = answer.read()
    connection.close()
    if answer.status != 200:
        raise RuntimeError(f"{method} {path}: {answer.status}")
    return answer.headers, found


def serve(nodes: int, folder: str) -> None:
    """As `store.run`, and prints the cookie of a user who sees everything.  Time stands still until the cluster is full."""
    moments, since = [1.8e9], [0.0]
    clock = SimulatedClock(real_time=lambda: moments[0] + (time.monotonic() - since[0] if since[0] else 0.0))
    text = seeded.cluster(nodes)
    store = SqlStore.open(f"sqlite:///{folder}/runrig.db", exclusive=True)
    service = Service(store, SimulatedBackend(seeded.nodes_of(text), clock), clock)
    service.prepare(read_cluster(text), user="bench")

    def later(seconds: float) -> None:
        moments[0] += seconds

    seeded.fill(service, later, nodes, ROOM)
    since[0] = time.monotonic()
    access = service.access
    access.users.create("root", [role_named("admin")], actor="bench")
    run(service, access.browsers.enter(access.tokens.create("root", "t", None, actor="root").text, "127.0.0.1"))


if __name__ == "__main__":
    if sys.argv[1] == "tabs":
        keep_open(int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
    with tempfile.TemporaryDirectory(prefix="runrig-bench-") as folder:
        serve(int(sys.argv[1]), folder)
