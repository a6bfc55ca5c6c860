"""The server's side of a session: opens the socket of an attempt, sends the command, and passes on bytes.

All of it runs in the event loop. The other side is `visitor`.
"""

import asyncio
import contextlib
import os
import pty
import signal
import socket
import struct
import termios
from collections.abc import Iterable
from pathlib import Path

from runrig.backends.local import supervisor
from runrig.backends.local.processes import parent_of
from runrig.domain.errors import InvalidInput, Unavailable
from runrig.ports.backend import ERR, OUT, Passage, Program

OPENS_S = 10.0
"""Seconds a supervisor and its session process can take."""
LONGEST_COMMAND = 64 * 1024
CHUNK = 32 * 1024
"""Bytes per read."""
_VARIABLES = {"TERM": "xterm-256color"}
_PARTING_S = 1.0
"""Seconds that a session process has to kill its program."""
_ANSWER = 4096
_END_OF_INPUT = b"\x04"
"""As read by a terminal."""


async def visit(folder: Path, supervisor_pid: int, program: Program) -> Passage:
    """Starts *program* in the attempt in *folder*. Raises Unavailable if its supervisor does not respond, InvalidInput."""
    request = _request(program)
    with _Files(program.terminal) as files:
        door = await _opened(folder, supervisor_pid)
        try:
            socket.send_fds(door, [request], files.theirs)
        except OSError as error:
            door.close()
            raise Unavailable(f"the session in {folder.name} was lost ({error.strerror}). Try again") from error
        return Visit(door, files.ours())


def _request(program: Program) -> bytes:
    variables = _VARIABLES if program.terminal is not None else {}
    try:
        request = supervisor.encode_launch(0.0, program.command, variables)
    except ValueError as error:
        raise InvalidInput.one(str(error), "command") from error
    if len(request) > LONGEST_COMMAND:
        raise InvalidInput.one(f"the command is too long ({len(request)} bytes, maximum {LONGEST_COMMAND})", "command")
    return request


async def _opened(folder: Path, supervisor_pid: int) -> socket.socket:
    """Returns a connection from a session process, started by the supervisor of the attempt in *folder*."""
    loop = asyncio.get_running_loop()
    there = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)) as listener:
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(supervisor.DOOR, dir_fd=there)
            listener.bind(f"/proc/self/fd/{there}/{supervisor.DOOR}")  # The path itself may be too long for an address.
            listener.listen()
            listener.setblocking(False)
            os.kill(supervisor_pid, signal.SIGHUP)
            async with asyncio.timeout(OPENS_S):
                while True:
                    await _ready(loop, (listener.fileno(),))
                    visitor = listener.accept()[0]
                    if _parent_of(visitor) == supervisor_pid:
                        visitor.setblocking(False)
                        return visitor
                    visitor.close()
        except (OSError, TimeoutError) as error:
            raise Unavailable(
                f"the supervisor of {folder} did not open a session ({str(error) or 'no answer'}). "
                "It may be busy, about to end, or from an older version of runrig. Try again."
            ) from error
        finally:
            with contextlib.suppress(OSError):
                os.unlink(supervisor.DOOR, dir_fd=there)
            os.close(there)


def _parent_of(peer: socket.socket) -> int:
    return parent_of(struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0])


async def _ready(loop: asyncio.AbstractEventLoop, readable: Iterable[int], writable: Iterable[int] = ()) -> None:
    """Returns when one of them is ready."""
    found: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        if not found.done():
            found.set_result(None)

    for descriptor in readable:
        loop.add_reader(descriptor, tell)
    for descriptor in writable:
        loop.add_writer(descriptor, tell)
    try:
        await found
    finally:
        for descriptor in readable:
            loop.remove_reader(descriptor)
        for descriptor in writable:
            loop.remove_writer(descriptor)


