"""The processes of tasks whose supervisor is gone: found by the marker in their environment, with everything they started."""

import contextlib
import errno
import os
import signal
import time
from collections.abc import Collection
from pathlib import Path

from runrig.backends.local import supervisor

NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
"""Errors of opening anything while all descriptors are taken, which passes."""
MARKER = "RUNRIG_TASK_KEY"
"""Environment variable of every task: the folder of its attempt."""

_ROUNDS = 100
_PAUSE_S = 0.005


def marked(tasks: Path) -> dict[Path, list[int]]:
    """Folder of an attempt below *tasks* → its living processes, whatever their parents are now.  Reads all of /proc once.

    A process that clears its environment is still found below one that does not.
    """
    found: dict[Path, list[int]] = {}
    owner: dict[int, Path] = {}
    children: dict[int, list[int]] = {}
    for pid in (int(entry) for entry in os.listdir("/proc") if entry.isdigit()):
        fields = supervisor.stat_of(pid)
        if not fields or fields[0] in (b"Z", b"X"):
            continue
        children.setdefault(int(fields[1]), []).append(pid)
        folder = _folder(pid, tasks)
        if folder is not None:
            owner[pid] = folder
    queue = list(owner)
    while queue:
        parent = queue.pop()
        found.setdefault(owner[parent], []).append(parent)
        for pid in children.get(parent, ()):
            if pid not in owner:
                owner[pid] = owner[parent]
                queue.append(pid)
    return found


def supervisors(tasks: Path) -> dict[Path, int]:
    """Folder of an attempt below *tasks* → the process that supervises it, or is about to.  Reads all of /proc once."""
    found: dict[Path, int] = {}
    for pid in (int(entry) for entry in os.listdir("/proc") if entry.isdigit()):
        folder = supervised_by(pid)
        if folder is not None and tasks in folder.parents:
            found[folder] = pid
    return found


def supervised_by(pid: int) -> Path | None:
    """The folder of the attempt whose supervisor process *pid* is; None if it is none, or has gone.

    Raises OSError without a descriptor left: who cannot look must not say that it has gone.
    """
    try:
        words = supervisor.read(f"/proc/{pid}/cmdline").split(b"\0")
    except OSError as error:
        if error.errno in NO_DESCRIPTOR:
            raise
        return None
    is_one = len(words) > 2 and words[-3].endswith(b"/supervisor.py")  # the last one is empty
    return Path(os.fsdecode(words[-2])) if is_one else None


def kill_marked(tasks: Path, folders: Collection[Path]) -> set[Path]:
    """Kills the processes of the attempts in *folders*; returns the folders that still have some after half a second."""
    left = set(folders)
    for _ in range(_ROUNDS):
        alive = marked(tasks)
        left &= set(alive)
        if not left:
            break
        for pid in (pid for folder in left for pid in alive[folder]):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_PAUSE_S)
    return left


def _folder(pid: int, tasks: Path) -> Path | None:
    try:
        environment = supervisor.read(f"/proc/{pid}/environ")
    except OSError:
        return None
    start = f"{MARKER}={tasks}/".encode()
    values = (field for field in environment.split(b"\0") if field.startswith(start))
    value = next(values, None)
    return None if value is None else Path(os.fsdecode(value).partition("=")[2])
