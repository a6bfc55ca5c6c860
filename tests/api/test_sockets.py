"""Sessions in tasks through a real server: what the reference client sends, in its order, and whom the router turns away."""

import json
import re
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.patience import PATIENCE_S, until
from tests.service.runtime.scrape import labelled, scraped
from tests.worlds.command_line import Up, up, written

pytestmark = pytest.mark.slow

LISTENS = """
import os, socket, threading
server = socket.create_server(("127.0.0.1", 0))
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(server.getsockname())
def answer():
    while True:
        data, sender = datagrams.recvfrom(70000)
        datagrams.sendto(data[::-1], sender)
threading.Thread(target=answer, daemon=True).start()
with open("port.new", "w") as file:
    file.write(str(server.getsockname()[1]))
os.rename("port.new", "port")
while True:
    connection = server.accept()[0]
    connection.sendall(connection.recv(1000)[::-1])
    connection.close()
"""
WORKFLOW = f"""
workflow:
  name: w
  tasks:
  - name: main
    image: any
    command: [python3, -c, {json.dumps(LISTENS)}]
"""


@dataclass
class World:
    up: Up
    url: str
    token: str

    def ask(self, method: str, path: str, body: Any = None, token: str | None = None) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {token or self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    @contextmanager
    def posted(self, path: str) -> Iterator[Any]:
        headers = {"Authorization": f"Bearer {self.token}"}
        with urllib.request.urlopen(
            urllib.request.Request(self.url + path, None, headers, method="POST"), timeout=PATIENCE_S
        ) as answer:
            yield answer

    def ok(self, method: str, path: str, body: Any = None) -> Any:
        status, answer = self.ask(method, path, body)
        assert status in (200, 201, 204), answer
        return answer

    def log(self) -> str:
        return (self.up.data / "server.log").read_text()

    @property
    def port(self) -> int:
        file = self.up.data.joinpath("tasks", "w-1", "main", "0", "work", "port")
        until(file.exists)
        return int(file.read_text())

    @contextmanager
    def socket(self, path: str, token: str | None = None, **headers: str) -> Iterator[ClientConnection]:
        """As the reference client connects: with its cookie, and the token in its usual header."""
        said = {"Authorization": f"Bearer {token or self.token}", "Cookie": "", "x-osmo-client-version": "6.4.0"}
        address = self.url.replace("http", "ws", 1)
        with connect(
            f"{address}/{path}", additional_headers=said | headers, open_timeout=PATIENCE_S, proxy=None
        ) as connection:
            yield connection

    def refused(self, path: str, token: str | None = None, **headers: str) -> tuple[int, dict[str, Any]]:
        with pytest.raises(InvalidStatus) as caught, self.socket(path, token, **headers):
            pass
        response = caught.value.response
        said = json.loads(bytes(response.body or b""))
        if path.startswith("api/v1/"):
            assert response.headers["content-type"] == "application/problem+json"
        else:
            assert set(said) == {"message", "error_code", "details"}
        return response.status_code, said


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with started(tmp_path_factory.mktemp("router")) as it:
        yield it


@contextmanager
def started(folder: Path) -> Iterator[World]:
    """A server with one workflow that runs."""
    with up(folder / "data", "--gpus", "1") as server:
        found = json.loads((server.data / "server.json").read_text())
        it = World(server, found["url"], (server.data / "token").read_text().strip())
        assert server.runrig("workflow", "submit", written(folder, WORKFLOW)).code == 0
        assert server.runrig("workflow", "wait", "w-1", "--for", "RUNNING").code == 0
        try:
            yield it
        finally:
            if server.child.poll() is None:
                server.runrig("workflow", "cancel", "w-1", "--force")
                server.runrig("workflow", "wait", "w-1", "--for", "FAILED")


def received(connection: ClientConnection, end: bytes = b"") -> bytes:
    """Everything up to *end*, or to the close."""
    said = b""
    while not end or end not in said:
        try:
            message = connection.recv(PATIENCE_S)
        except ConnectionClosed:
            break
        assert isinstance(message, bytes)
        said += message
    assert end or connection.close_code == 1000
    assert end in said
    return said


def test_osmo_client_has_a_shell_on_a_terminal(world: World) -> None:
    answer = world.ok("POST", "/api/workflow/w-1/exec/task/main?entry_command=/bin/bash%20--norc")
    assert answer == {"router_address": world.url.replace("http", "ws", 1), "key": answer["key"], "cookie": ""}
    with world.socket(f"api/router/exec/w-1/client/{answer['key']}") as shell:
        shell.send(b'{"Rows": 31, "Cols": 97}')
        shell.send(b"stty -echo; stty size; echo $RUNRIG_TASK $((40 + 2)); echo more\n")
        assert b"31 97\r\nmain 42\r\n" in received(shell, b"\nmore\r\n")
        shell.send(b'\x00RESIZE:{"Rows": 12, "Cols": 34}')
        shell.send(b"stty size; exit 3\n")
        assert b"12 34\r\n" in received(shell)


def test_osmo_client_runs_a_command_in_a_whole_group(world: World) -> None:
    answers = world.ok(
        "POST", "/api/workflow/w-1/exec/group/main-group?entry_command=sh%20-c%20%27echo%20%22a%20b%22%27"
    )
    assert set(answers) == {"main"}
    with world.socket(f"api/router/exec/w-1/client/{answers['main']['key']}") as program:
        program.send(b'{"Rows": 0, "Cols": 0}')
        assert received(program) == b"a b\r\n"


def test_unknown_program_is_reported_on_the_terminal(world: World) -> None:
    key = world.ok("POST", "/api/workflow/w-1/exec/task/main?entry_command=no-such-thing")["key"]
    with world.socket(f"api/router/exec/w-1/client/{key}") as program:
        program.send(b'{"Rows": 24, "Cols": 80}')
        assert received(program) == b"cannot start no-such-thing: No such file or directory\r\n"


def test_osmo_client_forwards_a_port(world: World) -> None:
    answers = world.ok("POST", f"/api/workflow/w-1/portforward/main?task_ports={world.port}&use_udp=False")
    assert len(answers) == 1
    endpoint = "api/router/portforward/w-1/client"
    with world.socket(f"{endpoint}/{answers[0]['key']}") as control:
        for number in range(2):
            key = f"PORTFORWARD-{number}"
            control.send(json.dumps({"key": key, "cookie": ""}).encode())
            with world.socket(f"{endpoint}/{key}") as connection:
                connection.send(b"hello")
                assert received(connection) == b"olleh"
    assert world.refused(f"{endpoint}/PORTFORWARD-0")[0] == 404


def sender(number: int) -> bytes:
    """As the reference client begins each datagram of one that comes to it from a port of 127.0.0.1."""
    return socket.inet_aton("127.0.0.1") + number.to_bytes(2, "big")


def test_osmo_client_forwards_datagrams(world: World) -> None:
    """On the connection with the key itself, and each answer goes to the sender whose datagram it answers."""
    answers = world.ok("POST", f"/api/workflow/w-1/portforward/main?task_ports={world.port}&use_udp=True")
    assert [set(each) for each in answers] == [{"router_address", "key", "cookie"}]
    with world.socket(f"api/router/portforward/w-1/client/{answers[0]['key']}") as connection:
        for number, data in ((5001, b"hello"), (5002, b"x" * 60_000), (5001, b"again")):
            connection.send(sender(number) + data)
            assert connection.recv(PATIENCE_S) == sender(number) + data[::-1]
    trail = world.ok("GET", "/api/v1/access-events?limit=1")["items"][0]
    assert (trail["what"], trail["subject"]) == ("port-forward", f"w-1/main:{world.port}/udp")


@pytest.mark.parametrize("message", [b"", b"12345", b"1" * 70_000])
def test_invalid_datagram_ends_the_connection_with_a_message(world: World, message: bytes) -> None:
    body = {"port": world.port, "udp": True}
    key = world.ok("POST", "/api/v1/workflows/w-1/tasks/main:port-forward", body)["key"]
    with world.socket(f"api/v1/sessions/{key}") as connection:
        connection.send(message)
        with pytest.raises(ConnectionClosed) as caught:
            connection.recv(PATIENCE_S)
    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == 1008
    assert caught.value.rcvd.reason.startswith(f"invalid datagram message of {len(message):,} bytes")


def test_datagrams_reach_only_their_target(world: World) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ours:
        ours.bind(("127.0.0.1", 0))
        port = ours.getsockname()[1]
        key = world.ok("POST", f"/api/workflow/w-1/portforward/main?task_ports={port}&use_udp=True")[0]["key"]
        with (
            world.socket(f"api/router/portforward/w-1/client/{key}") as connection,
            pytest.raises(ConnectionClosed) as caught,
        ):
            connection.recv(PATIENCE_S)
    assert caught.value.rcvd is not None
    assert (
        caught.value.rcvd.code,
        f"no process of w-1/main listens on loopback port {port}" in caught.value.rcvd.reason,
    ) == (1011, True)


def test_a_connection_may_come_before_it_is_announced(world: World) -> None:
    answer = world.ok("POST", f"/api/workflow/w-1/portforward/main?task_ports={world.port}")[0]
    endpoint = "api/router/portforward/w-1/client"
    with world.socket(f"{endpoint}/{answer['key']}") as control:
        late = threading.Timer(0.3, control.send, [b'{"key": "PORTFORWARD-late"}'])
        late.start()
        with world.socket(f"{endpoint}/PORTFORWARD-late") as connection:
            connection.send(b"hello")
            assert received(connection) == b"olleh"
        late.join()


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b"no json", "Announce a connection as"),
        (b'{"key": 7}', "Announce a connection as"),
        (b'{"key": "%s"}' % (b"x" * 200), "Announce a connection as"),
    ],
)
def test_invalid_announcement_ends_the_control_connection_with_a_message(world: World, said: bytes, words: str) -> None:
    key = world.ok("POST", "/api/workflow/w-1/portforward/main?task_ports=80")[0]["key"]
    with world.socket(f"api/router/portforward/w-1/client/{key}") as control:
        control.send(said)
        with pytest.raises(ConnectionClosed) as caught:
            control.recv(PATIENCE_S)
    assert caught.value.rcvd is not None
    assert (caught.value.rcvd.code, words in caught.value.rcvd.reason) == (1008, True)


