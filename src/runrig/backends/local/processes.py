"""Finds processes of attempts in /proc, and starts supervisors.

Supervisors are recognised by their arguments, tasks by a variable, and other processes by their ancestors.
"""

import contextlib
import errno
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from runrig.backends.local import supervisor

NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
"""Errors of opening a file when all descriptors are in use; temporary."""
MARKER = "RUNRIG_TASK_KEY"
"""Environment variable of every task: the folder of its attempt."""

FILES = resource.getrlimit(resource.RLIMIT_NOFILE)
"""Limit of open files for tasks: the server's original one, because it raises its own."""

ROUNDS = 100
_PAUSE_S = 0.005
_DEPTH = 6
"""Parts of the shortest path of an attempt: ``/DATA/tasks/WORKFLOW/TASK/RETRY``."""

Belongs = Callable[[int, Path], bool]
"""(pid, folder of its attempt) → whether to include it."""


def of_attempts(belongs: Belongs) -> dict[Path, list[int]]:
    """Returns folder of an attempt → its live processes, whatever their parents, the supervisor first. Reads all of
    /proc once.

    Also finds a process that clears its environment, below one that does not.
    """
    found: dict[Path, list[int]] = {}
    owner: dict[int, Path] = {}
    children: dict[int, list[int]] = {}
    for pid in _pids():
        fields = supervisor.stat_of(pid)
        if not fields or fields[0] in (b"Z", b"X"):
            continue
        children.setdefault(int(fields[1]), []).append(pid)
        folder = supervised_by(pid) or _marked_with(pid)
        if folder is not None and belongs(pid, folder):
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


def abandoned(pid: int, folder: Path) -> bool:
    """Whether the data folder of the attempt was deleted, as *pid* sees files: no server can manage the attempt
    again.

    A moved data folder still exists: the supervisor works in it, under its new name.
    """
    named = len(folder.parts) >= _DEPTH and folder.parts[-4] == "tasks" and folder.name.isdigit()
    if not named or os.environ.get(MARKER) == str(folder):  # In the second case this server runs in that task.
        return False
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.getuid():
            return False
        os.stat(f"/proc/{pid}/root{folder.parents[3] / 'live'}")
    except (FileNotFoundError, NotADirectoryError):
        with contextlib.suppress(OSError):  # The process has ended.
            os.stat(f"/proc/{pid}/root/")
            above = _supervisor_above(pid, folder)
            return above is None or os.stat(f"/proc/{above}/cwd").st_nlink == 0
    except OSError:
        pass
    return False


def start_supervisor(folder: Path) -> int:
    """Starts a supervisor of the attempt in *folder* in a new session; returns its pid.

    It inherits no open file except one for its error messages.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
    complaints = os.open(folder / "supervisor.log", flags, 0o600)
    try:
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", "-B", supervisor.__file__, str(folder)],
            {},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
                (os.POSIX_SPAWN_DUP2, 0, 1),
                (os.POSIX_SPAWN_DUP2, complaints, 2),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
        )
        with contextlib.suppress(OSError):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, FILES)
        return pid
    finally:
        os.close(complaints)


def reaped(pid: int, folder: Path) -> bool:
    """Whether supervisor *pid* of the attempt in *folder* has ended."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:  # An earlier server started it, or its exit status was collected elsewhere.
        return supervised_by(pid) != folder


def supervisors(tasks: Path) -> dict[Path, int]:
    """Returns folder of an attempt below *tasks* → its supervisor, running or starting. Reads all of /proc once.

    A fork of a supervisor has its arguments until it executes a command, so only the parent counts.
    """
    found: dict[Path, list[int]] = {}
    for pid in _pids():
        folder = supervised_by(pid)
        if folder is not None and tasks in folder.parents:
            found.setdefault(folder, []).append(pid)
    return {
        folder: next((pid for pid in pids if parent_of(pid) not in pids), pids[0]) for folder, pids in found.items()
    }


def _pids() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def parent_of(pid: int) -> int:
    """Returns 0 for a process that has ended."""
    fields = supervisor.stat_of(pid)
    return int(fields[1]) if fields else 0


def supervised_by(pid: int) -> Path | None:
    """Returns the folder of the attempt that process *pid* supervises; None if it is not a supervisor or has ended.

    Raises OSError if no descriptor is free: then it is unknown whether it has ended.
    """
    try:
        words = supervisor.read(f"/proc/{pid}/cmdline").split(b"\0")
    except OSError as error:
        if error.errno in NO_DESCRIPTOR:
            raise
        return None
    is_one = len(words) > 2 and words[-3].endswith(b"/supervisor.py")  # The last entry is empty.
    return Path(os.fsdecode(words[-2])) if is_one else None


def kill_all(belongs: Belongs, rounds: int = ROUNDS) -> set[Path]:
    """Kills matching processes of attempts; returns the folders that still have some after *rounds* of 5 ms."""
    alive: dict[Path, list[int]] = {}
    for _ in range(rounds):
        alive = of_attempts(belongs)
        if not alive:
            return set()
        for pid in (pid for each in alive.values() for pid in each):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_PAUSE_S)
    return set(alive)


def _supervisor_above(pid: int, folder: Path) -> int | None:
    """Returns the supervisor of the attempt in *folder*, if it is *pid* or an ancestor: no process leaves that tree."""
    while pid > 1:
        if supervised_by(pid) == folder:
            return pid
        pid = parent_of(pid)
    return None


def _marked_with(pid: int) -> Path | None:
    try:
        environment = supervisor.read(f"/proc/{pid}/environ")
    except OSError:
        return None
    start = f"{MARKER}=/".encode()
    values = (field for field in environment.split(b"\0") if field.startswith(start))
    value = next(values, None)
    return None if value is None else Path(os.fsdecode(value).partition("=")[2])
