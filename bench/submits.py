"""Submissions over HTTP by many clients at the same time, with many workflows waiting: the server's processor time for each.

The clients are a separate process, `python -m bench.submits PORT CLIENTS EACH [FILE]`, on bare sockets that stay open; its
processor time is reported separately.  The server is that of `bench.store`.
"""

import json
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from statistics import median
from typing import Any

from bench.store import FILE, KINDS, STARTS_WITHIN_S, THOUSAND_GPUS, TOKEN, fresh, process_of
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


def rows(runs: int, waiting: tuple[int, ...] = WAITING, each: int = EACH) -> list[dict[str, str | float | int]]:
    """The median of *runs* by server time.  Raises RuntimeError if a submission was not answered or is not stored."""
    return [_row(kind, many, each, runs) for kind in KINDS for many in waiting]


def _row(kind: str, waiting: int, each: int, runs: int) -> dict[str, str | float | int]:
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
        "is": "met" if server_ms <= TARGET_MS else "MISSED",
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
    done = subprocess.run(
        [sys.executable, "-m", "bench.submits", str(port), str(CLIENTS), str(each)],
        stdout=subprocess.PIPE,
        check=True,
        timeout=10 * STARTS_WITHIN_S,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    if answer["failed"]:
        raise RuntimeError(f"{answer['failed']} submissions were not accepted")
    server_s = processor_s(process) - before
    return 1000 * server_s / each, 1000 * answer["processor_s"] / each, each / answer["seconds"]


def processor_s(process: int) -> float:
    """Processor seconds of *process*, by the clock that Linux keeps for it."""
    return time.clock_gettime((~process << 3) | 2)


# ---------------------------------------------------------------- the clients


def submit(port: int, clients: int, each: int, file: str) -> Iterator[bytes]:
    """The beginnings of *each* responses to as many submissions, on *clients* connections that stay open."""
    body = json.dumps({"file": file}).encode()
    head = (
        f"POST /api/pool/team/workflow HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    request, left = head.encode() + body, each
    with selectors.DefaultSelector() as selector:
        for _ in range(clients):
            selector.register(socket.create_connection(("127.0.0.1", port)), selectors.EVENT_READ, bytearray())
        for key in tuple(selector.get_map().values()):
            _send(key.fileobj, request)
            left -= 1
        while selector.get_map():
            for key, _ in selector.select():
                if not _whole(key):
                    continue
                yield bytes(key.data[:12])
                key.data.clear()
                if left:
                    _send(key.fileobj, request)
                    left -= 1
                else:
                    selector.unregister(key.fileobj)
                    _socket(key.fileobj).close()


def _whole(key: selectors.SelectorKey) -> bool:
    """Reads the available part of a response; True once it is complete."""
    more = _socket(key.fileobj).recv(65536)
    if not more:
        raise RuntimeError("the server hung up")
    key.data.extend(more)
    head, found, rest = bytes(key.data).partition(b"\r\n\r\n")
    if not found:
        return False
    length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
    return len(rest) >= int(length)


def _send(connection: object, request: bytes) -> None:
    _socket(connection).sendall(request)


def _socket(connection: object) -> socket.socket:
    assert isinstance(connection, socket.socket), "only sockets are registered"
    return connection


def main(port: int, clients: int, each: int, file: str) -> None:
    start, used = time.perf_counter(), time.process_time()
    failed = sum(beginning != b"HTTP/1.1 200" for beginning in submit(port, clients, each, file))
    answer = {"seconds": time.perf_counter() - start, "processor_s": time.process_time() - used, "failed": failed}
    print(json.dumps(answer))


if __name__ == "__main__":
    port, clients, each = map(int, sys.argv[1:4])
    main(port, clients, each, sys.argv[4] if len(sys.argv) > 4 else FILE)