def test_foreign_port_is_refused_with_a_message(world: World) -> None:
    own = int(world.url.rpartition(":")[2])
    key = world.ok("POST", f"/api/workflow/w-1/portforward/main?task_ports={own}")[0]["key"]
    endpoint = "api/router/portforward/w-1/client"
    with world.socket(f"{endpoint}/{key}") as control:
        control.send(b'{"key": "PORTFORWARD-own"}')
        with world.socket(f"{endpoint}/PORTFORWARD-own") as connection, pytest.raises(ConnectionClosed) as caught:
            connection.recv(PATIENCE_S)
    assert caught.value.rcvd is not None
    assert f"no process of w-1/main listens on loopback port {own}" in caught.value.rcvd.reason


def test_runrig_client_gets_separate_streams_and_the_exit_code(world: World) -> None:
    body = {"command": ["sh", "-c", "cat; echo oh >&2; exit 4"]}
    key = world.ok("POST", "/api/v1/workflows/w-1/tasks/main:exec", body)["key"]
    with world.socket(f"api/v1/sessions/{key}") as program:
        program.send(b"\x00typed")
        program.send(b"\x00")
        frames = list(program)
    for channel, said in ((1, b"typed"), (2, b"oh\n"), (3, b'{"exit_code": 4, "message": ""}')):
        assert b"".join(each[1:] for each in frames if isinstance(each, bytes) and each[0] == channel) == said
    assert frames[-1][0] == 3
    assert world.refused(f"api/v1/sessions/{key}")[0] == 404


