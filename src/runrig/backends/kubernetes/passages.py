"""Connections to a pod: WebSockets to the API server, in Kubernetes' frames, whose first byte is the channel.

Programs use `v5.channel.k8s.io`, which can close stdin. Ports use `v4.channel.k8s.io`, which cannot; there each channel
begins with the port number.
"""

import asyncio
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from os import terminal_size
from typing import Any
from urllib.parse import quote, urlencode

import httpx2
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.typing import Subprotocol

from runrig.backends.kubernetes import answers
from runrig.backends.kubernetes.answers import ApiRefusal
from runrig.backends.kubernetes.cluster import Cluster
from runrig.backends.kubernetes.names import Object
from runrig.domain.errors import Conflict, InvalidInput, RunrigError, Unavailable
from runrig.ports.backend import ERR, OUT, Passage, Program

CONNECTS_S = 30.0
LONGEST_COMMAND = 64 * 1024
LINGERS_S = 30.0
"""Seconds a port can be silent after its client has sent everything, because the pod cannot be sent an end of input."""
NOT_FOUND, NOT_STARTED = 127, 126
"""Exit codes of a shell for a command that does not exist, and for one that cannot be started."""
_EXEC, _PORT = Subprotocol("v5.channel.k8s.io"), Subprotocol("v4.channel.k8s.io")
_STDIN, _STATUS, _RESIZE, _CLOSE = 0, 3, 4, 255
_LARGEST = 1 << 20
_NUMBER = 2
"""Bytes of a port number."""
_END_OF_INPUT = b"\x04"
_INTERRUPT = b"\x03"
"""As read by a terminal."""
_CLOSES_S = 1.0
_RIGHTS = "deploy/kubernetes/rbac-sessions.yaml"
_NOT_RUN = re.compile(r"error executing command in container: (.*)", re.DOTALL)
_REFUSED = "connection refused"
_NO_SUCH = ("executable file not found", "no such file or directory")


async def enter(cluster: Cluster, pod: Object, container: str, program: Program) -> "PodProgram":
    """Starts *program* in *container* of *pod*, on a terminal of its size if it has one.

    Raises Conflict, InvalidInput, Unavailable or ServerFault.
    """
    command, has_terminal = _checked(program.command), program.terminal is not None
    streams = {"stdin": True, "stdout": True, "stderr": not has_terminal, "tty": has_terminal}
    query = [("container", container), *(("command", word) for word in command)]
    query += [(name, "true") for name, is_wanted in streams.items() if is_wanted]
    found = PodProgram(cluster.url, await _connected(cluster, pod, f"exec?{urlencode(query)}", _EXEC), has_terminal)
    if program.terminal is not None:
        await found.resize(program.terminal)
    return found


async def forward(cluster: Cluster, pod: Object, port: int) -> "PodPort":
    """As `enter`."""
    return PodPort(await _connected(cluster, pod, f"portforward?ports={port}", _PORT))


def _checked(command: tuple[str, ...]) -> tuple[str, ...]:
    try:
        size = sum(len(word.encode()) + 1 for word in command)
    except UnicodeEncodeError:
        raise InvalidInput.one("the command is not valid Unicode", "command") from None
    if any("\0" in word for word in command):
        raise InvalidInput.one("the command contains a NUL character", "command")
    if size > LONGEST_COMMAND:
        raise InvalidInput.one(f"the command is too long ({size} bytes, maximum {LONGEST_COMMAND})", "command")
    return command


async def _connected(cluster: Cluster, pod: Object, path: str, protocol: Subprotocol) -> ClientConnection:
    meta, logins, refused = pod["metadata"], cluster.logins(), httpx2.Response(401)
    place = f"{cluster.url}/api/v1/namespaces/{quote(meta['namespace'])}/pods/{quote(meta['name'])}"
    while (login := await asyncio.to_thread(next, logins, None)) is not None:
        try:
            connection = await connect(
                f"{place}/{path}".replace("http", "ws", 1),
                subprotocols=[protocol],
                additional_headers={"Authorization": login} if login else None,
                ssl=cluster.tls,
                compression=None,
                max_size=_LARGEST,
                open_timeout=CONNECTS_S,
                ping_interval=None,  # The API server does not answer pings while it waits for a slow program to read.
            )
        except InvalidStatus as error:
            said = error.response
            refused = httpx2.Response(
                said.status_code, headers=list(said.headers.raw_items()), content=bytes(said.body or b"")
            )
            if refused.status_code != httpx2.codes.UNAUTHORIZED:
                break
        except (OSError, InvalidHandshake, EOFError) as error:
            raise Unavailable(f"the API server {cluster.url} does not respond: {str(error) or 'timed out'}") from None
        else:
            # Without a socket everything has been sent.
            if (there := connection.transport.get_extra_info("socket")) is not None:
                answers.probe(there)
            return connection
    raise _in_words(answers.refused(refused), f"pods/{path.partition('?')[0]}")


