"""The way into a pod, byte by byte: what an API server gets from us, and what we make of what it says.

The other side is a WebSocket server that plays one, with the subprotocols of Kubernetes; what a real one does is in tests/kubernetes.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from os import terminal_size
from pathlib import Path
from typing import TypeVar
from urllib.parse import parse_qsl

import pytest
import yaml
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from runrig.backends.kubernetes import passages
from runrig.backends.kubernetes.cluster import Cluster, connect
from runrig.domain.errors import Conflict, InvalidInput, RunrigError, Unavailable
from runrig.ports.backend import ERR, OUT, Passage, Program
from tests.patience import PATIENCE_S

POD = {"metadata": {"namespace": "jobs", "name": "p"}}
SHELL = Program(("sh", "-c", "a b & c"))
FORBIDDEN = (
    'pods "p" is forbidden: User "system:serviceaccount:jobs:runrig" cannot create resource "pods/exec" in API group ""'
)
EXITED_7 = {
    "status": "Failure",
    "reason": "NonZeroExitCode",
    "message": "command terminated with non-zero exit code: exit status 7",
    "details": {"causes": [{"reason": "ExitCode", "message": "7"}]},
}
"""As Kubernetes writes it."""

T = TypeVar("T")


def not_run(words: str) -> dict[str, object]:
    said = f"Internal error occurred: Internal error occurred: error executing command in container: {words}"
    return {
        "status": "Failure",
        "reason": "InternalError",
        "message": said,
        "details": {"causes": [{"message": said}]},
        "code": 500,
    }


@dataclass
class Server:
    """*says*: its messages, once *hears* have come.  *refuses*: what it answers to whom, instead.  *hangs_up*: at the end."""

    says: Sequence[bytes] = ()
    hears: int = 0
    refuses: Callable[[Request], tuple[int, object] | None] = lambda _: None
    hangs_up: bool = True
    asked: list[Request] = field(default_factory=list)
    protocols: list[str | None] = field(default_factory=list)
    heard: list[bytes] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def answer(self, _: ServerConnection, request: Request) -> Response | None:
        self.asked.append(request)
        refused = self.refuses(request)
        if refused is None:
            return None
        status, body = HTTPStatus(refused[0]), json.dumps(refused[1]).encode()
        return Response(status, status.phrase, Headers({"Content-Length": str(len(body))}), body)

    async def handle(self, connection: ServerConnection) -> None:
        self.protocols.append(connection.subprotocol)
        try:
            while len(self.heard) < self.hears:
                self.heard.append(bytes(await connection.recv(decode=False)))
            for each in self.says:
                await connection.send(each)
            while not self.hangs_up:
                self.heard.append(bytes(await connection.recv(decode=False)))
        except ConnectionClosed:
            pass
        finally:
            self.ended.set()


def with_server(server: Server, folder: Path, do: Callable[[Cluster], Awaitable[T]], *, user: object = None) -> T:
    async def run() -> T:
        protocols = ["v4.channel.k8s.io", "v5.channel.k8s.io"]
        async with serve(server.handle, "127.0.0.1", 0, process_request=server.answer, subprotocols=protocols) as it:  # type: ignore[arg-type]
            port = next(iter(it.sockets)).getsockname()[1]
            cluster = connect(kubeconfig(folder, f"http://127.0.0.1:{port}", user or {"token": "t1"}))
            async with asyncio.timeout(PATIENCE_S):
                found = await do(cluster)
                if server.protocols:
                    await server.ended.wait()
            cluster.close()
        return found

    return asyncio.run(run())


def kubeconfig(folder: Path, url: str, user: object) -> Path:
    place = folder / "kubeconfig"
    named = {"context": {"cluster": "c", "user": "u"}, "name": "x"}
    rest = {"contexts": [named], "users": [{"name": "u", "user": user}], "current-context": "x"}
    place.write_text(yaml.safe_dump({"clusters": [{"name": "c", "cluster": {"server": url}}], **rest}))
    return place


async def all_of(passage: Passage) -> list[tuple[int, bytes]]:
    found = []
    while (part := await passage.read()) is not None:
        found.append(part)
    return found


def status(said: object) -> bytes:
    return b"\x03" + json.dumps(said).encode()


def test_program_is_requested_with_kubernetes_parameters_and_has_its_streams(tmp_path: Path) -> None:
    server = Server([b"\1", b"\1out", b"\2err", status(EXITED_7)], hears=3)

    async def do(cluster: Cluster) -> tuple[object, object]:
        passage = await passages.enter(cluster, POD, "main", SHELL)
        await passage.write(b"typed")
        await passage.write(b"")
        await passage.resize(terminal_size((2, 1)))  # the command has no terminal
        await passage.write(b"x")
        return await all_of(passage), await passage.close()

    assert with_server(server, tmp_path, do) == ([(OUT, b"out"), (ERR, b"err")], (7, ""))
    assert server.heard == [b"\0typed", b"\xff\0", b"\0x"]
    assert server.protocols == ["v5.channel.k8s.io"]
    path, _, query = server.asked[0].path.partition("?")
    assert path == "/api/v1/namespaces/jobs/pods/p/exec"
    assert parse_qsl(query) == [
        ("container", "main"), ("command", "sh"), ("command", "-c"), ("command", "a b & c"),
        ("stdin", "true"), ("stdout", "true"), ("stderr", "true"),
    ]  # fmt: skip
    assert server.asked[0].headers["Authorization"] == "Bearer t1"


def test_terminal_gets_its_size_first_and_its_input_ends_with_a_key(tmp_path: Path) -> None:
    server = Server([status({"status": "Success"})], hears=4)

    async def do(cluster: Cluster) -> object:
        passage = await passages.enter(cluster, POD, "main", Program(("sh",), terminal_size((44, 33))))
        await passage.write(b"ls\r")
        await passage.resize(terminal_size((6, 5)))
        await passage.write(b"")
        return await all_of(passage), await passage.close()

    assert with_server(server, tmp_path, do) == ([], (0, ""))
    sizes = [b'\4{"Width": 44, "Height": 33}', b'\4{"Width": 6, "Height": 5}']
    assert server.heard == [sizes[0], b"\0ls\r", sizes[1], b"\0\x04"]
    asked = parse_qsl(server.asked[0].path.partition("?")[2])
    assert asked[2:] == [("stdin", "true"), ("stdout", "true"), ("tty", "true")]


def test_abandoned_terminal_receives_two_keys(tmp_path: Path) -> None:
    server = Server(hangs_up=False)

    async def do(cluster: Cluster) -> object:
        return await (await passages.enter(cluster, POD, "main", Program(("sh",), terminal_size((44, 33))))).close()

    assert with_server(server, tmp_path, do) is None
    assert server.heard[1:] == [b"\0\x03\x04"]


@pytest.mark.parametrize(
    ("said", "ended"),
    [
        ({"status": "Success"}, (0, "")),
        (EXITED_7, (7, "")),
        (
            not_run('exec: "x": executable file not found in $PATH'),
            (127, 'exec: "x": executable file not found in $PATH'),
        ),
        (not_run("exec: /x: permission denied"), (126, "exec: /x: permission denied")),
    ],
)
def test_end_of_a_program_is_its_exit_code_or_why_it_could_not_start(
    said: object, ended: tuple[int, str], tmp_path: Path
) -> None:
    async def do(cluster: Cluster) -> object:
        passage = await passages.enter(cluster, POD, "main", SHELL)
        return await all_of(passage), await passage.close()

    assert with_server(Server([status(said)]), tmp_path, do) == ([], ended)


@pytest.mark.parametrize(
    ("says", "words"),
    [
        (
            [status({"status": "Failure", "message": "error dialing backend: dial tcp: refused"})],
            "error dialing backend",
        ),
        ([b"\3not JSON"], "not JSON"),
        ([b"\3[]"], "cannot enter the task now: []"),
        ([status({"status": "Failure", "message": "m", "details": {"causes": [7, {"reason": "ExitCode"}]}})], "now: m"),
        ([b"\1some"], "closed the connection to the task"),
    ],
)
def test_broken_connection_is_reported(says: list[bytes], words: str, tmp_path: Path) -> None:
    async def do(cluster: Cluster) -> str:
        passage = await passages.enter(cluster, POD, "main", SHELL)
        with pytest.raises(Unavailable) as caught:
            await all_of(passage)
        assert await passage.close() is None
        return caught.value.message

    assert words in with_server(Server(says), tmp_path, do)


@pytest.mark.parametrize(
    ("code", "body", "kind", "words"),
    [
        (403, {"reason": "Forbidden", "message": FORBIDDEN}, Conflict, "the optional permission to get and create pods/exec"),
        (403, {"reason": "Forbidden", "message": FORBIDDEN}, Conflict, "deploy/kubernetes/rbac-sessions.yaml"),
        (404, {"reason": "NotFound", "message": 'pods "p" not found'}, Conflict, 'pods "p" not found'),
        (503, {"message": "draining"}, Unavailable, "is temporarily unavailable (503): draining"),
        (500, ["?"], Unavailable, "is temporarily unavailable (500)"),
        (401, {"message": "Unauthorized"}, Unavailable, "rejected the login"),
    ],
)  # fmt: skip
def test_refusal_is_reported_with_the_way_out(
    code: int, body: object, kind: type[RunrigError], words: str, tmp_path: Path
) -> None:
    async def do(cluster: Cluster) -> str:
        with pytest.raises(kind) as caught:
            await passages.enter(cluster, POD, "main", SHELL)
        return caught.value.message

    server = Server(refuses=lambda _: (code, body))
    assert words in with_server(server, tmp_path, do)
    assert len(server.asked) == 1


def test_rotated_token_is_read_again(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("t1")

    async def do(cluster: Cluster) -> None:
        for told in ("t1", "t2"):
            token.write_text(told)
            server.says = [status({"status": "Success"})]
            await (await passages.enter(cluster, POD, "main", SHELL)).close()

    server = Server(
        refuses=lambda it: (401, {}) if it.headers["Authorization"] != f"Bearer {token.read_text()}" else None
    )
    with_server(server, tmp_path, do, user={"tokenFile": str(token)})
    assert [each.headers["Authorization"] for each in server.asked] == ["Bearer t1", "Bearer t1", "Bearer t2"]


@pytest.mark.parametrize("version", ["v1beta1", "v1"])
def test_login_program_is_run_and_told_its_version(version: str, tmp_path: Path) -> None:
    text = """printf '{"status": {"token": "%s-%s"}}' "$ME" "$(echo "$KUBERNETES_EXEC_INFO" | cut -d '"' -f 4)\""""
    program: dict[str, object] = {
        "apiVersion": f"client.authentication.k8s.io/{version}",
        "command": "sh",
        "args": ["-c", text],
    }
    program |= {"env": [{"name": "ME", "value": "ann"}], "interactiveMode": "Never"}
    cluster = connect(kubeconfig(tmp_path, "http://127.0.0.1:9", {"exec": program}))
    assert next(cluster.logins()) == f"Bearer ann-client.authentication.k8s.io/{version}"