def test_runrig_client_forwards_a_port(world: World) -> None:
    key = world.ok("POST", "/api/v1/workflows/w-1/tasks/main:port-forward", {"port": world.port})["key"]
    with world.socket(f"api/v1/sessions/{key}") as control:
        control.send(b'{"key": "mine"}')
        with world.socket("api/v1/sessions/mine") as connection:
            connection.send(b"hello")
            assert received(connection) == b"olleh"


def test_session_that_cannot_start_returns_a_problem(world: World) -> None:
    key = world.ok("POST", "/api/v1/workflows/w-1/tasks/main:exec", {"command": ["no-such-thing"]})["key"]
    with world.socket(f"api/v1/sessions/{key}") as program:
        end = program.recv(PATIENCE_S)
    assert isinstance(end, bytes)
    said = json.loads(end[1:])
    assert (end[0], said) == (3, {"exit_code": 127, "message": "cannot start no-such-thing: No such file or directory"})


def test_the_metrics_count_sessions_and_their_bytes(world: World) -> None:
    def told(name: str, **labels: str) -> float:
        request = urllib.request.Request(f"{world.url}/metrics", headers={"Authorization": f"Bearer {world.token}"})
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return scraped(answer.read().decode()).get(name, {}).get(labelled(**labels), 0.0)

    def now() -> list[float]:
        exec_, ports = {"kind": "exec"}, {"kind": "portforward"}
        return [
            told("runrig_sessions_opened_total", **exec_),
            told("runrig_sessions_opened_total", **ports),
            told("runrig_session_bytes_total", **exec_, direction="to_task"),
            told("runrig_session_bytes_total", **exec_, direction="from_task"),
            told("runrig_session_bytes_total", **ports, direction="to_task"),
            told("runrig_session_bytes_total", **ports, direction="from_task"),
            told("runrig_sessions_refused_total", why="no_key"),
            told("runrig_sessions_refused_total", why="not_reached"),
        ]

    def open_now() -> list[float]:
        return [told("runrig_sessions", kind=kind) for kind in ("exec", "portforward")]

    until(lambda: open_now() == [0, 0])
    before = now()
    key = world.ok("POST", "/api/v1/workflows/w-1/tasks/main:exec", {"command": ["sh", "-c", "cat; echo done"]})["key"]
    control = world.ok("POST", f"/api/workflow/w-1/portforward/main?task_ports={world.port}")[0]["key"]
    endpoint = "api/router/portforward/w-1/client"
    with world.socket(f"api/v1/sessions/{key}") as program, world.socket(f"{endpoint}/{control}") as forwards:
        for number in range(2):  # two connections of the same session
            forwards.send(json.dumps({"key": f"COUNTED-{number}"}).encode())
            with world.socket(f"{endpoint}/COUNTED-{number}") as connection:
                connection.send(b"hello")
                received(connection)
        program.send(b"\x00" + b"typed")
        until(lambda: open_now() == [1, 1])
        program.send(b"\x00")
        assert b"".join(each[1:] for each in program if isinstance(each, bytes) and each[0] == 1) == b"typeddone\n"
    world.refused(f"{endpoint}/never-asked-for")
    nowhere = world.ok("POST", "/api/workflow/w-1/portforward/main?task_ports=1&use_udp=True")[0]["key"]
    with world.socket(f"{endpoint}/{nowhere}") as connection, pytest.raises(ConnectionClosed):
        connection.recv(PATIENCE_S)
    until(lambda: open_now() == [0, 0])
    assert [after - start for after, start in zip(now(), before, strict=True)] == [1, 2, 5, 10, 10, 10, 1, 1]