class _Files:
    """The files of a program, and the server's ends: (its input, channel → output). Closes those that were not taken over."""

    def __init__(self, terminal: os.terminal_size | None) -> None:
        if terminal is None:
            (stdin, our_in), (our_out, stdout), (our_err, stderr) = os.pipe(), os.pipe(), os.pipe()
            self.theirs = [stdin, stdout, stderr]
            self._ours: tuple[int, dict[int, int]] | None = (our_in, {OUT: our_out, ERR: our_err})
        else:
            ours, theirs = pty.openpty()
            self.theirs = [theirs]
            self._ours = (ours, {OUT: ours})
            termios.tcsetwinsize(ours, (terminal.lines, terminal.columns))

    def ours(self) -> tuple[int, dict[int, int]]:
        assert self._ours is not None, "taken over once"
        taken, self._ours = self._ours, None
        return taken

    def __enter__(self) -> "_Files":
        return self

    def __exit__(self, *_: object) -> None:
        kept = () if self._ours is None else {self._ours[0], *self._ours[1].values()}
        for descriptor in (*self.theirs, *kept):
            os.close(descriptor)


class Visit:
    """The connection to a program in a session."""

    def __init__(self, door: socket.socket, files: tuple[int, dict[int, int]]) -> None:
        self._door = door
        self._input: int | None = files[0]
        self._outputs = files[1]
        self._is_terminal = files[0] in files[1].values()
        self._ended: tuple[int, str] | None = None
        self._is_over = False
        self._closed = False
        for descriptor in {files[0], *files[1].values()}:
            os.set_blocking(descriptor, False)

    async def read(self) -> tuple[int, bytes] | None:
        loop = asyncio.get_running_loop()
        while not self._closed:
            for channel, descriptor in tuple(self._outputs.items()):
                if (data := self._read_from(channel, descriptor)) is not None:
                    return channel, data
            if self._is_over:
                break  # All output has been read: no process of it is left.
            self._hear()
            if not self._is_over:
                await _ready(loop, (self._door.fileno(), *self._outputs.values()))
        return None

    def _read_from(self, channel: int, descriptor: int) -> bytes | None:
        """Returns what is available now; None if nothing is."""
        try:
            data = os.read(descriptor, CHUNK)
        except BlockingIOError:
            return None
        except OSError:  # The other side of the terminal is closed.
            data = b""
        if data:
            return data
        del self._outputs[channel]
        if descriptor != self._input:
            os.close(descriptor)
        return None

    def _hear(self) -> None:
        """Takes the exit code, if it was sent, or notes that the session process ended."""
        try:
            answer = self._door.recv(_ANSWER)
        except BlockingIOError:
            return
        except OSError:
            answer = b""
        self._is_over = True
        code, _, message = answer.partition(b"\n")
        if code.isdigit():
            self._ended = (int(code), message.decode(errors="replace"))

    async def write(self, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        if not data and not self._is_terminal:
            self._close_input()
        rest = memoryview(data or _END_OF_INPUT)
        while self._input is not None and rest:
            try:
                rest = rest[os.write(self._input, rest) :]
            except BlockingIOError:
                await _ready(loop, (), (self._input,))
            except OSError:  # The peer has closed its side.
                return

    async def resize(self, size: os.terminal_size) -> None:
        if self._is_terminal and self._input is not None:
            with contextlib.suppress(OSError):
                termios.tcsetwinsize(self._input, (size.lines, size.columns))

    def _close_input(self) -> None:
        if self._input is not None:
            os.close(self._input)
            self._input = None

    async def _killed(self) -> None:
        """Returns when the session process has killed the program, or after `_PARTING_S`.

        Only then does its input end: a shell that read the end of its input would end well, as if the user had left it.
        """
        with contextlib.suppress(OSError, TimeoutError):
            self._door.shutdown(socket.SHUT_WR)
            async with asyncio.timeout(_PARTING_S):
                await _ready(asyncio.get_running_loop(), (self._door.fileno(),))

    async def close(self) -> tuple[int, str] | None:
        if not self._closed:
            self._closed = True
            if not self._is_over:
                await self._killed()
            self._door.close()
            for descriptor in {*self._outputs.values(), *([] if self._input is None else [self._input])}:
                os.close(descriptor)
            self._outputs.clear()
            self._input = None
        return self._ended
