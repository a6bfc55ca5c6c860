"""Programs in pods and ports of pods: through the server, a real API server, and KWOK in the place of kubelets (docs/kubernetes-tests.md).

KWOK runs commands on this machine.  It never ends their stdin and passes on no exit code but 0.
"""

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from e2e.api import path_of
from e2e.harness import NOBODY
from e2e.processes import quiet_port
from tests.kubernetes.faults import CLUSTER, begin_again, gang, submit
from tests.kubernetes.rights import SESSIONS, as_account, objects
from tests.kubernetes.runrigs import Rig, rig
from tests.kubernetes.test_claim import MERGE
from tests.kubernetes.world import World
from tests.patience import PATIENCE_S
from tests.worlds.command_line import process

OUT, END = 1, 3


@pytest.fixture
def here(world: World, tmp_path: Path) -> Iterator[Rig]:
    """With no more rights than those of the two files."""
    as_account(world, tmp_path, files=SESSIONS)
    with rig(world, tmp_path, CLUSTER) as found:
        yield found


def runs(here: Rig) -> str:
    """The id of a workflow whose task `main-0` runs."""
    id = submit(here, gang("w", 1))
    here.runs(id)
    return id


def environment(here: Rig) -> dict[str, str]:
    return {**os.environ, "RUNRIG_SERVER": address(here), "RUNRIG_TOKEN": here.token}


def executed(here: Rig, id: str, *command: str) -> "subprocess.CompletedProcess[str]":
    return said(here, "exec", id, "main-0", "--", *command)


def said(here: Rig, *args: str) -> "subprocess.CompletedProcess[str]":
    """What `runrig workflow` says, as a process that has nothing to read."""
    line = process("workflow", *args)
    return subprocess.run(
        line, env=environment(here), input="", capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


@contextmanager
def entered(here: Rig, id: str, *command: str, size: tuple[int, int] | None = None) -> Iterator[ClientConnection]:
    terminal = None if size is None else {"rows": size[0], "columns": size[1]}
    with connected(here, opened(here, id, "exec", {"command": command, "terminal": terminal})) as connection:
        yield connection


def opened(here: Rig, id: str, kind: str, body: object) -> str:
    """The key of a session."""
    bearer = {"Authorization": f"Bearer {here.token}"}
    url = f"{address(here)}/api/v1/workflows/{id}/tasks/main-0:{kind}"
    answer = httpx2.post(url, json=body, headers=bearer, timeout=PATIENCE_S)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["key"])


def address(here: Rig) -> str:
    assert here.server is not None
    return here.server.url


@contextmanager
def connected(here: Rig, key: str) -> Iterator[ClientConnection]:
    url, bearer = address(here).replace("http", "ws", 1), {"Authorization": f"Bearer {here.token}"}
    with connect(
        f"{url}/api/v1/sessions/{key}", additional_headers=bearer, open_timeout=PATIENCE_S, proxy=None
    ) as connection:
        yield connection


def heard(connection: ClientConnection) -> tuple[dict[int, bytes], dict[str, object]]:
    """(channel → all that came, what was said about the end)."""
    found: dict[int, bytes] = {}
    try:
        while True:
            message = next_message(connection)
            found[message[0]] = found.get(message[0], b"") + message[1:]
    except ConnectionClosed:
        return found, json.loads(found.pop(END))


def prints(connection: ClientConnection, expected: bytes) -> None:
    """The program's next output is `expected`, in as many messages as it took: a terminal may split a line."""
    found = b""
    while len(found) < len(expected):
        message = next_message(connection)
        assert message[0] == OUT, message
        found += message[1:]
    assert found == expected


def next_message(connection: ClientConnection) -> bytes:
    message = connection.recv(PATIENCE_S)
    assert isinstance(message, bytes)
    return message


def test_program_has_its_streams_through_the_command_line(here: Rig) -> None:
    id = runs(here)
    done = executed(here, id, "sh", "-c", "echo out; echo oh >&2")
    assert (done.returncode, done.stdout, done.stderr) == (0, "out\n", "oh\n")
    missing = executed(here, id, "no-such-thing")
    assert (missing.returncode, "executable file not found" in missing.stderr) == (127, True), missing
    assert "Traceback" not in here.log.read_text()


def test_typed_input_arrives_and_its_end_reaches_the_api_server(here: Rig) -> None:
    id = runs(here)
    log = here.world.plane.folder / "logs" / "kube-apiserver.log"
    words = "Received half-close signal from client; close 0 stream"
    before = log.read_text().count(words)
    with entered(here, id, "sh", "-c", "read line; echo got $line") as connection:
        connection.send(b"\0typed\n")
        assert heard(connection) == ({OUT: b"got typed\n"}, {"exit_code": 0, "message": ""})
    with entered(here, id, "cat") as connection:
        connection.send(b"\0typed")
        prints(connection, b"typed")
        connection.send(b"\0")
        here.until(lambda: log.read_text().count(words) > before, "the API server was told that this was all")


def test_terminal_gets_its_size_and_later_changes(here: Rig) -> None:
    id = runs(here)
    is_now = "until [ \"$(stty size)\" = '%s' ]; do sleep 0.05; done; echo %s"
    script = "; ".join((is_now % ("33 44", "one"), is_now % ("12 34", "two"), "read done", "tty -s"))
    with entered(here, id, "sh", "-c", script, size=(33, 44)) as connection:
        prints(connection, b"one\r\n")
        connection.send(b'\4{"rows": 12, "columns": 34}')
        prints(connection, b"two\r\n")
        connection.send(b"\0\n")  # KWOK may lose the last output of a terminal.
        assert heard(connection)[1] == {"exit_code": 0, "message": ""}


