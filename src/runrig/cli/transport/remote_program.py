"""A program in a running task, connected to the terminal or the files of this process."""

import json
import os
import select
import signal
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import click

from runrig.cli.rendering.output import warn
from runrig.client.channel import CONNECT_S, ERR, OUT, Channel, connected
from runrig.client.failure import server_said
from runrig.client.transport import Transport, path
from runrig.domain.errors import ServerFault

_CHUNK = 32 * 1024
_HIGHEST_CODE = 255
"""The highest exit code of a process; the server's own codes are above it."""

timeout_option = click.option(
    "--connect-timeout",
    "timeout_s",
    type=click.IntRange(min=1),
    default=int(CONNECT_S),
    show_default=True,
    metavar="S",
    help="Timeout in seconds.",
)

Sink = Callable[[int, bytes], None]
Feed = Callable[[Channel], None]


@dataclass(frozen=True, slots=True)
class RemoteProgram:
    """*command* in *task* of workflow *id*."""

    client: Transport
    id: str
    task: str
    command: list[str]
    timeout_s: float

    def run(self, sink: Sink, feed: Feed, size: os.terminal_size | None = None) -> int:
        """Returns the exit code; *feed* runs in a thread. Raises the server's error, ServerFault if the connection breaks."""
        terminal = None if size is None else {"rows": size.lines or 24, "columns": size.columns or 80}
        asked = path("workflows", self.id, "tasks", self.task) + ":exec"
        answer = self.client.call(
            "POST", asked, body={"command": self.command, "terminal": terminal}, timeout_s=self.timeout_s
        )
        with connected(self.client, path("sessions", answer["key"]), self.timeout_s) as connection:
            channel = Channel(connection)
            threading.Thread(target=feed, args=(channel,), daemon=True).start()
            for stream, data in channel.read():
                sink(stream, data)
            return _exit_code(channel)


def _exit_code(channel: Channel) -> int:
    end = channel.end
    if end is None:
        raise ServerFault(f"the connection to the task was lost{f' ({channel.why})' if channel.why else ''}")
    if "exit_code" not in end:
        raise server_said(409, json.dumps(dict(end)))
    if end.get("message"):
        warn(str(end["message"]))
    return min(int(end["exit_code"]), _HIGHEST_CODE)


def collected(program: RemoteProgram) -> tuple[int, str, str]:
    """Returns (exit code, stdout, stderr) of *program*, without stdin."""
    found: dict[int, list[bytes]] = {OUT: [], ERR: []}
    code = program.run(lambda stream, data: found[stream].append(data), _close)
    out, err = (b"".join(found[stream]).decode("utf-8", "replace") for stream in (OUT, ERR))
    return code, out, err


def _close(channel: Channel) -> None:
    channel.write(b"")


def piped(program: RemoteProgram) -> int:
    """Connects stdin, stdout and stderr of this process."""
    files = {OUT: sys.stdout.buffer, ERR: sys.stderr.buffer}

    def sink(stream: int, data: bytes) -> None:
        files[stream].write(data)
        files[stream].flush()

    def feed(channel: Channel) -> None:
        while (data := os.read(sys.stdin.fileno(), _CHUNK)) and channel.write(data):
            pass
        channel.write(b"")

    return program.run(sink, feed)


def on_terminal(program: RemoteProgram) -> int:
    """Uses a terminal of the same size, which passes each key to the program immediately."""
    standard_in, standard_out = sys.stdin.fileno(), sys.stdout.fileno()

    def sink(_: int, data: bytes) -> None:
        while data:
            data = data[os.write(standard_out, data) :]

    with _resized() as resized:

        def feed(channel: Channel) -> None:
            is_open = True
            while is_open:
                ready = select.select([standard_in, resized], [], [])[0]
                if resized in ready:
                    os.read(resized, _CHUNK)
                    size = os.get_terminal_size(standard_out)
                    is_open = channel.resize(size.lines, size.columns)
                if standard_in in ready:
                    is_open = channel.write(os.read(standard_in, _CHUNK))

        with _raw(standard_in):
            return program.run(sink, feed, os.get_terminal_size(standard_out))


@contextmanager
def _raw(descriptor: int) -> Iterator[None]:
    before = termios.tcgetattr(descriptor)
    try:
        tty.setraw(descriptor)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@contextmanager
def _resized() -> Iterator[int]:
    """Yields a descriptor from which a byte can be read after each change of the terminal's size."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.signal(signal.SIGWINCH, lambda *_: None), signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(before[1])
        signal.signal(signal.SIGWINCH, before[0])
