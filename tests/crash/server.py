"""A real `runrig up` on the local backend: to be started, asked, killed, and started again in the same data folder."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from tests.patience import PATIENCE_S
from tests.worlds.command_line import RUN, Process, running
from tests.worlds.http import Client


class Server:
    """One data folder, and the process that serves it, if any."""

    def __init__(self, folder: Path, gpus: int, *, run: str = RUN) -> None:
        """*run*: the program, instead of `runrig` as it is."""
        self.data = folder / "data"
        self._errors = folder / "up.stderr"
        data = str(self.data)
        self._run = run
        self._arguments = ["up", "--backend", "local", "--gpus", str(gpus), "--data", data, "--port", "0"]
        self._process: Process | None = None

    def spawn(self) -> None:
        """Starts the process; it is not ready yet."""
        assert self._process is None, "one server at a time"
        with self._errors.open("a") as errors:
            self._process = running(self._arguments, errors, self._run)

    def wait_until_ready(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        assert self._process.stdout.readline(), f"it did not come up:\n{self._errors.read_text()}\n{self.log()}"

    def kill(self) -> None:
        """``kill -9``, without a warning."""
        self._end(lambda process: process.kill())

    def terminate(self) -> None:
        self._end(lambda process: process.terminate())

    def _end(self, how: Callable[[Process], None]) -> None:
        if self._process is not None:
            how(self._process)
            self._process.wait(PATIENCE_S)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def log(self) -> str:
        path = self.data / "server.log"
        return path.read_text() if path.exists() else ""

    def client(self) -> Client:
        address = urlsplit(json.loads((self.data / "server.json").read_text())["url"]).netloc
        return Client(address, {"Authorization": f"Bearer {(self.data / 'token').read_text().strip()}"})

    def processes(self) -> list[tuple[int, str]]:
        """What lives of its tasks and their supervisors, by the marker of their environment or their command line."""
        found = []
        for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
            try:
                environment = Path(f"/proc/{pid}/environ").read_bytes()
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            tasks = str(self.data / "tasks").encode()
            if b"RUNRIG_TASK_KEY=" + tasks in environment or tasks in command:
                found.append((pid, command.replace(b"\0", b" ").decode(errors="replace")))
        return found
