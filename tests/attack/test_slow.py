"""Clients that take their time: the server goes on for everybody else, and hangs up when the time is over."""

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.attack.target import Target, refused, serve
from tests.attack.wire import Wire, request, wire
from tests.patience import PATIENCE_S, until

READ_TIMEOUT_S = 1.5
CONNECTIONS = 40
SLACK_S = 60.0


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("slow")
    with serve(folder, read_timeout_s=READ_TIMEOUT_S, connections=CONNECTIONS) as target:
        yield target


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """It waits for a slow client for longer than a test takes."""
    folder = tmp_path_factory.mktemp("patient")
    with serve(folder, read_timeout_s=PATIENCE_S, connections=CONNECTIONS) as target:
        yield target


def _post(target: Target) -> bytes:
    headers = [*target.headers(), ("Content-Type", "application/json"), ("Content-Length", "1000")]
    return request("POST", "/api/pool/team/workflow", headers)


def _drips(connection: Wire, drop: bytes) -> float:
    """Seconds that the server put up with."""
    start = time.monotonic()
    while time.monotonic() - start < READ_TIMEOUT_S + SLACK_S:
        connection.send(drop)
        if connection.is_closed(0.1):
            return time.monotonic() - start
    raise AssertionError("the server waits for ever")


def test_endless_head_is_dropped_with_a_message(target: Target) -> None:
    start = time.monotonic()
    with ExitStack() as stack:
        for connection in [
            stack.enter_context(wire(target.port)).send(beginning)
            for beginning in (b"", b"G", b"GET /api/version HTTP/1.1\r\nHost: x\r\n")
        ]:
            said = refused(target, connection.answer(), 408)
            assert said["message"] == "the request did not arrive within 1.5 seconds. Send it completely"
            assert connection.is_closed()
            assert READ_TIMEOUT_S * 0.9 < time.monotonic() - start < READ_TIMEOUT_S + SLACK_S


def test_endless_body_is_dropped_with_a_message(target: Target) -> None:
    with ExitStack() as stack:
        for connection in [
            stack.enter_context(wire(target.port)).send(_post(target) + beginning) for beginning in (b"", b'{"file": "')
        ]:
            refused(target, connection.answer(), 408)
            assert connection.is_closed()


DRIPS: Mapping[str, tuple[Callable[[Target], bytes], bytes]] = {
    "head": (lambda _: b"GET /api/version HTTP/1.1\r\n", b"X: 1\r\n"),
    "empty lines": (lambda _: b"", b"\r\n"),
    "body": (lambda target: _post(target) + b"[", b"1"),
    "body after an answer": (
        lambda target: request("POST", "/api/nothing", [*target.headers()[:-1], ("Content-Length", "100")]),
        b"x",
    ),
    "body after a refusal": (
        lambda target: request("POST", "/api/v1/apply", [("Host", "evil"), ("Content-Length", "100")]),
        b"x",
    ),
}


def test_occasional_bytes_do_not_keep_a_connection_open(target: Target) -> None:
    with ExitStack() as stack, ThreadPoolExecutor(len(DRIPS)) as threads:
        connections = [stack.enter_context(wire(target.port)).send(begin(target)) for begin, _ in DRIPS.values()]
        took_s = threads.map(_drips, connections, [drop for _, drop in DRIPS.values()])
        assert [name for name, each in zip(DRIPS, took_s, strict=True) if each >= READ_TIMEOUT_S + SLACK_S / 2] == []


def test_second_request_has_as_much_time_as_the_first(target: Target) -> None:
    ask = request("GET", "/api/version", target.headers()[:-1])
    with wire(target.port) as connection:
        end = time.monotonic() + 2 * READ_TIMEOUT_S
        while time.monotonic() < end:
            assert connection.send(ask).answer().status == 200
        connection.send(ask[:20])
        refused(target, connection.answer(), 408)


def test_long_response_is_not_a_slow_request(target: Target) -> None:
    """What is asked has arrived: how long the answer takes is the server's business."""
    start = time.monotonic()
    target.ok("GET", f"/api/v1/workflows/treasure-1/wait?timeout={2 * READ_TIMEOUT_S}")
    assert time.monotonic() - start > 1.9 * READ_TIMEOUT_S


def test_session_in_a_task_can_be_silent_for_longer_than_a_request(target: Target) -> None:
    key = target.ok("POST", "/api/workflow/treasure-1/portforward/main?task_ports=80")[0]["key"]
    address = f"ws://127.0.0.1:{target.port}/api/router/portforward/treasure-1/client/{key}"
    bearer = {"Authorization": f"Bearer {target.tokens['admin']}"}
    with connect(address, additional_headers=bearer, open_timeout=PATIENCE_S, proxy=None) as socket:
        with pytest.raises(TimeoutError):
            socket.recv(2 * READ_TIMEOUT_S)
        socket.send(b"no announcement")
        with pytest.raises(ConnectionClosed, match="Announce a connection as"):
            socket.recv(PATIENCE_S)


def test_waiting_clients_do_not_delay_others(patient: Target) -> None:
    """A delayed client waits until these are disconnected, which is far away here."""
    with ExitStack() as stack:
        for number in range(CONNECTIONS - 10):
            slow = stack.enter_context(wire(patient.port))
            slow.send(_post(patient) if number % 2 else b"GET /api/version HTTP/1.1\r\n")
        for _ in range(20):
            start = time.monotonic()
            assert patient.ask("GET", "/api/pool_quota").status == 200
            assert time.monotonic() - start < PATIENCE_S / 4


def test_oldest_anonymous_connection_is_closed_when_all_are_in_use(patient: Target) -> None:
    with ExitStack() as stack:
        first, *_ = (stack.enter_context(wire(patient.port)) for _ in range(CONNECTIONS))
        assert patient.ask("GET", "/api/version").status == 200
        answer = first.answer()
        assert (answer.status, answer.headers["retry-after"], answer.json["error_code"]) == (503, "1", "UNAVAILABLE")
        assert answer.json["message"] == "40 connections are open, which is the limit. Try again later"
        assert first.is_closed()
    until(lambda: patient.ask("GET", "/healthz", user=None).status == 200, SLACK_S)
