"""`make tutorial`: from nothing to the end of the tutorial, as somebody would who has Python and a wheel. Prints how long it takes.

    PYTHONPATH=. python .ci/tutorial.py

Nothing is taken from a cache: uv, and all that the wheel asks for, comes from the index. Each command of the page is `uvx --from WHEEL`.
"""

import os
import sys
import tempfile
from pathlib import Path
from time import monotonic

from tests.worlds.typed_page import type_page
from trying import ROOT, run, step, wheel

PAGE = ROOT / "docs/tutorial/README.md"
LIMIT_S = 300


def main() -> None:
    began = monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["UV_CACHE_DIR"] = str(folder / "cache")
        tools, programs = folder / "tools/bin", folder / "programs"
        step("get uv", lambda: get_uv(tools))
        step("build the wheel", lambda: run(tools / "uv", "build", "--quiet", "--wheel", "-o", folder, ROOT))
        step("start it with uvx", lambda: write_program(programs, f"{tools}/uvx --quiet --from {wheel(folder)} runrig"))
        step(f"type {PAGE.relative_to(ROOT)}", lambda: type_tutorial(folder / "lab", programs))
    took = monotonic() - began
    print(f"From nothing to the end of the tutorial: {took:.0f} s of at most {LIMIT_S} s.")
    if took > LIMIT_S:
        sys.exit("too slow")


def get_uv(tools: Path) -> None:
    run(sys.executable, "-m", "venv", tools.parent)
    run(tools / "pip", "install", "--quiet", "--no-cache-dir", "--require-hashes", "-r", ROOT / ".ci/uv.txt")


def write_program(programs: Path, command: str) -> None:
    """`runrig`, which is *command*; its first start brings everything."""
    programs.mkdir()
    program = programs / "runrig"
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    program.chmod(0o755)
    run(program, "version")


def type_tutorial(lab: Path, programs: Path) -> None:
    lab.mkdir()
    if wrong := type_page(PAGE.read_text(), lab, programs):
        sys.exit("failed: the page shows something else\n" + "\n".join(wrong))


if __name__ == "__main__":
    main()
