"""Programs that run as long as the harness does: each with a log of its own, and none outlives it, however it ends."""

import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_LAST_WORDS = 3000
_PATIENCE_S = 10


class Died(Exception):
    """A program ended that should run; shows the end of its log."""


class Process:
    """One program, started as often as asked.  The kernel kills it when this process dies (`setpriv --pdeathsig`)."""

    def __init__(self, name: str, command: Sequence[str | Path], log: Path, env: Mapping[str, str]) -> None:
        self.name = name
        self.log = log
        self._command = ["setpriv", "--pdeathsig", "KILL", "--", *map(str, command)]
        self._env = {**os.environ, **env}
        self._running: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._running is not None, f"{self.name} was never started"
        return self._running.pid

    def start(self) -> None:
        """Call it in the thread that stays: the kernel counts the death of the thread that started it, too."""
        with self.log.open("ab") as log:
            self._running = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._env, start_new_session=True
            )

    def check(self) -> None:
        """Raises Died."""
        assert self._running is not None, f"{self.name} was never started"
        if self._running.poll() is not None:
            raise Died(f"{self.name} ended with {self._running.returncode}; {self.log} ends with:\n{self.last_words()}")

    def last_words(self) -> str:
        return self.log.read_text(errors="replace")[-_LAST_WORDS:]

    def kill(self) -> None:
        """At once, as a machine would die."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """In order; killed if it does not listen."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        if self._running is None:
            return
        self._running.send_signal(number)
        try:
            self._running.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._running.kill()
            self._running.wait()


def free_ports(count: int) -> list[int]:
    """Returns different free ports of loopback.  Somebody else may take one first: then the program that wanted it says so."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def quiet_port() -> int:
    """Returns a port for later: free on all of loopback, and none that the kernel gives to somebody who asks for any."""
    first = 20000 + os.getpid() % 10000
    for port in range(first, first + 1000):
        try:
            with socket.create_server(("0.0.0.0", port)):
                return port
        except OSError:
            continue
    raise OSError(f"no port from {first} to {first + 999} is free")
