"""The command line waits for the next leader, and sends nothing twice that would count twice."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from runrig.client import caller
from runrig.client.server_address import Address
from runrig.client.transport import Transport, patience
from runrig.domain.errors import InvalidInput, RunrigError
from tests.patience import PATIENCE_S

STANDBY, BUSY, HANGS_UP, DONE = "standby", "busy", "hangs up", "done"


class Script(ThreadingHTTPServer):
    """Answers each request with the next of *turns*; *seen*: the method and key of each."""

    def __init__(self, *turns: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.turns = list(turns)
        self.seen: list[tuple[str, str | None]] = []


class _Handler(BaseHTTPRequestHandler):
    server: Script

    def do_GET(self) -> None:
        self.server.seen.append((self.command, self.headers["Idempotency-Key"]))
        turn = self.server.turns.pop(0)
        if turn == HANGS_UP:
            return
        body = json.dumps({"message": turn, "error_code": "UNAVAILABLE", "details": {}}).encode()
        self.send_response(200 if turn == DONE else 503)
        if turn == STANDBY:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - names of the base class

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


@contextmanager
def script(*turns: str) -> Iterator[tuple[Script, Transport]]:
    with Script(*turns) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        yield server, Transport(Address(url, "a test"), "token", patience_s=PATIENCE_S)
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("turn", [STANDBY, BUSY, HANGS_UP])
@pytest.mark.parametrize(("method", "key"), [("GET", None), ("POST", "k")])
def test_repeatable_calls_are_retried_with_the_same_key(turn: str, method: str, key: str | None) -> None:
    with script(turn, DONE) as (server, client):
        assert client.call(method, "/api/x", key=key)["message"] == DONE
        assert server.seen == [(method, key)] * 2


def test_command_that_certainly_reached_no_server_is_retried() -> None:
    with script(STANDBY, DONE) as (server, client):
        assert client.call("POST", "/api/x")["message"] == DONE
        assert len(server.seen) == 2


@pytest.mark.parametrize("turn", [BUSY, HANGS_UP])
def test_command_that_may_have_been_executed_is_not_sent_again(turn: str) -> None:
    with script(turn, DONE) as (server, client):
        with pytest.raises(RunrigError):
            client.call("POST", "/api/x")
        assert len(server.seen) == 1


def test_retries_end_with_the_last_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time passes only in the pauses."""
    now = [0.0]

    async def passes(seconds: float) -> None:
        now[0] += seconds

    with script(*[STANDBY] * 9) as (server, client):
        client._caller.patience_s = 0.8
        monkeypatch.setattr(caller, "time", SimpleNamespace(monotonic=lambda: now[0]))
        monkeypatch.setattr(client._caller.network, "sleep", passes)
        with pytest.raises(RunrigError, match=STANDBY):
            client.get("/api/x")
        assert (len(server.seen), now) == (3, [0.75])  # at 0, 0.25 and 0.75 s


def test_only_remote_servers_are_waited_for_by_default() -> None:
    here, there = Address("http://127.0.0.1:8700", "a test"), Address("https://runrig.example.org", "a test")
    assert (patience(here, {}), patience(there, {})) == (0.0, 15.0)
    assert patience(here, {"RUNRIG_RETRY_S": "3.5"}) == 3.5
    with pytest.raises(InvalidInput, match=r"RUNRIG_RETRY_S is 'soon'. Use a number of seconds from 0 to 3600"):
        patience(here, {"RUNRIG_RETRY_S": "soon"})
