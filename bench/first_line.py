"""Time from Enter to the first line of output, and its parts: `runrig run` in a folder with a program, on a local server."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

from bench.latency import RUNRIG, server
from bench.section import Cell, against, ms

FILES, LEAST_RUNS, GOAL_MS = 200, 5, 1500
ABOUT = f"from Enter to the first line of output, from a folder of {FILES} files; the least of several runs, on the clock, in ms"
_PROGRAM = "print('first line', flush=True)\n"


def rows(runs: int) -> Iterator[dict[str, Cell]]:
    with tempfile.TemporaryDirectory(prefix="runrig-bench-") as folder:
        project, data = _project(Path(folder)), Path(folder) / "data"
        data.mkdir()
        with server(data, "--backend", "local", "--gpus", "0") as (url, _):
            there = {"RUNRIG_SERVER": url, "RUNRIG_DATA": str(data)}
            yield from _measured(project, there, max(LEAST_RUNS, runs))


def _measured(project: Path, there: dict[str, str], runs: int) -> Iterator[dict[str, Cell]]:
    program, run = ["python3", "train.py"], [RUNRIG, "run", "-g", "0"]

    def least(command: list[str], *, change: bool = False) -> float:
        return min(_first_line(command, project, there, change=change) for _ in range(runs))

    least([*run, "--", *program])  # The first run also sends all files.
    yield _row("first line, nothing changed", least([*run, "--", *program]), GOAL_MS)
    yield _row("first line, one file changed", least([*run, "--", *program], change=True), GOAL_MS)
    yield _row("first line, --code none", least([*run, "--code", "none", "--", "echo", "first line"]), GOAL_MS)
    yield _row("part: the ID, with -d", least([*run, "-d", "--", *program]), None)
    yield _row("part: runrig --help", least([RUNRIG, "--help"]), None)
    yield _row("part: the program alone", least(program), None)


def _first_line(command: list[str], project: Path, there: dict[str, str], *, change: bool) -> float:
    """Returns the seconds from the start of *command* to its first line on stdout.  *change*: edits a file first."""
    if change:
        (project / "train.py").write_text(f"{_PROGRAM}# {perf_counter()}\n")
    began = perf_counter()
    with subprocess.Popen(
        command, cwd=project, env={**os.environ, **there}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as started:
        assert started.stdout is not None
        line = started.stdout.readline()
        passed = perf_counter() - began
        started.stdout.read()
    if started.returncode or not line:
        raise RuntimeError(f"{' '.join(command)} ended with {started.returncode} and printed {line!r}")
    return passed


def _project(folder: Path) -> Path:
    project = folder / "project"
    project.mkdir()
    for number in range(FILES - 1):
        (project / f"module_{number}.py").write_text(f"value = {number}\n" * 50)
    (project / "train.py").write_text(_PROGRAM)
    return project


def _row(what: str, seconds: float, most: float | None) -> dict[str, Cell]:
    row: dict[str, Cell] = {"what": what, "clock": ms(seconds)}
    return row | against(ms(seconds), most)
