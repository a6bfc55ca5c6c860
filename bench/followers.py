"""The cost of open streams for a submission: the server's processor time with and without them.

Runs with and without followers alternate, so that other load on the machine affects both.  A run ends when the cluster has
settled and every follower has received all events.  The followers are a separate process (`bench.traffic`).
"""

import json
import subprocess
import time
from contextlib import closing
from itertools import pairwise
from statistics import median

from bench import calibration
from bench.section import Cell, Rows, verdict
from bench.store import FILE, client_of, fresh, process_of
from bench.submits import CLIENTS, processor_s
from bench.traffic import following, sent

FOLLOWERS = 200
EACH = 3_000
MORE_PERCENT = 10.0
REFERENCE = {"waiting": 300.0}
"""Percent more at d90bdd7, where each follower read the log and wrote the text itself."""
RESTS_S = 1.5
"""Nothing has been stored for this long."""
CLUSTER = """\
nodes:
- {name: "n{00..31}", resources: {gpu: 8, cpu: 96, memory: 1Ti}}
pools:
- {name: team, quota: 256}
"""
EVENTS, PAGES = "/api/v1/events/stream", "/page/live"

ABOUT = (
    f"submissions by {CLIENTS} clients on 32 nodes; ms of the server's processor for each, without and with {FOLLOWERS} followers; "
    f"how much more that is in percent; goal: {MORE_PERCENT:g}"
)


def rows(runs: int, each: int = EACH, followers: int = FOLLOWERS) -> Rows:
    """*work*: waits, because the cluster is full, or runs and ends.  *each*: submissions in a run."""
    shapes = (("waiting", EVENTS, FILE), ("running", EVENTS, _short()), ("waiting", PAGES, FILE))
    return [_row(work, path, file, max(2, runs), each, followers) for work, path, file in shapes]


def _short() -> str:
    return FILE.replace("resource: one}", "resource: one, duration: 1}")


def _row(work: str, path: str, file: str, runs: int, each: int, followers: int) -> dict[str, Cell]:
    alone: list[float] = []
    followed: list[float] = []
    bare: list[float] = []
    with fresh("sqlite") as url, process_of(url, CLUSTER) as (port, process):
        _measured(port, process, file, each, None)  # warms up, and fills the cluster
        for _ in range(runs):
            bare.append(calibration.once(time.process_time))
            alone.append(_measured(port, process, file, each, None))
            with following(port, path, followers) as crowd:
                followed.append(_measured(port, process, file, each, crowd))
        alone.append(_measured(port, process, file, each, None))
    beside = [(before + after) / 2 for before, after in pairwise(alone)]
    more = 100 * median(here / there - 1 for here, there in zip(followed, beside, strict=True))
    return {
        "work": work,
        "followers": f"{followers} of {path}",
        "reference %": REFERENCE.get(work, "-") if path == EVENTS else "-",
        "without": median(alone),
        "with": median(followed),
        "more %": more,
        "calibration ms": 1000 * median(bare),
        "is": verdict(more <= MORE_PERCENT),
    }


def _measured(port: int, process: int, file: str, each: int, crowd: "subprocess.Popen[str] | None") -> float:
    """ms of the server's processor per submission, until all of its effects were delivered."""
    before = processor_s(process)
    sent(port, CLIENTS, each, file)
    revision = _at_rest(port)
    if crowd is not None:
        assert crowd.stdin is not None
        assert crowd.stdout is not None
        print(revision, file=crowd.stdin, flush=True)
        if crowd.stdout.readline() != "told\n":
            raise RuntimeError("a follower did not receive all events")
    return 1000 * (processor_s(process) - before) / each


def _at_rest(port: int) -> int:
    """The last revision, once no more are stored."""
    revision, since = -1, time.monotonic()
    while time.monotonic() - since < RESTS_S:
        time.sleep(RESTS_S / 3)
        with closing(client_of(port)) as client:
            found = json.loads(client.call("GET", f"/api/v1/events?limit=1&after={max(0, revision)}"))["revision"]
        if found != revision:
            revision, since = found, time.monotonic()
    return revision
