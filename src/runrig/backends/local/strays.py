"""Attempts that run on this machine without a server.

Their data folder or its records were deleted, so they use GPUs that seem idle. They are ended before anything else
starts. Attempts in the data folder of another server, running or not, are left alone.
"""

import logging
from collections.abc import Callable
from pathlib import Path

from runrig.backends.local import supervisor
from runrig.backends.local.processes import ROUNDS, abandoned, kill_all, of_attempts

_log = logging.getLogger(__name__)


class Strays:
    """Attempts below *tasks* whose folder is not *known*, and all whose data folder was deleted, wherever it was.

    *found*: their folders at the start. Reads all of /proc once.
    """

    def __init__(self, tasks: Path, known: Callable[[Path], bool]) -> None:
        self._tasks, self._known = tasks, known
        self._left = set(of_attempts(self._belongs))
        self._rounds = ROUNDS
        self.found = tuple(sorted(str(folder) for folder in self._left))

    def end(self) -> bool:
        """Kills what is left of them; returns True if nothing is. Takes at most half a second; later calls are faster."""
        if self._left:
            for folder in sorted(self._left):
                _log.warning("event=unknown_task_killed folder=%s", folder)
                supervisor.forget_secrets(str(folder))
            self._left = kill_all(self._belongs, self._rounds)
            self._rounds = 1
        return not self._left

    def _belongs(self, pid: int, folder: Path) -> bool:
        return not self._known(folder) if self._tasks in folder.parents else abandoned(pid, folder)
