"""Streams that somebody holds open, on a real server: all end soon after the role, the token or the user, at every door."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.attack.target import Target, serve
from tests.attack.test_browsers import FORM
from tests.attack.wire import Wire, request, wire
from tests.worlds.command_line import process

LONGEST_S = 60.0
STREAMS = (
    "/api/v1/workflows/treasure-1/logs?follow=true",
    "/api/v1/workflows/treasure-1/wait?timeout=3600",
    "/api/v1/events/stream",
    "/api/workflow/treasure-1/logs?follow=true",
    "/api/workflow/treasure-1/error_logs?follow=true",
)
PAGES = ("/page/live", "/page/output/treasure-1")
WAYS: dict[str, Callable[[Target, str], object]] = {
    "role": lambda it, user: it.ok("DELETE", f"/api/v1/roles/{user}/team2-user"),
    "token": lambda it, user: it.ok("DELETE", f"/api/v1/users/{user}/tokens/t"),
    "user": lambda it, user: it.ok("PATCH", f"/api/v1/users/{user}", {"disabled": True}),
}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with serve(tmp_path_factory.mktemp("held")) as it:
        yield it


def cookie(target: Target, user: str) -> str:
    headers = [*target.headers(None), FORM, ("Origin", f"http://127.0.0.1:{target.port}")]
    answer = target.ask("POST", "/login", headers=headers, body=f"shown={target.tokens[user]}".encode())
    assert answer.status == 303, answer
    return answer.headers["set-cookie"].partition(";")[0]


def held(stack: ExitStack, target: Target, path: str, headers: list[tuple[str, str]]) -> Wire:
    connection = stack.enter_context(wire(target.port))
    kept = [each for each in headers if each[0] != "Connection"]
    connection.send(request("GET", path, kept))
    if "/wait" not in path:
        assert b" 200 " in connection.socket.recv(4096).partition(b"\r\n")[0], path
    return connection


@pytest.mark.parametrize("way", WAYS)
def test_open_streams_end_when_the_permission_is_lost(target: Target, way: str) -> None:
    user = f"held-{way}"
    target.ok("POST", "/api/v1/users", {"name": user, "roles": ["team2-user"]})
    target.tokens[user] = target.ok("POST", f"/api/v1/users/{user}/tokens", {"name": "t"})["token"]
    signed_in = [*target.headers(None), ("Cookie", cookie(target, user))]
    with ExitStack() as stack:
        open_ = {path: held(stack, target, path, target.headers(user)) for path in STREAMS}
        open_ |= {path: held(stack, target, path, signed_in) for path in PAGES}
        for connection in open_.values():
            assert not connection.is_closed(0.2)
        WAYS[way](target, user)
        still = [path for path, connection in open_.items() if not ended(connection)]
        assert still == []


def ended(connection: Wire) -> bool:
    """Whether the answer comes to its end; the connection may stay for other requests."""
    connection.socket.settimeout(LONGEST_S)
    told = b""
    try:
        while data := connection.socket.recv(65536):
            told += data
            if told.endswith(b"\r\n0\r\n\r\n") or told == b"0\r\n\r\n" or b"\r\nHTTP/1.1 40" in b"\r\n" + told:
                return True
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize(("way", "code", "said"), [("role", 2, "not found"), ("token", 4, "token")])
def test_following_command_reports_that_its_stream_was_cut_off(target: Target, way: str, code: int, said: str) -> None:
    user = f"follows-{way}"
    target.ok("POST", "/api/v1/users", {"name": user, "roles": ["team2-user"]})
    secret = target.ok("POST", f"/api/v1/users/{user}/tokens", {"name": "t"})["token"]
    address = {"RUNRIG_SERVER": f"http://127.0.0.1:{target.port}", "RUNRIG_TOKEN": secret}
    words = process("workflow", "logs", "treasure-1", "--follow")
    with subprocess.Popen(
        words, env={**os.environ, **address}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline()
            WAYS[way](target, user)
            _, errors = running.communicate(timeout=LONGEST_S)
        finally:
            running.kill()
    assert (running.returncode, said in errors) == (code, True), errors