def test_unreachable_address_is_reported(tmp_path: Path) -> None:
    cluster = connect(kubeconfig(tmp_path, "http://127.0.0.1:9", {"token": "t1"}))
    with pytest.raises(Unavailable, match=r"the API server http://127\.0\.0\.1:9 does not respond"):
        asyncio.run(passages.enter(cluster, POD, "main", SHELL))


@pytest.mark.parametrize("word", ["\0", "\ud800", "x" * passages.LONGEST_COMMAND])
def test_impossible_command_is_not_sent(word: str, tmp_path: Path) -> None:
    cluster = connect(kubeconfig(tmp_path, "http://127.0.0.1:9", {"token": "t1"}))
    with pytest.raises(InvalidInput, match="the command"):
        asyncio.run(passages.enter(cluster, POD, "main", Program(("echo", word))))


def test_port_is_requested_by_its_number_which_each_channel_repeats(tmp_path: Path) -> None:
    server = Server([b"\0\x90\x1f", b"\1\x90\x1f", b"", b"\0hello"], hears=1)

    async def do(cluster: Cluster) -> object:
        passage = await passages.forward(cluster, POD, 8080)
        await passage.write(b"hi")
        return await all_of(passage), await passage.close()  # type: ignore[func-returns-value]

    assert with_server(server, tmp_path, do) == ([(OUT, b"hello")], None)
    assert (server.heard, server.protocols) == ([b"\0hi"], ["v4.channel.k8s.io"])
    assert server.asked[0].path == "/api/v1/namespaces/jobs/pods/p/portforward?ports=8080"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b"error forwarding port 8080: connect: connection refused", "nothing is listening on the port"),
        (b"no such namespace", "cannot connect to the port: no such namespace"),
    ],
)
def test_unreachable_port_is_reported(said: bytes, words: str, tmp_path: Path) -> None:
    async def do(cluster: Cluster) -> str:
        passage = await passages.forward(cluster, POD, 8080)
        with pytest.raises(Unavailable) as caught:
            await all_of(passage)
        return caught.value.message

    assert with_server(Server([b"\0\x90\x1f", b"\1\x90\x1f", b"\1" + said]), tmp_path, do) == words


def test_port_ends_when_it_is_silent_after_its_client_has_sent_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passages, "LINGERS_S", 0.05)

    async def do(cluster: Cluster) -> object:
        passage = await passages.forward(cluster, POD, 8080)
        await passage.write(b"")
        return await all_of(passage)

    assert with_server(Server([b"\0\x90\x1f", b"\0rest"], hangs_up=False), tmp_path, do) == [(OUT, b"rest")]
