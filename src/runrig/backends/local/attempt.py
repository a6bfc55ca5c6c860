"""The folder of one attempt, as the server sees it: decisions about it, and its progress.

``supervisor`` describes the files and who writes them. All answers come from them alone, so a server that was killed
between any two steps recovers after a restart. A task can replace them by anything: reading methods then raise OSError.
"""

import contextlib
import errno
import fcntl
import os
import re
import signal
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from runrig.backends.local import supervisor
from runrig.backends.local.processes import supervised_by
from runrig.domain.observed import Phase, TaskFact
from runrig.domain.workflows import TaskKey
from runrig.ports.backend import LogFile, Output

NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO, errno.EACCES)
"""Errors of opening a path that does not exist, is not a file, or is not accessible."""

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_CODE = re.compile(r"[0-9]{1,4}")
_LONGEST_MESSAGE = 1000


def is_folder_name(part: str) -> bool:
    """Whether *part* is a valid folder name, and not that of a parent."""
    return _PART.fullmatch(part) is not None


def folder_of(tasks: Path, key: TaskKey) -> Path:
    """Raises ValueError if a name in *key* is not a valid folder name."""
    if not (is_folder_name(key.workflow) and is_folder_name(key.task)) or key.retry_id < 0:
        raise ValueError(f"{str(key)!r} cannot be a folder name. Use letters, digits, '-', '_' and '.'")
    return tasks / key.workflow / key.task / str(key.retry_id)


class Attempt:
    """One attempt on disk. Cheap to create: reads only on demand."""

    def __init__(self, tasks: Path, key: TaskKey) -> None:
        self.key = key
        self.folder = folder_of(tasks, key)

    @property
    def output(self) -> Path:
        return self.folder / "output"

    @property
    def prepared(self) -> bool:
        """Whether a supervisor may have been started for it."""
        return os.path.lexists(self.folder / "launch")

    @property
    def claimed(self) -> bool:
        """Whether a supervisor runs it, or has run it."""
        try:
            found = os.lstat(self.folder / "claim")
        except (FileNotFoundError, NotADirectoryError):
            return False
        return stat.S_ISREG(found.st_mode) and found.st_size > 0

    def ended(self) -> TaskFact | None:
        """Returns how it ended; None if no readable file records that. Call it only without a live supervisor, because
        the task can write the file too.
        """
        try:
            text = supervisor.read(str(self.folder / "ended")).decode(errors="replace")
        except OSError as error:
            if error.errno in NO_FILE:
                return None
            raise
        first, _, message = text.partition("\n")
        code, _, how = first.partition(" ")
        if not _CODE.fullmatch(code):
            return None
        return TaskFact(Phase.ENDED, int(code), message[:_LONGEST_MESSAGE], by_itself=how == supervisor.BY_ITSELF)

    def running(self) -> bool:
        """Whether its command was started, whether or not it still runs."""
        return os.path.lexists(self.folder / "started")

    def end(self, code: int, message: str) -> TaskFact:
        """Records the end of an attempt that no supervisor runs."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        supervisor.write(str(self.folder / "ended"), f"{code}\n{message}".encode(), durable=True)
        return TaskFact(Phase.ENDED, code, message)

    def settle(self, code: int, message: str) -> TaskFact:
        """As `end`, at least in memory: an end that is not on disk is determined again after a restart."""
        try:
            return self.end(code, message)
        except OSError:
            return TaskFact(Phase.ENDED, code, message)

    @contextlib.contextmanager
    def claim(self) -> Iterator[int | None]:
        """Prevents supervisors from beginning. Yields the descriptor of the claim, None if a live supervisor holds it."""
        descriptor = os.open(self.folder / "claim", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        try:
            yield descriptor if _locked(descriptor) else None
        finally:
            os.close(descriptor)

    def supervised(self) -> bool:
        """Whether a supervisor is alive. Call it only if claimed; otherwise it could prevent a supervisor from beginning."""
        with self.claim() as held:
            return held is None

    def forbid(self, code: int, message: str) -> TaskFact | None:
        """Ends it before it begins; returns None if a supervisor was faster, or the disk is full."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self.claim() as held:
                return None if held is None or os.fstat(held).st_size else self.end(code, message)
        except OSError as error:
            # In a damaged folder no supervisor can begin either, so the attempt has ended.
            return TaskFact(Phase.ENDED, code, message) if error.errno in NO_FILE else None

    def ask_to_stop(self, grace_s: float, known: int | None) -> None:
        """Asks its supervisor to stop it. A supervisor without a pid yet checks for the request later.

        *known*: the process of its supervisor; None: the one in the claim, if that is a supervisor.
        """
        with contextlib.suppress(OSError):  # A full disk: the launch's grace period applies.
            supervisor.write(str(self.folder / "stop"), str(grace_s).encode(), durable=False)
        pid = self.supervisor_pid() if known is None else known
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    def supervisor_pid(self) -> int | None:
        """Returns the process in the claim, if it is the supervisor of this attempt."""
        try:
            pid = int(supervisor.read(str(self.folder / "claim")))
        except (OSError, ValueError):
            return None
        return pid if supervised_by(pid) == self.folder else None


STARTING = TaskFact(Phase.STARTING)


@dataclass(slots=True)
class Live:
    """An attempt that is not finished.

    *child*: the last supervisor that this server started or found. *tries*: how many it has started. *grace_s*: the
    grace period of its stop request. *failed*: an operation on it failed, and the log has the error.
    """

    attempt: Attempt
    fact: TaskFact = STARTING
    child: int | None = None
    tries: int = 0
    grace_s: float | None = None
    failed: bool = False

    @property
    def ended(self) -> bool:
        return self.fact.phase is Phase.ENDED


def supervised(folder: Path) -> bool:
    """Whether the attempt in *folder* has a live supervisor."""
    task = folder.parent
    try:
        attempt = Attempt(task.parent.parent, TaskKey(task.parent.name, task.name, int(folder.name)))
        return attempt.claimed and attempt.supervised()
    except (OSError, ValueError):
        return False


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def output_of(tasks: Path, key: TaskKey) -> Output | None:
    """Returns the output files of *key*, whose folder is below *tasks*, or None."""
    try:
        folder = Attempt(tasks, key).folder
    except ValueError:
        return None
    out, err, order = (
        LogFile(str(tasks), str(path.relative_to(tasks))) if os.path.lexists(path) else None
        for path in (folder / "stdout.log", folder / "stderr.log", folder / "order")
    )
    return None if out is err is None else Output(out, err, order)