def test_a_session_has_an_address_of_its_own(world: World) -> None:
    with world.posted("/api/v1/workflows/w-1/tasks/main:rsync") as made:
        key = json.load(made)["key"]
        assert (made.status, made.headers["location"]) == (201, f"/api/v1/sessions/{key}")


def test_session_key_works_once_for_its_user_and_kind_and_workflow(world: World) -> None:
    def key() -> str:
        return str(world.ok("POST", "/api/workflow/w-1/exec/task/main?entry_command=cat")["key"])

    world.ask("POST", "/api/v1/tokens", {"name": "first"})  # the holder of the folder's token becomes a user
    world.ask("POST", "/api/v1/users", {"name": "eve", "roles": ["admin"]})
    eve = world.ok("POST", "/api/v1/users/eve/tokens", {"name": "laptop"})["token"]
    good = key()
    path = f"api/router/exec/w-1/client/{good}"
    assert world.refused(path, eve)[0] == 404
    assert world.refused(path, "wrong")[0] == 401
    assert world.refused(path.replace("exec", "portforward"))[0] == 404
    assert world.refused(path.replace("w-1", "w-2"))[0] == 404
    assert world.refused(path.replace("exec", "backend"))[0] == 404
    for origin in ("https://evil.example", "null", world.url.replace("http", "https", 1)):
        status, said = world.refused(path, Origin=origin)
        assert (status, said["message"]) == (403, f"pages of {origin!r} may not call this server")
    assert world.refused("api/stream")[0] == 404
    with world.socket(path, Origin=world.url) as program:
        program.send(b'{"Rows": 24, "Cols": 80}')
        assert world.refused(path)[0] == 404
    assert world.refused(path)[0] == 404


