"""Tasks of a shared machine that lay hands on their own output: they lose it, and everybody else is served."""

import json
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from runrig.backends.local import LocalBackend
from tests.attack.target import Target, started
from tests.attack.wire import request, wire
from tests.backends.local.launches import end_all
from tests.patience import PATIENCE_S, until
from tests.worlds.command_line import RUN

READERS = 60
"""More than the threads of a server, so that each of them would have something to wait for."""


@contextmanager
def local(folder: Path, run: str = RUN) -> Iterator[Target]:
    """`runrig up` with real processes, none of which is left behind."""
    data = folder / "data"
    try:
        with started(["up", "--gpus", "2", "--data", str(data), "--port", "0"], folder / "stderr", run) as (running, _):
            port = int(json.loads((data / "server.json").read_text())["url"].rpartition(":")[2])
            yield Target(port, data, data / "server.log", running, {"admin": (data / "token").read_text().strip()})
    finally:
        cleaner = LocalBackend(data, 0)
        end_all(cleaner)
        cleaner.close()


def submitted(target: Target, folder: Path, script: str) -> str:
    """A workflow that has done what *script* says and goes on.  *folder*: an empty one for its notes."""
    ready = folder / "ready"
    task = {"name": "main", "image": "any", "command": ["sh", "-c", f"{script}; touch {ready}; sleep 3600"]}
    file = json.dumps({"workflow": {"name": "vandal", "tasks": [task]}})
    name = target.ok("POST", "/api/pool/default/workflow", {"file": file})["name"]
    until(ready.exists)
    return str(name)


def ends(target: Target) -> tuple[int, float]:
    """The exit code of the server, told to end, and the seconds that it took."""
    began = time.monotonic()
    target.process.send_signal(signal.SIGTERM)
    return target.process.wait(PATIENCE_S), time.monotonic() - began


def test_pipe_in_place_of_the_output_blocks_neither_readers_nor_the_shutdown(tmp_path: Path) -> None:
    with local(tmp_path) as target, ExitStack() as stack:
        name = submitted(target, tmp_path, "rm ../stdout.log; mkfifo ../stdout.log")
        for number in range(READERS):
            reader = stack.enter_context(wire(target.port))
            follow = "?follow=true" if number % 2 else ""
            reader.send(request("GET", f"/api/workflow/{name}/logs{follow}", target.headers()))
        assert target.ok("GET", f"/api/workflow/{name}/logs") == ""
        assert [each["name"] for each in target.ok("GET", "/api/workflow")["workflows"]] == [name]
        assert ends(target)[0] == 0


def test_file_that_replaces_the_output_is_not_shown(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("canary of the server")
    scripts = (
        "ln -sf {secret} ../stdout.log",
        "cd ../..; mv 0 {folder}/aside; mkdir {folder}/other; cp {secret} {folder}/other/stdout.log; ln -s {folder}/other 0",
        "rm ../stdout.log; mkdir ../stdout.log",
        "rm ../stdout.log",
    )
    with local(tmp_path) as target:
        for number, script in enumerate(scripts):
            folder = tmp_path / str(number)
            folder.mkdir()
            name = submitted(target, folder, script.format(secret=secret, folder=folder))
            for asked in ("", "?last_n_lines=1"):
                assert target.ok("GET", f"/api/workflow/{name}/logs{asked}") == ""


def test_sigterm_ends_a_server_whatever_its_threads_wait_for(tmp_path: Path) -> None:
    stuck = "import threading, time; threading.Thread(target=time.sleep, args=(1e6,)).start()"
    with local(tmp_path, f"{stuck}; from runrig.wiring import process; process.END_S = 1.0; {RUN}") as target:
        code, seconds = ends(target)
        assert (code, seconds < PATIENCE_S / 2) == (-signal.SIGALRM, True)
