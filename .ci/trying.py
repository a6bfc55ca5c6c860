"""What the scripts share that try a wheel as somebody who installs it would."""

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from time import monotonic

ROOT = Path(__file__).parent.parent
VERSION: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def step(what: str, do: Callable[[], object]) -> None:
    """Does it, and prints how long it took."""
    print(f"{what} ... ", end="", flush=True)
    before = monotonic()
    do()
    print(f"ok, {monotonic() - before:.1f} s", flush=True)


def run(*command: object, cwd: Path = ROOT, expect: tuple[int, ...] = (0,), **env: str) -> str:
    """Returns what *command* prints. Ends this program with all that it said if it has another exit code than those."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("RUNRIG_", "PYTHON"))}
    done = subprocess.run([*map(str, command)], env=clean | env, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode not in expect:
        sys.exit(f"failed\n$ {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def wheel(folder: Path, name: str = "runrig") -> Path:
    """Where the wheel of *name* is in *folder* when it is built."""
    return folder / f"{name}-{VERSION}-py3-none-any.whl"


def build_wheel(folder: Path, project: Path = ROOT) -> None:
    """Builds the wheel of *project* with the locked hatchling of this environment."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=project)


def installed(uv: object, folder: Path, *packages: object, python: object = sys.executable) -> Path:
    """Returns the folder of programs of a fresh environment of *python*, with *packages* and all that they ask for."""
    run(uv, "venv", "--quiet", "--python", python, folder)
    run(uv, "pip", "install", "--quiet", "--python", folder / "bin/python", *packages)
    return folder / "bin"
