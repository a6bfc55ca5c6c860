"""A real `runrig up` on the local backend: to be started, asked, killed, and started again in the same data folder."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from tests.patience import PATIENCE_S
from tests.worlds.command_line import RUN
from tests.worlds.http import Client


class Server:
    """One data folder, and the process that serves it, if any."""

    def __init__(self, folder: Path, gpus: int, *, run: str = RUN) -> None:
        """*run*: the program, instead of `runrig` as it is."""
        self.data = folder / "data"
        self._errors = folder / "up.stderr"
        data = str(self.data)
        asked = ["up", "--backend", "local", "--gpus", str(gpus), "--data", data, "--port", "0"]
        self._command = [sys.executable, "-c", run, *asked]
        self._process: subprocess.Popen[str] | None = None

    def spawn(self) -> None:
        """Starts the process; it is not ready yet."""
        assert self._process is None, "one server at a time"
        with self._errors.open("a") as errors:
            self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=errors, text=True)

    def wait_until_ready(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        assert self._process.stdout.readline(), f"it did not come up:\n{self._errors.read_text()}\n{self.log()}"

    def kill(self) -> None:
        """``kill -9``, without a warning."""
        self._end(subprocess.Popen.kill)

    def terminate(self) -> None:
        self._end(subprocess.Popen.terminate)

    def _end(self, how: Callable[[subprocess.Popen[str]], None]) -> None:
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
