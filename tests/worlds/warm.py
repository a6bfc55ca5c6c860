"""Processes of Python that have imported runrig when they start: forked from one that did, which each worker of the tests keeps.

A server is up after 0.35 s of processor time, not 1.45, and the tests start hundreds.  A process has its own arguments,
environment, folder and streams, as if it were started anew; only its command line in /proc is that of the first.
Tests of the start itself start a program anew (`tests.worlds.command_line.process`).
"""

import atexit
import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import IO, Self

LOADED = (
    "psycopg",
    "runrig.cli.main",
    "runrig.cli.commands.serve",
    "runrig.cli.commands.up",
    "runrig.wiring.serve",
    "runrig.wiring.up",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite.pysqlite",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.h11_impl",
)
_ROOT = Path(__file__).parents[2]
_LONGEST = 1 << 20
_used_s = 0.0


def used_s() -> float:
    """Processor seconds of the processes that have ended, and of those that they waited for."""
    return _used_s


class Warm:
    """Like a `subprocess.Popen` of `python -c PROGRAM ARGUMENTS`, whose stdout is a pipe, and stderr too if *errors* is None."""

    _first: "tuple[subprocess.Popen[bytes], socket.socket] | None" = None

    def __init__(
        self,
        program: str,
        arguments: list[str],
        *,
        errors: IO[str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.returncode: int | None = None
        out, its_out = os.pipe()
        self._end, its_end = os.pipe()
        self.stdout: IO[str] = os.fdopen(out)
        self.stderr: IO[str] | None = None
        its_errors = os.dup(errors.fileno()) if errors else -1
        if errors is None:
            err, its_errors = os.pipe()
            self.stderr = os.fdopen(err)
        asked = [program, arguments, dict(os.environ if environment is None else environment), os.getcwd()]
        door = self._door()
        socket.send_fds(door, [json.dumps(asked).encode()], [its_out, its_errors, its_end])
        self.pid = int(door.recv(_LONGEST))
        for each in (its_out, its_errors, its_end):
            os.close(each)

    @classmethod
    def _door(cls) -> socket.socket:
        if cls._first is None or cls._first[0].poll() is not None:
            ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            command = [sys.executable, "-m", __name__, str(its.fileno())]
            environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}  # a process with threads had better not fork
            first = subprocess.Popen(
                command, pass_fds=[its.fileno()], stdin=subprocess.DEVNULL, env=environment, cwd=_ROOT
            )
            its.close()
            atexit.register(_close, first, ours)
            cls._first = (first, ours)
        return cls._first[1]

    def poll(self) -> int | None:
        return self._ended_within(0)

    def wait(self, timeout: float | None = None) -> int:
        """The exit status; minus the number of the signal that ended it.  Raises subprocess.TimeoutExpired."""
        ended = self._ended_within(timeout)
        if ended is None:
            raise subprocess.TimeoutExpired("python", timeout or 0)
        return ended

    def _ended_within(self, timeout: float | None) -> int | None:
        global _used_s
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._end, selectors.EVENT_READ)
                if not selector.select(timeout):
                    return None
            self.returncode, cost_s = json.loads(os.read(self._end, _LONGEST) or b"[-9, 0]")
            os.close(self._end)
            _used_s += cost_s
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """(stdout, stderr) until its end, of a process that writes less than a pipe holds."""
        self.wait(timeout)
        return self.stdout.read(), self.stderr.read() if self.stderr else ""

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # It has ended and was collected, but its end is not reported yet.
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stdout.close()
        if self.stderr is not None:
            self.stderr.close()
        self.wait()


def _close(first: "subprocess.Popen[bytes]", door: socket.socket) -> None:
    door.close()
    first.wait()


# ---------------------------------------------------------------- the first process


def _serve(door: socket.socket) -> str | None:
    """Forks whenever *door* asks.  Returns in each of the new processes, with its program; None once the tests are over."""
    woken, wakes = os.pipe()
    for each in (woken, wakes):
        os.set_blocking(each, False)
    signal.set_wakeup_fd(wakes)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for pytest
    ends: dict[int, int] = {}
    selector = selectors.DefaultSelector()
    selector.register(door, selectors.EVENT_READ)
    selector.register(woken, selectors.EVENT_READ)
    while True:
        ready = [key.fileobj for key, _ in selector.select()]
        if woken in ready:
            os.read(woken, _LONGEST)
            _bury(ends)
        if door not in ready:
            continue
        message, streams, _, _ = socket.recv_fds(door, _LONGEST, 3)
        if not message:
            return None
        pid = os.fork()
        if not pid:
            selector.close()
            for each in (door.detach(), woken, wakes, *ends.values()):
                os.close(each)
            return _become(*json.loads(message), *streams)
        out, err, ends[pid] = streams
        os.close(out)
        os.close(err)
        door.send(str(pid).encode())


def _bury(ends: dict[int, int]) -> None:
    """Tells of each child that ended how, and what it cost."""
    while ends:
        pid, status, used = os.wait4(-1, os.WNOHANG)
        if not pid:
            return
        end = ends.pop(pid)
        os.write(end, json.dumps([os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime]).encode())
        os.close(end)


def _become(
    program: str, arguments: list[str], environment: dict[str, str], folder: str, out: int, err: int, end: int
) -> str:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.dup2(out, 1)
    os.dup2(err, 2)
    for each in (out, err, end):
        os.close(each)
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - they stay open to the end
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(folder)
    sys.argv = ["-c", *arguments]
    gc.enable()
    return program


if __name__ == "__main__":
    gc.disable()
    for _name in LOADED:
        import_module(_name)
    gc.freeze()  # else each new process would look at, and so copy, all that they share
    _program = _serve(socket.socket(fileno=int(sys.argv[1])))
    if _program is not None:
        exec(compile(_program, "<string>", "exec"), {"__name__": "__main__"})
