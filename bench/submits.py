"""Submissions over HTTP by many clients at the same time, with many workflows waiting: the server's processor time for each.

The clients are a separate process (`bench.traffic`), whose processor time is reported separately.  The server is that of
`bench.store`.
"""

import time
from contextlib import closing
from statistics import median

from bench.section import Cell, Rows, verdict
from bench.store import FILE, KINDS, THOUSAND_GPUS, fresh, process_of
from bench.traffic import sent
from runrig.backends.simulated import SimulatedBackend, SimulatedClock
from runrig.domain.gangs import Priority
from runrig.domain.plan import Plan
from runrig.service.commands.submission import Submission, read
from runrig.service.runtime.transactor import Transactor
from runrig.service.service import Service
from runrig.spec.cluster import read_cluster
from runrig.store import SqlStore

CLIENTS = 16
EACH = 1_600
RUNNING = 1_000
WAITING = (0, 10_000, 100_000)
REFERENCE_MS = {0: 12.0, 100_000: 26.0}
"""Processor time of one submission at 7e296f7, on SQLite, with the clients in parallel."""
TARGET_MS = 2.5
"""400 a second: a Python process uses one core at a time, and the clients use the other."""
AT_ONCE = 10_000

ABOUT = (
    f"submissions over HTTP by {CLIENTS} clients, one task each, while so many workflows wait; processor time of each in ms, that "
    f"of the clients apart; target: {TARGET_MS:g} ms of the server, which is 400 a second of one core"
)


def rows(runs: int, waiting: tuple[int, ...] = WAITING, each: int = EACH) -> Rows:
    """The median of *runs* by server time.  Raises RuntimeError if a submission was not answered or is not stored."""
    return [_row(kind, many, each, runs) for kind in KINDS for many in waiting]


def _row(kind: str, waiting: int, each: int, runs: int) -> dict[str, Cell]:
    with fresh(kind) as url:
        there = _fill(url, waiting + RUNNING if waiting else 0)
        with process_of(url, THOUSAND_GPUS) as (port, process):
            found = [_measured(port, process, each) for _ in range(runs + 1)][1:]  # the first one warms up
        with closing(SqlStore.open(url)) as store:
            stored = store.load().numbers.get("sleeper", 0)
    if stored != there + (runs + 1) * each:
        raise RuntimeError(f"{stored} workflows are stored, not {there + (runs + 1) * each}")
    server_ms, clients_ms, rate = (median(figures) for figures in zip(*found, strict=True))
    return {
        "store": kind,
        "waiting": waiting,
        "reference": REFERENCE_MS.get(waiting, "-") if kind == "sqlite" else "-",
        "server": server_ms,
        "clients": clients_ms,
        "a second": rate,
        "is": verdict(server_ms <= TARGET_MS),
    }


def _fill(url: str, many: int) -> int:
    """Submits *many* workflows, of which as many run as fit; returns their number."""
    declared, clock = read_cluster(THOUSAND_GPUS), SimulatedClock()
    store = SqlStore.open(url, exclusive=True)
    service = Service(store, SimulatedBackend(declared.nodes, clock), clock)
    service.prepare(declared, user="bench")
    parsed = read(Submission(FILE, "team", "bench", priority=Priority.NORMAL))
    transactor = Transactor(store, clock, fixed_nodes=True, topology=True)
    for first in range(0, many, AT_ONCE):
        with transactor.writing("bench") as writing:
            plans = (parsed.plan(writing.state, writing.now, before=at) for at in range(min(AT_ONCE, many - first)))
            writing.commit(Plan(tuple(action for plan in plans for action in plan.actions)), parsed.spec)
    service.close()
    return many


def _measured(port: int, process: int, each: int) -> tuple[float, float, float]:
    """(ms of the server's processor for each, of the clients', submissions a second)."""
    before = processor_s(process)
    answer = sent(port, CLIENTS, each, FILE)
    server_s = processor_s(process) - before
    return 1000 * server_s / each, 1000 * answer.processor_s / each, each / answer.seconds


def processor_s(process: int) -> float:
    """Processor seconds of *process*, by the clock that Linux keeps for it."""
    return time.clock_gettime((~process << 3) | 2)