def _in_words(refusal: RunrigError | ApiRefusal, right: str) -> RunrigError:
    if isinstance(refusal, RunrigError):
        return refusal
    if refusal.status == httpx2.codes.FORBIDDEN:
        return Conflict(
            f"runrig does not have permission to enter tasks on this cluster: {refusal.message}. Grant it the optional permission "
            f"to get and create {right} ({_RIGHTS}, docs/kubernetes.md)"
        )
    return Conflict(f"cannot enter the pod: {refusal.message}")


class PodProgram:
    """A program started by the container runtime next to that of the task."""

    def __init__(self, url: str, connection: ClientConnection, has_terminal: bool) -> None:
        self._url = url
        self._connection = connection
        self._has_terminal = has_terminal
        self._ended: tuple[int, str] | None = None

    async def read(self) -> tuple[int, bytes] | None:
        while self._ended is None:
            try:
                channel, data = _frame(await self._connection.recv())
            except ConnectionClosed as error:
                why = "" if error.rcvd is None else f" ({error.rcvd.reason or error.rcvd.code})"
                raise Unavailable(f"the API server {self._url} closed the connection to the task{why}") from None
            if channel in (OUT, ERR) and data:
                return channel, data
            if channel == _STATUS:
                self._ended = _end(data)
        return None

    async def write(self, data: bytes) -> None:
        if self._has_terminal:
            await self._send(_STDIN, data or _END_OF_INPUT)
        elif data:
            await self._send(_STDIN, data)
        else:
            await self._send(_CLOSE, bytes((_STDIN,)))

    async def resize(self, size: terminal_size) -> None:
        if self._has_terminal:
            await self._send(_RESIZE, json.dumps({"Width": size.columns, "Height": size.lines}).encode())

    async def _send(self, channel: int, data: bytes) -> None:
        with suppress(ConnectionClosed):
            await self._connection.send(bytes((channel,)) + data)

    async def close(self) -> tuple[int, str] | None:
        """Kubernetes does not end a program when its connection closes, so this closes its input or sends two keys to
        its terminal.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSES_S):
                if self._ended is None and self._has_terminal:
                    await self._send(_STDIN, _INTERRUPT + _END_OF_INPUT)
                await self._connection.close()
        self._connection.transport.abort()
        return self._ended


def _frame(message: str | bytes) -> tuple[int | None, bytes]:
    data = message.encode() if isinstance(message, str) else message
    return (data[0] if data else None), data[1:]


def _end(text: bytes) -> tuple[int, str]:
    """Returns (exit code, why it could not start) from a Status. Raises Unavailable if it has neither."""
    try:
        said = json.loads(text)
    except ValueError:
        said = None
    said = said if isinstance(said, dict) else {}
    if said.get("status") == "Success":
        return 0, ""
    words = str(said.get("message") or text[:200].decode("utf-8", "replace"))
    for cause in _causes(said):
        if cause.get("reason") == "ExitCode" and str(cause.get("message", "")).isdigit():
            return int(cause["message"]), ""
    if not_run := _NOT_RUN.search(words):
        return (NOT_FOUND if any(each in words for each in _NO_SUCH) else NOT_STARTED), not_run[1]
    raise Unavailable(f"cannot enter the task now: {words}")


def _causes(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    details = status.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    return [each for each in causes if isinstance(each, dict)] if isinstance(causes, list) else []


class PodPort(Passage):
    """A connection that the container runtime opens inside the pod."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._begun: set[int] = set()
        self._heard_at = asyncio.get_running_loop().time()
        self._lingering: asyncio.Task[None] | None = None

    async def read(self) -> tuple[int, bytes] | None:
        with suppress(ConnectionClosed):
            while True:
                channel, data = _frame(await self._connection.recv())
                if channel is None:
                    continue
                if channel not in self._begun:
                    self._begun.add(channel)
                    data = data[_NUMBER:]
                if data and channel != _STDIN:
                    said = data.decode("utf-8", "replace")
                    raise Unavailable(
                        "nothing is listening on the port"
                        if _REFUSED in said
                        else f"cannot connect to the port: {said}"
                    )
                if data:
                    self._heard_at = asyncio.get_running_loop().time()
                    return OUT, data
        return None

    async def write(self, data: bytes) -> None:
        if not data:
            self._lingering = self._lingering or asyncio.create_task(self._linger())
            return
        with suppress(ConnectionClosed):
            await self._connection.send(bytes((_STDIN,)) + data)

    async def _linger(self) -> None:
        while (left := self._heard_at + LINGERS_S - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(left)
        await self._connection.close()

    async def close(self) -> None:
        if self._lingering is not None:
            self._lingering.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSES_S):
                await self._connection.close()
        self._connection.transport.abort()
