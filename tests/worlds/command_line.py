"""The command line, run in this process or as a process of its own, and servers that it starts."""

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from unittest.mock import patch

from runrig.cli.main import run
from tests.patience import PATIENCE_S
from tests.tiers import only_slow
from tests.worlds.warm import Warm

_OF_TERMINALS = {"COLUMNS", "LINES", "TERM", "NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"}
"""What the shell that runs the tests may say of its own terminal."""

RUN = "import sys; from runrig.__main__ import main; sys.argv[0] = 'runrig'; main()"
"""What Python runs as a process of its own."""


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Terminal(io.StringIO):
    """What a command prints, which it takes for a terminal."""

    def isatty(self) -> bool:
        return True


class Typed(io.TextIOWrapper):
    """What somebody types at a terminal, which shows it."""

    def __init__(self, text: str) -> None:
        super().__init__(io.BytesIO(text.encode()))

    def isatty(self) -> bool:
        return True

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]
        line = super().readline(size)
        sys.stdout.write(line)
        return line


def runrig(
    *args: str, env: Mapping[str, str] | None = None, stdin: str = "", width: int | None = None, typed: str = ""
) -> Done:
    """One command line in this process, with no server, token or zone but those of *env*.

    *width*: stdout is a terminal of so many columns, without colours; None: a file.
    *typed*: what is typed at stdin, which is a terminal then.
    """
    ours = {name for name in os.environ if name.startswith("RUNRIG_")}
    clean = {name: os.environ[name] for name in os.environ.keys() - ours - _OF_TERMINALS}
    clean |= {"RUNRIG_DATA": "/nonexistent", **(env or {})}
    clean |= {} if width is None else {"COLUMNS": str(width), "TERM": "xterm", "NO_COLOR": "1"}
    out, err = Terminal() if width is not None else io.StringIO(), io.StringIO()
    text_in = Typed(typed) if typed else io.TextIOWrapper(io.BytesIO(stdin.encode()))
    with (
        patch.dict(os.environ, clean, clear=True),
        patch("sys.stdin", text_in),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        code = run(args)
    return Done(code, out.getvalue(), err.getvalue())


def process(*args: str) -> list[str]:
    """The command of the same, as a process of its own, which only a slow test may start."""
    only_slow("a runrig process")
    return [sys.executable, "-c", RUN, *args]


Process = Warm | subprocess.Popen[str]


def warm(*args: str, errors: IO[str] | None = None, environment: Mapping[str, str] | None = None) -> Warm:
    """A process of the same, which need not import runrig any more."""
    only_slow("a runrig process")
    return Warm(RUN, [*args], errors=errors, environment=environment)


def ended(*args: str) -> Done:
    """What a process of the same says that soon ends by itself."""
    with warm(*args) as child:
        out, err = child.communicate(PATIENCE_S)
    return Done(child.wait(), out, err)


def running(args: list[str], errors: IO[str], run: str = RUN) -> "Process":
    """The same.  *run*: another program, which is started anew because it may change what is imported."""
    only_slow("a runrig process")
    if run == RUN:
        return Warm(run, args, errors=errors)
    return subprocess.Popen([sys.executable, "-c", run, *args], stdout=subprocess.PIPE, stderr=errors, text=True)


@dataclass(frozen=True)
class Up:
    """A server that is up: its data folder, its process, and the line that it said."""

    data: Path
    child: Warm
    said: str

    def runrig(self, *args: str, stdin: str = "") -> Done:
        return runrig(*args, env={"RUNRIG_DATA": str(self.data)}, stdin=stdin)

    def json(self, *args: str) -> Any:
        return self.runrig(*args, "-t", "json").json

    def workflows(self) -> int:
        return len(self.json("workflow", "list", "--all", "-c", "1000")["workflows"])


@contextmanager
def up(data: Path, *args: str) -> Iterator[Up]:
    """`runrig up` on a free port with its data in *data*; at the end it is asked to stop."""
    with warm("up", "--data", str(data), "--port", "0", *args) as child:
        try:
            yield Up(data, child, child.stdout.readline())
        finally:
            if child.poll() is None:
                child.send_signal(signal.SIGTERM)
            child.wait(timeout=PATIENCE_S)


def written(folder: Path, text: str, name: str = "wf.yaml") -> str:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return str(file)


def lines(text: str) -> Sequence[str]:
    return text.strip("\n").split("\n")
