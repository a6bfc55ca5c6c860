"""The mirror: a process with a copy of the state, which answers slow questions without the server's lock and
interpreter.

Started by the first question, and again after it died. Without it, a question immediately uses the server's own state.
"""

import json
import logging
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

from runrig.service.mirror.answering import READY, Answer, Question
from runrig.service.runtime import logs

ANSWER_S = 10.0
"""Default maximum seconds for an answer."""
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
"""Maximum seconds before a dead mirror is restarted; the pause grows until one answers."""
END_S = 2.0

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Absent(Exception):
    """There is no mirror, or it died."""


class GivenUp(Exception):
    """The answer took too long, or is no longer needed."""


class _Running:
    """A process, and *door*, which passes questions to it."""

    def __init__(self, process: "subprocess.Popen[bytes]", door: socket.socket) -> None:
        self.process = process
        self.door = door
        self.ready = False

    def look(self) -> None:
        """Checks whether it is ready."""
        if not self.ready:
            with suppress(BlockingIOError):
                self.ready = self.door.recv(len(READY), socket.MSG_DONTWAIT) == READY

    def end(self) -> None:
        """Closes its door, after which it ends by itself, or kills it in the middle of an answer."""
        self.door.close()
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Asked(Generic[T]):
    """A question that was sent."""

    def __init__(self, connection: Connection, line: socket.socket) -> None:
        self._connection = connection
        self._line = line
        self._hung_up = False

    def answer(self, within_s: float = ANSWER_S) -> tuple[T, int]:
        """Returns (the answer, its revision). Raises Absent, and GivenUp."""
        try:
            if not self._connection.poll(within_s):
                raise GivenUp(f"no answer within {within_s:g} s")
            found: Answer[Any] = self._connection.recv()
        except (EOFError, OSError) as error:
            raise GivenUp("no longer needed") if self._hung_up else Absent("it died") from error
        if self._hung_up:  # The response was already sent.
            raise GivenUp("no longer needed")
        if found.fault:
            _log.error("event=mirror_failed\n%s", found.fault)
            raise Absent("it failed")
        value: Any = found.value
        return value, found.revision

    def hang_up(self) -> None:
        """Cancels the question: `answer` raises GivenUp, and its branch is ended. Thread-safe."""
        self._hung_up = True
        self._line.shutdown(socket.SHUT_RDWR)


class Mirror:
    """*command*: starts its process, followed by the number of a descriptor. *settings*: sent to that process first.

    Thread-safe.
    """

    def __init__(self, command: Sequence[str], settings: Mapping[str, str | bool]) -> None:
        self._command = command
        self._settings = settings
        self._lock = threading.Lock()
        self._running: _Running | None = None
        self._pause_s = FIRST_PAUSE_S
        self._not_before = 0.0
        self._closed = False

    @contextmanager
    def asking(self, question: Question[T]) -> Iterator[Asked[T]]:
        """Raises Absent."""
        ours, theirs = socket.socketpair()
        with ours, Connection(os.dup(ours.fileno())) as connection:
            with theirs:
                self._send(theirs.fileno())
            try:
                connection.send(question)
            except OSError as error:
                raise Absent("it died") from error
            yield Asked(connection, ours)

    def _send(self, descriptor: int) -> None:
        """Passes *descriptor* through the door. Raises Absent."""
        with self._lock:
            running = self._there()
            if not running.ready:
                raise Absent("it is still loading")
            try:
                socket.send_fds(running.door, [b"?"], [descriptor])
            except OSError as error:
                self._lost(running)
                raise Absent("it died") from error
            self._pause_s = FIRST_PAUSE_S

    def _there(self) -> _Running:
        """Returns the process; starts one if there is none. Raises Absent."""
        if self._running is not None and self._running.process.poll() is not None:
            self._lost(self._running)
        if self._running is None:
            if self._closed or time.monotonic() < self._not_before:
                raise Absent("there is none")
            self._running = self._started()
        self._running.look()
        return self._running

    def _started(self) -> _Running:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(  # noqa: S603 - a fixed command
                [*self._command, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the server.
                env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # Processes with threads must not fork.
            )
        ours.send(json.dumps(self._settings).encode())
        _log.info("%s", logs.line("mirror_started", process=process.pid))
        return _Running(process, ours)

    def _lost(self, running: _Running) -> None:
        running.end()
        self._running = None
        self._not_before = time.monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        _log.warning("%s", logs.line("mirror_lost", process=running.process.pid, status=running.process.returncode))

    def close(self) -> None:
        """Ends its process."""
        with self._lock:
            self._closed = True
            if self._running is not None:
                self._running.end()
                self._running = None
