"""Clients that stop in the middle: of a TLS handshake, or of reading an answer.  They are cut off, and others go on meanwhile."""

import json
import os
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.attack.target import Target, certificate, serve, started
from tests.attack.wire import Wire, request, wire
from tests.patience import PATIENCE_S, until
from tests.worlds.command_line import RUN

STRANGER_S = 2.0
READ_TIMEOUT_S = 1.5
CROWD = 60
QUICK = f"from runrig.http import crowd; crowd.STRANGER_S = {STRANGER_S}; {RUN}"
MANY_POOLS = "\n".join(f"- {{name: pool-with-quite-a-long-name-{number}, quota: 8}}" for number in range(60))
LARGE = f"""
backend: {{type: simulated}}
nodes:
- {{name: "n{{0..1999}}", resources: {{gpu: 8}}}}
pools:
- {{name: team, quota: 8}}
- {{name: team2, quota: 8}}
{MANY_POOLS}
"""
"""Whose list of nodes is more than the system keeps for a connection."""
SMALL_BUFFER = 4096
OUTPUT = 30_000_000
"""Bytes that a task writes, which then goes on."""
TALKATIVE = f"""
workflow:
  name: talkative
  tasks:
  - {{name: main, image: any, command: [sh, -c, 'yes | head -c {OUTPUT}; exec sleep 1000']}}
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """With TLS, and a long list of nodes."""
    folder = tmp_path_factory.mktemp("stuck")
    with serve(folder, cluster=LARGE, run=QUICK, tls=certificate(folder), read_timeout_s=READ_TIMEOUT_S) as target:
        yield target


def hello() -> bytes:
    """The first words of a client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    said = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), said).do_handshake()
    return said.read()


def sockets(process: int) -> int:
    """How many *process* has open."""
    found = 0
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        try:
            found += os.readlink(descriptor).startswith("socket:")
        except FileNotFoundError:  # closed meanwhile
            continue
    return found


@contextmanager
def all_go(process: int, is_served: Callable[[], bool]) -> Iterator[ExitStack]:
    """What is opened inside is closed by the server, which goes on with everybody else."""
    before = sockets(process)
    with ExitStack() as stack:
        yield stack
        until(lambda: is_served() and sockets(process) <= before)
    assert is_served()


def serves(target: Target) -> bool:
    return target.ask("GET", "/api/version").status == 200


def test_endless_handshake_is_cut_off(target: Target) -> None:
    with ExitStack() as stack:
        all_said = (b"", hello()[:3], hello()[:-1], hello(), b"\x16" * 9)
        connections = [stack.enter_context(wire(target.port)).send(said) for said in all_said]
        assert [said for said, each in zip(all_said, connections, strict=True) if not each.is_closed()] == []


def test_slow_handshake_is_cut_off_when_its_time_is_over(target: Target) -> None:
    start = time.monotonic()
    with wire(target.port) as connection:
        for byte in hello() * 3:
            connection.send(bytes([byte]))
            if connection.is_closed(0.1):
                break
        else:
            raise AssertionError("the server waits for ever")
    assert time.monotonic() - start > STRANGER_S * 0.9


def test_request_without_tls_is_cut_off(target: Target) -> None:
    with wire(target.port) as connection:
        connection.send(request("GET", "/api/version", target.headers()))
        assert connection.is_closed()


def test_many_endless_handshakes_delay_no_other_client(target: Target) -> None:
    with all_go(target.process.pid, lambda: serves(target)) as stack:
        before = sockets(target.process.pid)
        for number in range(CROWD):
            stack.enter_context(wire(target.port)).send(hello() if number % 2 else b"")
        until(lambda: sockets(target.process.pid) > before)


def deaf(stack: ExitStack, port: int, asks: bytes, tls: ssl.SSLContext | None = None) -> None:
    """A client that asks and reads nothing but the first byte."""
    plain = stack.enter_context(socket.socket())
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
    plain.settimeout(PATIENCE_S)
    plain.connect(("127.0.0.1", port))
    connection = plain if tls is None else stack.enter_context(tls.wrap_socket(plain))
    connection.sendall(asks)
    assert connection.recv(1) == b"H"


def test_client_that_does_not_read_a_long_list_is_cut_off(target: Target) -> None:
    with all_go(target.process.pid, lambda: serves(target)) as stack:
        for _ in range(3):
            deaf(stack, target.port, request("GET", "/api/resources", target.headers()[:-1]), target.tls)


def test_client_that_reads_a_long_list_slowly_gets_all_of_it(target: Target) -> None:
    """For longer than one that reads nothing is put up with."""
    whole = target.ask("GET", "/api/resources").body
    start = time.monotonic()
    with ExitStack() as stack:
        connection = stack.enter_context(wire(target.port, tls=target.tls))
        connection.send(request("GET", "/api/resources", target.headers()))
        read = 0
        while more := connection.socket.recv(65536):
            read += len(more)
            if time.monotonic() - start < 3 * READ_TIMEOUT_S:
                time.sleep(0.02)
    assert (read > len(whole), time.monotonic() - start > 3 * READ_TIMEOUT_S) == (True, True)


def test_client_that_follows_logs_without_reading_is_cut_off(tmp_path: Path) -> None:
    soon = f"from runrig.http import connections; connections.config.__kwdefaults__['read_timeout_s'] = 1.0; {RUN}"
    data = tmp_path / "data"
    with started(["up", "--data", str(data), "--port", "0", "--gpus", "1"], tmp_path / "stderr", soon) as (running, _):
        port = int(json.loads((data / "server.json").read_text())["url"].rpartition(":")[2])
        target = Target(port, data, data / "server.log", running, {"admin": (data / "token").read_text().strip()})
        target.ok("POST", "/api/pool/default/workflow", {"file": TALKATIVE})
        asks = request("GET", "/api/workflow/talkative-1/logs?follow=true", target.headers()[:-1])
        until(lambda: sum(file.stat().st_size for file in data.rglob("stdout*")) >= OUTPUT)
        with all_go(running.pid, lambda: serves(target)) as stack:
            for _ in range(3):
                deaf(stack, port, asks)
            with wire(port) as reader:
                read_all(reader.send(asks))
        target.ok("POST", "/api/workflow/talkative-1/cancel")


def read_all(reader: Wire) -> None:
    read = 0
    while read < OUTPUT:
        more = reader.socket.recv(1 << 20)
        assert more, f"{read} bytes, and the end"
        read += len(more)
