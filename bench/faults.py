"""The effect on other users while a client abuses a server: idle connections, and templates that take long (D3, D8).

The server is a `runrig serve` process with the users of `tests.attack.target`.
"""

import json
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.attack.target import TREASURE, Target, serve
from tests.attack.wire import request, wire
from tests.worlds.command_line import RUN

from bench.section import Cell, verdict

IDLE, FILES = 2_500, 1_024
TEMPLATES = 80
HEAVY = "{% for i in range(10**9) %}{% endfor %}" + TREASURE
LOOK_S = 5.0

NOBODY, LOG, TEMPLATES_S = "nobody", 3_500_000.0, 46.0
"""At 7e296f7, when idle connections locked out all users."""
TARGET_S, TARGET_LOG = 5.0, 1_000.0

ABOUT = (
    f"while {IDLE:,} connections are idle at {FILES:,} open files, and while {TEMPLATES} heavy templates of one user are rendered: the "
    "longest response time for another user, and how much the log grows; wall time, so on a quiet machine"
)

Row = dict[str, Cell]


def rows(idle: int = IDLE, templates: int = TEMPLATES, look_s: float = LOOK_S) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="runrig-bench-") as folder:
        return [*_idle(Path(folder) / "idle", idle, look_s), *_templates(Path(folder) / "templates", templates)]


def _idle(folder: Path, count: int, look_s: float) -> Iterator[Row]:
    scarce = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES})); {RUN}"
    with serve(folder, run=scarce) as target, _many_files(count), ExitStack() as stack:
        before, began = target.log.stat().st_size, time.monotonic()
        waits: list[float] = []
        for _ in range(count):
            stack.enter_context(wire(target.port))
        while time.monotonic() - began < look_s or not waits:
            waits.append(_answered(target))
        grown = (target.log.stat().st_size - before) / (time.monotonic() - began)
    yield _row(f"{count:,} idle connections", "s until an answer", NOBODY, max(waits), TARGET_S)
    yield _row(f"{count:,} idle connections", "bytes of log a second", LOG, grown, TARGET_LOG)


@contextmanager
def _many_files(count: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 200), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _templates(folder: Path, count: int) -> Iterator[Row]:
    with serve(folder) as target, ExitStack() as stack:
        heavy = [stack.enter_context(wire(target.port)) for _ in range(count)]
        for each in heavy:
            each.send(_submission(target, "ann", HEAVY))
        waits = [_answered(target, _submission(target, "admin", TREASURE)) for _ in range(5)]
    yield _row(f"{count} heavy templates", "s until another's submit", TEMPLATES_S, max(waits), TARGET_S)


def _submission(target: Target, user: str, file: str) -> bytes:
    headers = [*target.headers(user), ("Content-Type", "application/json")]
    return request("POST", "/api/pool/team/workflow", headers, json.dumps({"file": file}).encode())


def _answered(target: Target, asked: bytes | None = None) -> float:
    """Seconds until the response to *asked*, or to a request for the version.  Raises RuntimeError for a refusal."""
    began = time.monotonic()
    with wire(target.port) as connection:
        answer = connection.send(asked or request("GET", "/api/version", target.headers())).answer()
    if answer.status != 200:
        raise RuntimeError(f"it was refused: {answer}")
    return time.monotonic() - began


def _row(what: str, figure: str, before: str | float, here: float, target: float) -> Row:
    row: Row = {"while": what, "figure": figure, "before": before if isinstance(before, str) else f"{before:,.0f}"}
    return row | {"here": here, "target": target, "is": verdict(here <= target)}
