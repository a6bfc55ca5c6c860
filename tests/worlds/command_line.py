"""The command line, run in this process or as a process of its own, and the files that are given to it."""

import io
import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from runrig.cli.main import run


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def runrig(*args: str, env: Mapping[str, str] | None = None, stdin: str = "") -> Done:
    """One command line in this process, with no server, token or zone but those of *env*."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RUNRIG_")}
    clean |= {"RUNRIG_DATA": "/nonexistent", **(env or {})}
    out, err = io.StringIO(), io.StringIO()
    text_in = io.TextIOWrapper(io.BytesIO(stdin.encode()))
    with (
        patch.dict(os.environ, clean, clear=True),
        patch("sys.stdin", text_in),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        code = run(args)
    return Done(code, out.getvalue(), err.getvalue())


def process(*args: str) -> list[str]:
    """The command of the same, as a process of its own."""
    return [sys.executable, "-c", "from runrig.cli.main import main; main()", *args]


def written(folder: Path, text: str, name: str = "wf.yaml") -> str:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return str(file)


def lines(text: str) -> Sequence[str]:
    return text.strip("\n").split("\n")
