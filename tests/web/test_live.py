"""What a browser is told as it happens, over a socket of its own."""

import asyncio
import http.client
import json
import socket
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI

from runrig.api.app import create_app
from runrig.domain.access import role_named
from runrig.http import connections
from runrig.http.crowd import Crowd, Door
from runrig.service.pulse import Pulse
from runrig.service.queries.visibility import ALL, Visibility
from runrig.service.rights import STILL_S
from runrig.service.service import Service
from runrig.web import live
from runrig.web.install import install
from tests.patience import PATIENCE_S, until
from tests.worlds.http import listening
from tests.worlds.service import Desk, desk

HERE = "127.0.0.1"


class Streams:
    def __init__(self, it: Desk, port: int) -> None:
        self.desk, self.port = it, port
        self.connections: list[http.client.HTTPConnection] = []
        self.answers: list[http.client.HTTPResponse] = []
        it.service.access.users.create("root", [role_named("admin")], actor="ann")

    def signed_in(self, user: str, *roles: str) -> str:
        """The cookie of a new user."""
        access = self.desk.service.access
        access.users.create(user, [role_named(role) for role in roles], actor="root")
        return access.browsers.enter(access.tokens.create(user, "t", None, actor="root").text, HERE)

    def ask(self, path: str, cookie: str, **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(HERE, self.port, timeout=PATIENCE_S)
        self.connections.append(connection)
        sent = {"Cookie": f"runrig-{self.port}={cookie}"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        connection.request("GET", path, headers=sent)
        self.answers.append(connection.getresponse())
        return self.answers[-1]

    def state(self, cookie: str) -> Any:
        return json.loads(self.ask("/page/state", cookie).read())

    def happens(self, name: str, pool: str = "pool1") -> None:
        self.desk.submit(name, pool)
        self.desk.service.settle()


@contextmanager
def streams(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Streams]:
    monkeypatch.setattr(live, "LOOK_S", 0.0)
    monkeypatch.setattr(live, "STILL_S", 0.1)
    with desk(folder) as it:

        def application(port: int) -> FastAPI:
            app = create_app(it.service, port=port)
            install(app, it.service)
            return app

        with listening(application) as port:
            found = Streams(it, port)
            try:
                yield found
            finally:
                for answer in found.answers:
                    answer.close()
                for connection in found.connections:
                    connection.close()


def messages(answer: http.client.HTTPResponse) -> Iterator[tuple[str, Any]]:
    """(event, data), until the stream ends."""
    event = "message"
    while line := answer.readline():
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name == "event":
            event = value
        elif name == "data":
            yield event, json.loads(value)
            event = "message"


def changes(answer: http.client.HTTPResponse) -> list[Any]:
    """What was told until the stream ended, but for where it begins."""
    return [change for _, change in messages(answer) if change["r"] != change["from"]]


def test_client_that_reconnects_misses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with streams(tmp_path, monkeypatch) as it:
        cookie = it.signed_in("bob", "viewer")
        known = it.state(cookie)
        assert it.state(cookie)["gangs"] == []
        it.happens("a")
        one = it.state(cookie)
        it.happens("b", "pool2")
        now = it.state(cookie)
        told = messages(it.ask(f"/page/live?since={known['r']}", cookie))
        there: dict[str, Any] = {}
        revision = known["r"]
        while revision < now["r"]:
            event, change = next(told)
            assert (event, change["from"]) == ("message", revision)
            there = {id: each for id, each in there.items() if id not in change["-"]} | {
                each[0]: each for each in change["+"]
            }
            revision = change["r"]
        assert list(there.values()) == now["gangs"]
        assert [each[0] for each in now["gangs"]] == ["a-1/main-group", "b-1/main-group"]
        id = next(line for line in it.ask("/page/live", cookie) if line.startswith(b"id: "))[4:].decode().strip()
        assert id.partition(".")[0] == str(now["r"])
        again = messages(it.ask("/page/live", cookie, Last_Event_ID=id.replace(str(now["r"]), str(one["r"]), 1)))
        assert next(again)[1]["from"] == one["r"]


def test_client_that_was_away_too_long_reloads_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with streams(tmp_path, monkeypatch) as it:
        cookie = it.signed_in("bob", "viewer")
        it.happens("a")
        assert it.state(cookie)["r"] > 1
        for known in (0, 10**9):
            assert next(messages(it.ask(f"/page/live?since={known}", cookie)))[0] == "reset"


def test_live_changes_contain_no_hidden_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with streams(tmp_path, monkeypatch) as it:
        cookie = it.signed_in("bob", "pool1-user")
        known = it.state(cookie)["r"]
        it.happens("secret", "pool2")
        event, change = next(each for each in messages(it.ask(f"/page/live?since={known}", cookie)) if each[1]["+"])
        assert (event, change["+"]) == ("message", [["", "", 1, 1, [0, 1, 1]]])


@pytest.mark.parametrize("how", ["token", "user", "role", "out"])
def test_stream_ends_with_its_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    with streams(tmp_path, monkeypatch) as it:
        cookie = it.signed_in("bob", "viewer")
        answer = it.ask("/page/live", cookie)
        access = it.desk.service.access
        if how == "token":
            access.tokens.revoke("bob", "t", actor="root")
        elif how == "user":
            access.users.set_disabled("bob", True, actor="root")
        elif how == "role":
            access.users.withdraw("bob", role_named("viewer"), actor="root")
        else:
            access.browsers.end(cookie)
        assert changes(answer) == []


@pytest.mark.parametrize("cut", [False, True], ids=["while it runs", "while it is cut"])
def test_client_that_sees_less_than_before_reloads_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: bool
) -> None:
    with streams(tmp_path, monkeypatch) as it:
        cookie = it.signed_in("bob", "pool1-user", "pool2-user")
        it.happens("a", "pool2")
        answer = it.ask("/page/live", cookie)
        id = next(line for line in answer if line.startswith(b"id: "))[4:].decode().strip()
        if cut:
            answer.close()
        it.desk.service.access.users.withdraw("bob", role_named("pool2-user"), actor="root")
        if not cut:
            assert changes(answer) == []
        assert next(messages(it.ask("/page/live", cookie, Last_Event_ID=id))) == ("reset", {})
        assert [each[0] for each in it.state(cookie)["gangs"]] == [""]


@pytest.mark.parametrize("how", ["role", "out"])
def test_output_stream_ends_when_permission_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    with streams(tmp_path, monkeypatch) as it:
        cookie = it.signed_in("bob", "pool1-user")
        it.happens("a")
        answer = it.ask("/page/output/a-1", cookie)
        assert answer.status == 200
        if how == "role":
            it.desk.service.access.users.withdraw("bob", role_named("pool1-user"), actor="root")
        else:
            it.desk.service.access.browsers.end(cookie)
        answer.read()  # the task continues
        assert it.desk.status("a-1") == "RUNNING"


def test_number_of_live_pages_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_STREAMS", 2)
    with streams(tmp_path, monkeypatch) as it:
        cookie = it.signed_in("bob", "viewer")
        held = [it.ask("/page/live", cookie) for _ in range(2)]
        for each in held:
            assert each.readline() == b"retry: 3000\n"
        refused = it.ask("/page/live", cookie)
        assert (refused.status, refused.headers["retry-after"]) == (503, "10")


def test_one_query_serves_all_live_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with streams(tmp_path, monkeypatch) as it:
        monkeypatch.setattr(live, "LOOK_S", 0.5)
        cookie, look = it.signed_in("bob", "viewer"), live._Kept.look
        looks: list[int] = []
        known = it.state(cookie)["r"]

        def counted(kept: live._Kept, service: Service) -> None:
            looks.append(1)
            look(kept, service)

        monkeypatch.setattr(live._Kept, "look", counted)
        held = [it.ask(f"/page/live?since={known}", cookie) for _ in range(live.MOST_STREAMS)]
        for each in held:
            assert each.readline() == b"retry: 3000\n"
        refused = it.ask("/page/live", cookie)
        assert (refused.status, refused.headers["retry-after"]) == (503, "10")
        it.happens("a")
        for each in held:
            assert next(told for told in messages(each) if told[1]["+"])[1]["+"][0][0] == "a-1/main-group"
        assert len(looks) < live.MOST_STREAMS / 4
        for each in held:
            each.close()
        for connection in it.connections:
            connection.close()
        until(lambda: it.ask("/page/live", cookie).status == 200)


def test_client_that_does_not_read_costs_nothing_and_starts_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream is asked for more only while its client takes what was sent: this is one who takes two lines, and is away."""
    monkeypatch.setattr(live, "LOOK_S", 0.0)
    monkeypatch.setattr(live, "KEPT", 3)

    async def away(it: Desk, changes: int) -> tuple[list[bytes], int]:
        hub, pulse = live.Hub(it.service), Pulse(it.service)
        known = (await hub.now(ALL)).revision
        stream = live._stream(hub, pulse, lambda: ALL, known, "")
        assert await anext(stream) == b"retry: 3000\n\n"
        for number in range(changes):
            it.submit(f"w{number}")
            it.service.settle()
            await hub.now(ALL)  # another user reads it
        said = [await anext(stream)]
        kept = len((await hub.now(ALL)).changes)
        assert isinstance(stream, AsyncGenerator)
        await stream.aclose()
        assert hub.streams == 0
        return said, kept

    for changes, begins in ((2, b"id: "), (10, b"id: ")):
        with desk(tmp_path / str(changes)) as it:
            said, kept = asyncio.run(away(it, changes))
            assert said[0].startswith(begins)
            assert (b"event: reset" in said[0]) == (changes > 3)
            assert kept <= 3


SMALL = 4096
"""Bytes that the system keeps for a socket, so that some dozens of messages fill what is between server and client."""


@contextmanager
def small_sockets(it: Desk) -> Iterator[tuple[int, FastAPI]]:
    """The server as it is served, but for the size of its sockets; who takes nothing for a second is cut off."""
    guests = Crowd()
    with Door(guests, socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL)
        listener.bind((HERE, 0))
        port = listener.getsockname()[1]
        app = create_app(it.service, port=port)
        install(app, it.service)
        server = uvicorn.Server(connections.config(app, crowd=guests, read_timeout_s=1.0, lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            until(lambda: server.started)
            yield port, app
        finally:
            server.should_exit = True
            thread.join(PATIENCE_S)


def test_a_client_that_does_not_read_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it is told, the server keeps little for it; then its stream ends, and its place is free again."""
    monkeypatch.setattr(live, "LOOK_S", 0.0)
    with desk(tmp_path) as it, small_sockets(it) as (port, app), socket.socket() as client:
        hub, access = app.state.hub, it.service.access
        access.users.create("root", [role_named("admin")], actor="ann")
        cookie = access.browsers.enter(access.tokens.create("root", "t", None, actor="root").text, HERE)
        client.settimeout(PATIENCE_S)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
        client.connect((HERE, port))
        head = f"GET /page/live HTTP/1.1\r\nHost: {HERE}:{port}\r\nCookie: runrig-{port}={cookie}\r\n\r\n"
        client.sendall(head.encode())
        first = client.recv(12)
        while len(first) < 12:
            first += client.recv(12 - len(first))
        assert first == b"HTTP/1.1 200"
        until(lambda: hub.streams == 1)
        told = [0]

        def told_more() -> None:
            it.submit(f"w{told[0]}")
            it.service.settle()
            told[0] += 1

        until(lambda: hub.streams == 0, pause=told_more)
        assert told[0] < 5_000
        kept = 0
        with suppress(ConnectionError):
            while said := client.recv(65536):
                kept += len(said)
        assert kept < 16 * SMALL


def test_changes_after_the_page_was_rendered_are_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page is drawn between two looks: what the next look finds is told as a whole."""
    with streams(tmp_path, monkeypatch) as it:
        cookie = it.signed_in("bob", "viewer")
        looked = it.state(cookie)["r"]
        it.desk.submit("a")
        drawn = it.desk.revision
        it.desk.service.settle()
        event, change = next(messages(it.ask(f"/page/live?since={drawn}", cookie)))
        assert (event, change["from"], change["r"]) == ("message", looked, it.desk.revision)
        assert looked < drawn < it.desk.revision
        assert [each[0] for each in change["+"]] == ["a-1/main-group"]


def test_revision_newer_than_the_last_refresh_is_not_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what came before the stream listened is told without another commit."""
    with streams(tmp_path, monkeypatch) as it:
        cookie, now = it.signed_in("bob", "viewer"), live.Hub.now

        async def then_looks(hub: live.Hub, visibility: Visibility) -> live._Kept:
            kept = await now(hub, visibility)
            monkeypatch.setattr(live, "LOOK_S", 0.0)
            return kept

        looked = it.state(cookie)["r"]
        monkeypatch.setattr(live, "LOOK_S", PATIENCE_S)
        monkeypatch.setattr(live.Hub, "now", then_looks)
        it.happens("a")
        told = messages(it.ask(f"/page/live?since={it.desk.revision}", cookie))
        first, second = next(told), next(told)
        assert first == ("message", {"r": looked, "from": looked, "+": [], "-": []})
        assert (second[0], second[1]["from"], second[1]["r"]) == ("message", looked, it.desk.revision)


def test_stream_of_an_unknown_page_starts_with_its_position(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with streams(tmp_path, monkeypatch) as it:
        cookie = it.signed_in("bob", "viewer")
        it.happens("a")
        now = it.desk.revision
        for known in ("", f"?since={now}"):
            assert next(messages(it.ask(f"/page/live{known}", cookie))) == (
                "message",
                {"r": now, "from": now, "+": [], "-": []},
            )


def test_messages_become_rarer_with_more_live_pages(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        hub = live.Hub(it.service)
        paces = []
        for hub.streams in (1, 50, 100, 200):
            paces.append(hub.pace_s)
        assert paces == [1.0, 1.0, 2.0, 4.0]


def test_lost_permission_is_noticed_within_a_minute(tmp_path: Path) -> None:
    """By each stream that is open, however many there are."""
    with desk(tmp_path) as it:
        hub = live.Hub(it.service)
        hub.streams = live.MOST_STREAMS
        assert STILL_S + hub.pace_s <= 60
