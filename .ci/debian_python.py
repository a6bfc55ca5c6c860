"""A Python that this machine does not have, from Debian's packages, in a folder of its own. Nothing is installed on the machine."""

import subprocess
from pathlib import Path

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
SOURCE = f"deb [signed-by={KEYRING}] http://deb.debian.org/debian testing main\n"
"""Where the newest Python is, in packages that fit together, which those of sid may not. Its C library is newer than that of the
machine, so it comes along."""
LOADER = "usr/lib64/ld-linux-x86-64.so.2"
LIBRARIES = "usr/lib/x86_64-linux-gnu"


def fetched(version: str, folder: Path) -> str:
    """Returns the interpreter of *version*, unpacked in *folder*; empty if it cannot be had here."""
    try:
        return _unpacked(version, folder)
    except (OSError, subprocess.SubprocessError):
        return ""


def _unpacked(version: str, folder: Path) -> str:
    (folder / "lists/partial").mkdir(parents=True)
    (folder / "cache/archives/partial").mkdir(parents=True)
    (folder / "status").touch()  # No package is there, so that all libraries come too.
    (folder / "sources.list").write_text(SOURCE)
    places = {
        "State": folder,
        "State::status": folder / "status",
        "Cache": folder / "cache",
        "Etc::sourcelist": folder / "sources.list",
        "Etc::sourceparts": "/dev/null",
    }
    options = [f"-oDir::{name}={path}" for name, path in places.items()]
    options += ["-oAcquire::IndexTargets::deb::DEP-11::DefaultEnabled=false", "-oAcquire::Languages=none"]
    _run("apt-get", *options, "update")
    wanted = (f"python{version}", f"python{version}-venv")
    _run("apt-get", *options, "install", "--yes", "--download-only", "--no-install-recommends", *wanted)
    root = folder / "root"
    for package in sorted((folder / "cache/archives").glob("*.deb")):
        _run("dpkg", "--extract", package, root)
    python = root / f"usr/bin/python{version}"
    program = python.rename(python.with_name(f"{python.name}.program"))
    python.write_text(
        f'#!/bin/sh\nexec {root / LOADER} --library-path {root / LIBRARIES} --argv0 "$0" {program} "$@"\n'
    )
    python.chmod(0o755)
    _run(python, "-c", "import ctypes, sqlite3, ssl")
    return str(python)


def _run(*command: object) -> None:
    subprocess.run([*map(str, command)], check=True, capture_output=True, timeout=120)
