"""What goes on after a request ends with the right to it, at both doors, over a socket."""

import http.client
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runrig.api.app import create_app
from runrig.api.v1 import following
from runrig.domain.access import role_named
from runrig.service import waiting
from runrig.service.access.access import Access
from tests.patience import PATIENCE_S
from tests.worlds.http import listening
from tests.worlds.service import Desk, desk

HOLDER = "bob"
ROLES = ("pool1-user", "pool2-viewer")


class World:
    def __init__(self, it: Desk, port: int) -> None:
        self.desk, self.port = it, port
        self.access.users.create("root", [role_named("admin")], actor="ann")
        self.access.users.create(HOLDER, [role_named(role) for role in ROLES], actor="root")
        self.token = self.access.tokens.create(HOLDER, "t", None, actor="root").text
        self.connections: list[http.client.HTTPConnection] = []

    @property
    def access(self) -> Access:
        return self.desk.service.access

    def ask(self, path: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        self.connections.append(connection)
        connection.request("GET", path, headers={"Authorization": f"Bearer {self.token}"})
        return connection.getresponse()


@contextmanager
def world(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Its work goes on for ever."""
    for module in (waiting, following):
        monkeypatch.setattr(module, "STILL_S", 0.1)
    with desk(folder) as it, listening(lambda port: create_app(it.service, port=port)) as port:
        found = World(it, port)
        it.submit("a", "pool1")
        it.service.settle()
        try:
            yield found
        finally:
            for connection in found.connections:
                connection.close()


ENDS: dict[str, Callable[[Access], object]] = {
    "role": lambda access: access.users.withdraw(HOLDER, role_named("pool1-user"), actor="root"),
    "narrowed": lambda access: access.tokens.change(
        HOLDER, "t", actor="root", by="", roles=[role_named("pool2-viewer")]
    ),
    "token": lambda access: access.tokens.revoke(HOLDER, "t", actor="root"),
    "user": lambda access: access.users.set_disabled(HOLDER, True, actor="root"),
}
STREAMS = (
    "/api/v1/workflows/a-1/logs?follow=true",
    "/api/v1/workflows/a-1/logs?follow=true&task=main&stream=stderr",
    "/api/workflow/a-1/logs?follow=true",
    "/api/workflow/a-1/error_logs?follow=true",
    "/api/v1/events/stream",
)


@pytest.mark.parametrize("path", STREAMS)
@pytest.mark.parametrize("how", ENDS)
def test_stream_ends_when_the_permission_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, how: str
) -> None:
    with world(tmp_path, monkeypatch) as it:
        answer = it.ask(path)
        assert answer.status == 200
        ENDS[how](it.access)
        answer.read()
        assert it.desk.status("a-1") == "RUNNING"  # so this is not why it was closed


@pytest.mark.parametrize("path", STREAMS)
def test_stream_continues_when_an_unrelated_role_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """The token gains a role that shows nothing more, and it is used elsewhere."""
    with world(tmp_path, monkeypatch) as it:
        answer = it.ask(path)
        it.access.users.grant(HOLDER, role_named("pool2-user"), actor="root")
        it.access.tokens.change(HOLDER, "t", actor="root", by="", description="at home")
        it.connections[-1].sock.settimeout(0.5)
        with pytest.raises(TimeoutError):
            answer.read()


@pytest.mark.parametrize(("how", "status"), [("role", 404), ("token", 401), ("user", 401)])
def test_wait_ends_with_its_permission_and_reveals_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, status: int
) -> None:
    with world(tmp_path, monkeypatch) as it:
        connection = http.client.HTTPConnection("127.0.0.1", it.port, timeout=PATIENCE_S)
        it.connections.append(connection)
        connection.request(
            "GET", "/api/v1/workflows/a-1/wait?timeout=3600", headers={"Authorization": f"Bearer {it.token}"}
        )
        connection.sock.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.sock.recv(1)
        connection.sock.settimeout(PATIENCE_S)
        ENDS[how](it.access)
        answer = connection.getresponse()
        assert (answer.status, b"RUNNING" in answer.read()) == (status, False)
