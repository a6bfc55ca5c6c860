"""The processes of attempts, found in /proc, and the start of supervisors.

Supervisors are known by their arguments, tasks by a marker in their environment, and all else by being below one of them.
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
"""Errors of opening anything while all descriptors are taken, which passes."""
MARKER = "RUNRIG_TASK_KEY"
"""Environment variable of every task: the folder of its attempt."""

FILES = resource.getrlimit(resource.RLIMIT_NOFILE)
"""Open files that tasks may have: as we were started, because a server raises its own limit."""

ROUNDS = 100
_PAUSE_S = 0.005
_DEPTH = 6
"""Parts of the shortest path of an attempt: ``/DATA/tasks/WORKFLOW/TASK/RETRY``."""

Belongs = Callable[[int, Path], bool]
"""(a process, the folder of the attempt that it names) → whether it is one of those that are looked for."""


def of_attempts(belongs: Belongs) -> dict[Path, list[int]]:
    """Folder of an attempt → its living processes, whatever their parents are now, its supervisor first.  Reads all of /proc once.

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
    """True if the data folder of the attempt is gone, as *pid* sees files: no server can ever take the attempt on again.

    A data folder that was moved has not gone: the supervisor works in it, under its new name.
    """
    named = len(folder.parts) >= _DEPTH and folder.parts[-4] == "tasks" and folder.name.isdigit()
    if not named or os.environ.get(MARKER) == str(folder):  # the second: this server runs in that task
        return False
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.getuid():
            return False
        os.stat(f"/proc/{pid}/root{folder.parents[3] / 'live'}")
    except (FileNotFoundError, NotADirectoryError):
        with contextlib.suppress(OSError):  # the process itself has gone
            os.stat(f"/proc/{pid}/root/")
            above = _supervisor_above(pid, folder)
            return above is None or os.stat(f"/proc/{above}/cwd").st_nlink == 0
    except OSError:
        pass
    return False


def start_supervisor(folder: Path) -> int:
    """Starts a supervisor of the attempt in *folder* in a session of its own; returns its pid.

    It has no open file of ours but one for its complaints.
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
    """True if supervisor *pid* of the attempt in *folder* has ended."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:  # an earlier server started it, or somebody else reaps our children
        return supervised_by(pid) != folder


def supervisors(tasks: Path) -> dict[Path, int]:
    """Folder of an attempt below *tasks* → the process that supervises it, or is about to.  Reads all of /proc once.

    A fork of a supervisor has its arguments until it executes the command or a visitor, so the parent counts.
    """
    found: dict[Path, list[int]] = {}
    for pid in (int(entry) for entry in os.listdir("/proc") if entry.isdigit()):
        folder = supervised_by(pid)
        if folder is not None and tasks in folder.parents:
            found.setdefault(folder, []).append(pid)
    return {folder: next((pid for pid in pids if _parent(pid) not in pids), pids[0]) for folder, pids in found.items()}


def _parent(pid: int) -> int:
    fields = supervisor.stat_of(pid)
    return int(fields[1]) if fields else 0


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


def kill_all(belongs: Belongs, rounds: int = ROUNDS) -> set[Path]:
    """Kills the processes of attempts that are looked for; returns the folders that still have some after *rounds* of 5 ms."""
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
    """The supervisor of the attempt in *folder*, if it is *pid* or above it: nothing leaves that tree while it lives."""
    while pid > 1:
        if supervised_by(pid) == folder:
            return pid
        fields = supervisor.stat_of(pid)
        pid = int(fields[1]) if fields else 0
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
