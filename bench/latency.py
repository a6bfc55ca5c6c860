"""How long users wait: from submit to RUNNING on a server, and for the command line to answer."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from bench.client import Client
from bench.timing import Times, timed, took

RUNRIG = str(Path(sys.executable).with_name("runrig"))
SLEEPER = """\
workflow:
  name: sleeper
  tasks:
  - name: main
    image: bench
    command: [sleep, "600"]
    resource: one
  resources:
    one: {gpu: 1, cpu: 1, memory: 64Mi}
"""
STARTS_WITHIN_S = 30


class Wait(NamedTuple):
    """*target_ms*: limit for the median."""

    name: str
    times: Times
    target_ms: int


def waits(runs: int) -> Iterator[Wait]:
    with tempfile.TemporaryDirectory(prefix="runrig-bench-") as folder, server(Path(folder)) as (url, token):
        client = Client(url, token)
        yield Wait("submit to RUNNING, over HTTP", timed(partial(_submit_to_running, client), runs), 100)
        there = {"RUNRIG_SERVER": url, "RUNRIG_DATA": folder}
        yield Wait("runrig workflow list", timed(partial(_command, "workflow", "list", **there), runs), 500)
        yield Wait("runrig --help", timed(partial(_command, "--help"), runs), 150)


@contextmanager
def server(data: Path, *options: str) -> Iterator[tuple[str, str]]:
    """A `runrig up`: its address and token.  At the end it is stopped with its tasks.  *options*: by default, four simulated GPUs."""
    command = [RUNRIG, "up", *(options or ("--backend", "local", "--gpus", "4")), "--data", str(data), "--port", "0"]
    with (data / "up.log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        ready = process.stdout.readline()
        if not ready:
            raise RuntimeError(f"runrig up did not start:\n{(data / 'server.log').read_text()}")
        yield json.loads((data / "server.json").read_text())["url"], (data / "token").read_text().strip()
    finally:
        process.terminate()
        process.wait(STARTS_WITHIN_S)
        assert process.stdout is not None
        process.stdout.close()


def _submit_to_running(client: Client) -> float:
    start = perf_counter()
    name = client.ask("POST", "/api/pool/default/workflow", {"file": SLEEPER})["name"]
    status = client.ask("GET", f"/api/v1/workflows/{name}/wait?for=RUNNING&timeout=20")["status"]
    seconds = perf_counter() - start
    if status != "RUNNING":
        raise RuntimeError(f"{name} is {status}")
    client.call("POST", f"/api/workflow/{name}/cancel?force=true")
    client.call("GET", f"/api/v1/workflows/{name}/wait?for=FAILED_CANCELED&timeout=20")
    return seconds


def _command(*arguments: str, **variables: str) -> float:
    run = partial(subprocess.run, check=True, capture_output=True, env=os.environ | variables)
    return took(partial(run, [RUNRIG, *arguments]))
