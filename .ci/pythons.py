"""`make pythons`: tries the wheel under each other Python that can be had, and names those that cannot.

    PYTHONPATH=. python .ci/pythons.py UV

Interpreters are those that uv finds in PATH and in the folder of pyenv; the newest also comes from Debian's packages. Packages have
the versions of uv.lock.
"""

import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

from debian_python import fetched
from tests.worlds.typed_page import type_page
from trying import ROOT, build_wheel, installed, run, wheel

SUPPORTED = ("3.11", "3.12", "3.13", "3.14")
TESTS = (
    "tests/domain",
    "tests/client",
    "tests/engine/test_cycle.py",
    "tests/store/test_sqlite.py",
    "tests/cli/test_day.py",
    "tests/cli/test_status.py",
)
"""Tests of the fast tier: values, the engine, the database, and a server with its API and commands, in 15 s."""
PAGE = ROOT / "docs/how-to/torchrun.md"
"""Typed on a server that starts real processes."""
AT_A_TIME = 2
"""Pythons: they wait for the index and for the page about as long as they work."""
LOCK = ("export", "--quiet", "--frozen", "--extra", "dev", "--no-emit-project", "--no-hashes", "--no-header")


def main(uv: str) -> None:
    others = [version for version in SUPPORTED if version != "{}.{}".format(*sys.version_info)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pythons = {version: found(uv, version) for version in others}
        newest = others[-1]
        pythons[newest] = pythons[newest] or fetched(newest, folder / "debian")
        build_wheel(folder)
        (folder / "locked.txt").write_text(run(uv, *LOCK))
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            tried = [
                pool.submit(try_python, uv, python, folder, version) for version, python in pythons.items() if python
            ]
            for each in tried:
                print(each.result(), flush=True)
    if missing := [version for version, python in pythons.items() if not python]:
        print(f"NOT TRIED, because it cannot be had here: Python {', '.join(missing)}")


def found(uv: str, version: str) -> str:
    """Returns the interpreter of *version*; empty if there is none."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    places = [str(path) for path in sorted(root.glob(f"versions/{version}.*/bin"))]
    path = os.pathsep.join([*places, os.environ["PATH"]])
    return run(uv, "python", "find", "--no-python-downloads", version, expect=(0, 2), PATH=path).strip()


def try_python(uv: str, python: str, folder: Path, version: str) -> str:
    """Types the page with the installed wheel, runs TESTS, and returns how long that took."""
    began = monotonic()
    tools = ("pytest", "pytest-timeout", "hypothesis", "httpx2", "aiosmtpd")
    needed = (f"{wheel(folder)}[postgresql,kubernetes]", *tools)
    programs = installed(uv, folder / version, "--constraint", folder / "locked.txt", *needed, python=python)
    tests = ("-p", "no:cacheprovider", "-m", "not slow and not soak", *TESTS)
    run(programs / "python", "-m", "pytest", *tests, PYTHONDONTWRITEBYTECODE="1")
    lab = folder / f"lab-{version}"
    lab.mkdir()
    if wrong := type_page(PAGE.read_text(), lab, programs):
        sys.exit(f"Python {version} failed: {PAGE.name} shows something else\n" + "\n".join(wrong))
    return f"Python {version} ... ok, {monotonic() - began:.1f} s"


if __name__ == "__main__":
    main(sys.argv[1])
