"""The folder of one attempt, as the server sees it: what was decided about it, and how far it has come.

The files and who writes them are in ``supervisor``.  All answers come from them alone, so a server that was
killed between any two steps finds its way after a restart.
"""

import contextlib
import fcntl
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

from runrig.backends.local import supervisor
from runrig.domain.observed import Phase, TaskFact
from runrig.domain.workflows import TaskKey

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def is_folder_name(part: str) -> bool:
    """True if *part* can name a folder, but none above it."""
    return _PART.fullmatch(part) is not None


def folder_of(tasks: Path, key: TaskKey) -> Path:
    """Raises ValueError if a name of *key* cannot be that of a folder."""
    if not (is_folder_name(key.workflow) and is_folder_name(key.task)) or key.retry_id < 0:
        raise ValueError(f"{str(key)!r} cannot name a folder: letters, digits, '-', '_' and '.' can")
    return tasks / key.workflow / key.task / str(key.retry_id)


class Attempt:
    """One attempt on disk.  Cheap to make: it reads nothing until asked."""

    def __init__(self, tasks: Path, key: TaskKey) -> None:
        self.key = key
        self.folder = folder_of(tasks, key)

    @property
    def output(self) -> Path:
        return self.folder / "output"

    @property
    def prepared(self) -> bool:
        """True if a supervisor may have been started for it."""
        return (self.folder / "launch").exists()

    @property
    def claimed(self) -> bool:
        """True if a supervisor runs it, or has run it."""
        try:
            return os.stat(self.folder / "claim").st_size > 0
        except FileNotFoundError:
            return False

    def ended(self) -> TaskFact | None:
        try:
            code, _, message = supervisor.read(str(self.folder / "ended")).decode(errors="replace").partition("\n")
        except FileNotFoundError:
            return None
        return TaskFact(Phase.ENDED, int(code), message)

    def running(self) -> bool:
        """True if its command was started, whether or not it still runs."""
        return (self.folder / "started").exists()

    def end(self, code: int, message: str) -> TaskFact:
        """Records the end of an attempt that no supervisor runs."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        supervisor.write(str(self.folder / "ended"), f"{code}\n{message}".encode(), durable=True)
        return TaskFact(Phase.ENDED, code, message)

    @contextlib.contextmanager
    def claim(self) -> Iterator[int | None]:
        """Keeps supervisors from beginning.  Yields the descriptor of the claim, None if a living supervisor holds it."""
        descriptor = os.open(self.folder / "claim", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            yield descriptor if _locked(descriptor) else None
        finally:
            os.close(descriptor)

    def supervised(self) -> bool:
        """True if a supervisor lives.  Ask only if claimed: otherwise asking could keep a supervisor from beginning."""
        with self.claim() as held:
            return held is None

    def forbid(self, code: int, message: str) -> TaskFact | None:
        """Ends it before it begins; None if a supervisor was quicker."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self.claim() as held:
            if held is None or os.fstat(held).st_size:
                return None
            return self.end(code, message)

    def ask_to_stop(self, grace_s: float) -> None:
        """Tells its supervisor; one that has not yet written its pid looks for the request afterwards."""
        with contextlib.suppress(OSError):  # a full disk: then the launch's grace applies
            supervisor.write(str(self.folder / "stop"), str(grace_s).encode(), durable=False)
        pid = self._supervisor_pid()
        if pid is not None and self.supervised():  # it lives, so the number is its own
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    def _supervisor_pid(self) -> int | None:
        try:
            return int(supervisor.read(str(self.folder / "claim")))
        except (FileNotFoundError, ValueError):
            return None


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