def test_abandoned_terminal_receives_two_keys(here: Rig) -> None:
    """KWOK's terminals control nobody, so that no key interrupts there."""
    id, keys = runs(here), here.folder / "keys"
    with entered(here, id, "sh", "-c", f"stty raw; echo on; head -c 2 >{keys}", size=(9, 9)) as connection:
        prints(connection, b"on\n")
    here.until(
        lambda: keys.exists() and keys.read_bytes() == b"\x03\x04", "the program heard that its terminal is left"
    )


def test_session_ends_with_its_task(here: Rig) -> None:
    id = runs(here)
    with entered(here, id, "sleep", "60") as connection:
        here.post(f"/api/workflow/{id}/cancel")
        _, end = heard(connection)
        assert "is no longer running" in str(end.get("detail")), end
    assert executed(here, id, "true").returncode == 1


def test_session_ends_with_a_message_when_the_api_server_is_gone_and_the_next_one_works(here: Rig) -> None:
    id = runs(here)
    with entered(here, id, "sh", "-c", "echo on; sleep 60") as connection:
        prints(connection, b"on\n")
        begin_again(here.world.plane, "kube-apiserver")
        _, end = heard(connection)
    assert end["code"] == "UNAVAILABLE"
    assert "closed the connection to the task" in str(end["detail"])
    done = here.until(lambda: _said(here, id), "a program can be started again")
    assert done == "hello\n"


def _said(here: Rig, id: str) -> str | None:
    done = executed(here, id, "echo", "hello")
    return done.stdout if done.returncode == 0 else None


@pytest.mark.skipif(shutil.which("rsync") is None, reason="there is no rsync on this machine")
def test_files_are_copied_to_a_task_and_back(here: Rig) -> None:
    id, there, back = runs(here), here.folder / "there", here.folder / "back"
    (here.folder / "file").write_bytes(b"x" * 300_000)
    for way, paths in (("upload", f"{here.folder}/file:{there}/"), ("download", f"{there}/file:{back}")):
        done = said(here, "rsync", way, id, "main-0", paths)
        assert done.returncode == 0, done
    assert (back / "file").read_bytes() == b"x" * 300_000


def test_forwarded_port_is_on_this_machine(here: Rig) -> None:
    id, local = runs(here), quiet_port()
    command = process("workflow", "port-forward", id, "main-0", "--port", f"{local}:8080")
    with subprocess.Popen(command, env=environment(here), stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == f"localhost:{local} is port 8080 of {id}/main-0\n"
            with socket.create_connection(("127.0.0.1", local), timeout=PATIENCE_S) as connection:
                connection.sendall(b"hello")
                with connection.makefile("rb") as answers:
                    assert answers.read(5) == b"hello"
        finally:
            child.terminate()


def test_port_carries_bytes_and_reports_that_nothing_is_listening(here: Rig) -> None:
    id = runs(here)
    for port, sent, expected in ((8080, b"x" * 100_000, None), (NOBODY, b"x", "nothing is listening on the port")):
        with connected(here, opened(here, id, "port-forward", {"port": port})) as control:
            control.send(json.dumps({"key": f"c-{port}"}))
            with connected(here, f"c-{port}") as connection:
                connection.send(sent)
                if expected is None:
                    assert _bytes(connection, len(sent)) == sent
                else:
                    with pytest.raises(ConnectionClosed) as caught:
                        _bytes(connection, 1)
                    assert expected in str(caught.value.rcvd)


def test_datagrams_are_refused_with_a_message(here: Rig) -> None:
    done = said(here, "port-forward", runs(here), "main-0", "--port", f"{quiet_port()}:8080", "--udp")
    words = "the kubernetes backend cannot forward UDP. Omit --udp, and use a TCP port of the task"
    assert (done.returncode, words in done.stderr) == (1, True), done


def _bytes(connection: ClientConnection, count: int) -> bytes:
    found = b""
    while len(found) < count:
        found += next_message(connection)
    return found


@pytest.mark.parametrize("verb", ["get", "create"])
def test_missing_permission_is_named_and_nothing_else_fails(world: World, tmp_path: Path, verb: str) -> None:
    as_account(world, tmp_path, files=SESSIONS)
    *_, role = [each for each in objects(world.namespace, files=SESSIONS) if each["kind"] == "Role"]
    less = [rule | {"verbs": [verb]} for rule in role["rules"]]
    world.api.call("PATCH", path_of(role), {"rules": less}, kind=MERGE)
    with rig(world, tmp_path, CLUSTER) as here:
        id = runs(here)
        done = executed(here, id, "true")
        assert done.returncode == 1, done
        assert "runrig does not have permission to enter tasks on this cluster" in done.stderr
        assert (
            "the optional permission to get and create pods/exec (deploy/kubernetes/rbac-sessions.yaml" in done.stderr
        )
        world.api.call("PATCH", path_of(role), {"rules": role["rules"]}, kind=MERGE)
        here.until(lambda: _said(here, id), "a program can be started")
