"""How soon the command line answers, including its start, with a server that has 10,000 workflows of the user."""

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from bench.client import Client
from bench.latency import RUNRIG, server
from bench.section import Cell, against, ms

WORKFLOWS, AT_ONCE, NODES = 10_000, 1_000, 128
LEAST_RUNS = 10
ABOUT = f"the command line with a server that has {WORKFLOWS:,} workflows; the minimum of several runs, wall time and processor time, in ms"
_CLUSTER = f"""
backend: {{name: lab, type: simulated}}
nodes: [{{name: "n{{000..{NODES - 1}}}", resources: {{gpu: 8, cpu: 96, memory: 1Ti}}}}]
pools: [{{name: vision, quota: {8 * NODES}}}]
"""
_FILE = """
workflow:
  name: train
  tasks: [{name: main, image: any, command: [x], duration: 90000, resource: one}]
  resources: {one: {gpu: 8}}
"""


class Run(NamedTuple):
    """In seconds.  *used*: of processors, by the program alone."""

    passed: float
    used: float


def rows(runs: int, workflows: int = WORKFLOWS) -> Iterator[dict[str, Cell]]:
    runs = max(LEAST_RUNS, runs)
    bare = _least([sys.executable, "-c", "pass"], {}, runs)
    yield _row("the interpreter alone", bare, None)
    yield _row("runrig --help", _least([RUNRIG, "--help"], {}, runs), 150)
    typed = {"_RUNRIG_COMPLETE": "bash_complete", "COMP_WORDS": "runrig why train-1", "COMP_CWORD": "2"}
    away = _least([RUNRIG], typed | {"RUNRIG_SERVER": "http://127.0.0.1:1"}, runs)
    yield _row("completion, without a server", away, 150 + ms(bare.passed))
    with tempfile.TemporaryDirectory(prefix="runrig-bench-") as folder:
        file = Path(folder) / "cluster.yaml"
        file.write_text(_CLUSTER)
        with server(Path(folder), "--cluster", str(file)) as (url, token):
            with closing(Client(url, token)) as client:
                _fill(client, workflows)
            there = {"RUNRIG_SERVER": url, "RUNRIG_DATA": folder}
            for words in ("status", "list", f"why train-{workflows}", "logs train-1"):
                yield _row(f"runrig {words}", _least([RUNRIG, *words.split()], there, runs), 250)
            yield _row("completion of an ID", _least([RUNRIG], typed | there, runs), 150 + ms(bare.passed))


def _fill(client: Client, workflows: int) -> None:
    for first in range(0, workflows, AT_ONCE):
        body = {"pool": "vision", "workflows": [{"file": _FILE}] * min(AT_ONCE, workflows - first)}
        client.ask("POST", "/api/v1/workflows:batch", body)
    client.call("GET", "/api/v1/workflows/train-1/wait?for=RUNNING&timeout=20")


def _least(command: list[str], variables: Mapping[str, str], runs: int) -> Run:
    found = [_one(command, variables) for _ in range(runs)]
    return Run(min(each.passed for each in found), min(each.used for each in found))


def _one(command: list[str], variables: Mapping[str, str]) -> Run:
    before, began = _used(), perf_counter()
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **variables})
    return Run(perf_counter() - began, _used() - before)


def _used() -> float:
    """Seconds of processors of programs that have ended; a running server is not included."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def _row(what: str, run: Run, most: float | None) -> dict[str, Cell]:
    row: dict[str, Cell] = {"what": what, "clock": ms(run.passed), "processor": ms(run.used)}
    return row | against(ms(run.passed), most)