@pytest.mark.parametrize("what", ["token", "user", "role"])
def test_session_ends_when_its_user_loses_permission(world: World, what: str) -> None:
    name = f"bob-{what}"
    world.ok("POST", "/api/v1/users", {"name": name, "roles": ["default-admin"]})
    token = world.ok("POST", f"/api/v1/users/{name}/tokens", {"name": "laptop"})["token"]
    status, answer = world.ask("POST", "/api/v1/workflows/w-1/tasks/main:exec", {"command": ["cat"]}, token)
    assert status == 201
    with world.socket(f"api/v1/sessions/{answer['key']}", token) as program:
        program.send(b"\x00x")
        assert program.recv(PATIENCE_S) == b"\x01x"
        if what == "token":
            world.ok("DELETE", f"/api/v1/users/{name}/tokens/laptop")
        elif what == "user":
            world.ok("PATCH", f"/api/v1/users/{name}", {"disabled": True})
        else:
            world.ok("DELETE", f"/api/v1/roles/{name}/default-admin")
        end = program.recv(PATIENCE_S)
        assert isinstance(end, bytes)
        words = f"{name} no longer has permission to enter w-1" if what == "role" else "its token is no longer valid"
        assert json.loads(end[1:])["detail"] == words
        with pytest.raises(ConnectionClosed):
            program.recv(PATIENCE_S)


def test_sessions_require_permission_to_change_the_workflow(world: World) -> None:
    world.ok("POST", "/api/v1/users", {"name": "tess", "roles": ["default-user"]})
    token = world.ok("POST", "/api/v1/users/tess/tokens", {"name": "laptop"})["token"]
    status, said = world.ask("POST", "/api/workflow/w-1/exec/task/main?entry_command=ls", None, token)
    assert (status, said["details"]["permission"]) == (403, "exec workflow")
    assert "cannot run commands in the tasks of workflow w-1" in said["message"]


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("exec/task/main?entry_command=", 422, "the command is empty"),
        ("exec/task/main?entry_command=%22open", 422, "invalid command: No closing quotation"),
        ("exec/task/other?entry_command=ls", 404, "w-1 has no task 'other' (tasks: main)"),
        ("exec/group/other?entry_command=ls", 404, "w-1 has no group 'other' with tasks (groups: main-group)"),
        ("portforward/main", 422, "task_ports"),
        ("portforward/main?task_ports=0", 422, "task_ports"),
        ("portforward/main?task_ports=70000", 422, "task_ports"),
    ],
)
def test_invalid_session_requests_are_refused_with_a_message(world: World, path: str, status: int, words: str) -> None:
    found, said = world.ask("POST", f"/api/workflow/w-1/{path}")
    assert (found, words in said["message"]) == (status, True), said


def test_audit_trail_has_sessions_but_no_log_has_their_input(world: World) -> None:
    secret = "canary-in-a-query"
    key = world.ok("POST", f"/api/workflow/w-1/exec/task/main?entry_command=echo%20{secret}")["key"]
    with world.socket(f"api/router/exec/w-1/client/{key}?more={secret}") as program:
        program.send(b'{"Rows": 24, "Cols": 80}')
        assert received(program) == f"{secret}\r\n".encode()
    newest = world.ok("GET", "/api/v1/access-events?limit=1")["items"][0]
    user = newest["actor"]
    assert (newest["what"], newest["user"], newest["subject"]) == ("exec", user, "w-1/main")
    until(lambda: re.search(rf"event=session_ended kind=exec task=w-1/main user={user}", world.log()))
    assert secret not in world.log()
    assert key not in world.log()
    assert "Traceback" not in world.log()


def test_stopping_server_ends_all_sessions_immediately(tmp_path: Path) -> None:
    with started(tmp_path) as world:
        body = {"command": ["sh", "-c", "echo $$; exec sleep 1000"]}
        key = world.ok("POST", "/api/v1/workflows/w-1/tasks/main:exec", body)["key"]
        port = world.ok("POST", "/api/workflow/w-1/portforward/main?task_ports=80")[0]["key"]
        with (
            world.socket(f"api/v1/sessions/{key}") as program,
            world.socket(f"api/router/portforward/w-1/client/{port}"),
        ):
            said = program.recv(PATIENCE_S)
            assert isinstance(said, bytes)
            world.up.child.send_signal(signal.SIGTERM)
            assert world.up.child.wait(timeout=PATIENCE_S) == 0
        until(lambda: not Path(f"/proc/{int(said[1:])}").exists())
        assert "Cancel" not in world.log()  # of tasks that were stopped
        assert "Traceback" not in world.log()
        with up(world.up.data, "--gpus", "1") as again:  # for the cleanup
            time.sleep(0)
            assert again.runrig("workflow", "cancel", "w-1", "--force").code == 0
            again.runrig("workflow", "wait", "w-1", "--for", "FAILED")
