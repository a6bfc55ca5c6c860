"""Real `runrig serve` processes on one database: to be started, killed, stopped, woken, and looked at."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import psutil

from runrig.domain.plan import Admit, Release
from runrig.store import SqlStore
from tests.patience import PATIENCE_S, until
from tests.replaying import replayed
from tests.worlds.command_line import Process, process, runrig, warm
from tests.worlds.http import Client, Gone
from tests.worlds.lawful import judge

NODES, GPUS = 4, 8
SPEED = 10
CLUSTER = f"""
backend: {{type: simulated, speed: {SPEED}}}
nodes: [{{name: "n{{0..{NODES - 1}}}", resources: {{gpu: {GPUS}}}}}]
pools: [{{name: team, quota: {NODES * GPUS}}}]
"""


def ask(url: str, method: str, path: str, body: object = None, headers: dict[str, str] | None = None) -> Any:
    """(status, JSON).  Raises Gone; who wants something done goes on to another server soon."""
    client = Client(urlsplit(url).netloc, headers or {}, timeout_s=PATIENCE_S if method == "GET" else 2.0)
    try:
        return client.call(method, path, body)
    except ValueError as error:
        raise Gone(repr(error)) from error
    finally:
        client.close()


class Server:
    """One process.  *log*: what it wrote."""

    def __init__(self, arguments: list[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        """*environment* None: ours.  One with PYTHONPATH has other code than that which a warm process has imported."""
        self._log = log
        self._errors = log.with_suffix(".stderr")
        with self._errors.open("a") as errors:
            self._process = _started(arguments, errors, environment)
        assert self._process.stdout is not None
        self._out = self._process.stdout
        self.url = ""

    def wait_until_up(self) -> None:
        line = self._out.readline()
        assert line, f"it did not come up: {self._errors.read_text()}\n{self.log()}"
        self.url = line.split()[4]

    def log(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def errors(self) -> str:
        return self._errors.read_text()

    @property
    def ready(self) -> bool:
        return self.says("/readyz")[0] == 200

    def says(self, path: str) -> tuple[int, Any]:
        """(0, None) if it says nothing."""
        try:
            status, answer = ask(self.url, "GET", path)
            return status, answer
        except Gone:
            return 0, None

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def stop(self) -> None:
        """SIGSTOP, and it does stand still."""
        self.send(signal.SIGSTOP)
        until(lambda: psutil.Process(self._process.pid).status() == psutil.STATUS_STOPPED)

    def committed(self, after: int) -> list[int]:
        """The revisions in its log behind its first *after* characters."""
        return [int(found) for found in re.findall(r"event=committed revision=(\d+)", self.log()[after:])]

    def wait(self) -> int:
        return self._process.wait(PATIENCE_S)

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(PATIENCE_S)
        self._out.close()


def _started(arguments: list[str], errors: IO[str], environment: Mapping[str, str] | None) -> Process:
    if environment is None or "PYTHONPATH" not in environment:
        return warm(*arguments, errors=errors, environment=environment)
    return subprocess.Popen(process(*arguments), stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)


class Site:
    """A database, a data folder that the servers of this machine share, and its servers."""

    def __init__(self, folder: Path, database: str) -> None:
        self.folder = folder
        self.database = database
        self.servers: list[Server] = []
        self._number = 0
        (folder / "cluster.yaml").write_text(CLUSTER)

    def arguments(self, *more: str) -> list[str]:
        """Arguments of `runrig`, with its own config file and log."""
        self._number += 1
        file = self.folder / f"serve{self._number}.yaml"
        file.write_text(
            f"database: {self.database!r}\ndata: data\nlisten: 127.0.0.1:0\nbackend: simulated\ncluster: cluster.yaml\n"
            f"log_file: serve{self._number}.log\n"
        )
        file.chmod(0o600)
        return ["serve", "--config", str(file), *more]

    def admin(self) -> str:
        """The token of the first administrator."""
        made = runrig(*self.arguments("--init-admin", "ann"))
        assert made.code == 0, made.err
        return made.out.strip()

    def spawn(self) -> Server:
        arguments = self.arguments()
        server = Server(arguments, self.folder / f"serve{self._number}.log")
        self.servers.append(server)
        return server

    def start(self, count: int) -> list[Server]:
        """Starts that many more at once and returns when they listen."""
        found = [self.spawn() for _ in range(count)]
        for each in found:
            each.wait_until_up()
        return found

    def forget(self, server: Server) -> None:
        server.end()
        self.servers.remove(server)

    def leader(self) -> Server:
        until(lambda: any(each.ready for each in self.servers), said=self.logs)
        return next(each for each in self.servers if each.ready)

    def others(self, server: Server) -> list[Server]:
        return [each for each in self.servers if each is not server]

    def logs(self) -> str:
        return "\n".join(f"{each.url}\n{each.log()[-3000:]}" for each in self.servers)

    def close(self) -> None:
        for each in self.servers:
            each.end()
        self.servers.clear()

    @contextmanager
    def store(self) -> Iterator[SqlStore]:
        found = SqlStore.look(self.database)
        try:
            yield found
        finally:
            found.close()

    def check_log(self) -> None:
        """When nobody works any more: the log gives the state, is lawful, and never was more admitted than there is, or anything twice."""
        self.close()
        with self.store() as store:
            assert replayed(store).rows() == store.load()
            _check_admissions(store)
        judge(self.database)


@contextmanager
def site(folder: Path, database: str) -> Iterator[Site]:
    found = Site(folder, database)
    try:
        yield found
    finally:
        for each in found.servers:
            os.kill(each._process.pid, signal.SIGCONT) if each._process.poll() is None else None
        found.close()


def _check_admissions(store: SqlStore) -> None:
    admitted: set[str] = set()
    for event in store.log.events():
        if isinstance(event.action, Admit):
            assert event.action.gang not in admitted, (
                f"{event.action.gang} is admitted twice, in revision {event.revision}"
            )
            admitted.add(event.action.gang)
        elif isinstance(event.action, Release):
            admitted.discard(event.action.gang)
        assert len(admitted) <= NODES * GPUS
