"""Attempts that run on this machine and that no server knows any more.

Their data folder was deleted, or what it knew of them: they hold GPUs that everybody takes for idle.  They are ended before anything
else starts.  Attempts in the data folder of another server, whether or not that runs now, are none of them.
"""

import logging
from collections.abc import Callable
from pathlib import Path

from runrig.backends.local import supervisor
from runrig.backends.local.processes import ROUNDS, Belongs, abandoned, kill_all, of_attempts

_log = logging.getLogger(__name__)


def strays_of(tasks: Path, known: Callable[[Path], bool]) -> "Strays":
    """Those below *tasks* whose folder is not *known*, and all whose data folder is gone, wherever that was."""

    def belongs(pid: int, folder: Path) -> bool:
        return not known(folder) if tasks in folder.parents else abandoned(pid, folder)

    return Strays(belongs)


class Strays:
    """*found*: the folders of those that there were at first.  Reads all of /proc once."""

    def __init__(self, belongs: Belongs) -> None:
        self._belongs = belongs
        self._left = set(of_attempts(belongs))
        self._rounds = ROUNDS
        self.found = tuple(sorted(str(folder) for folder in self._left))

    def end(self) -> bool:
        """Kills what is left of them; True if nothing is.  Takes half a second at most, and less when it is called again."""
        if self._left:
            for folder in sorted(self._left):
                _log.warning("event=unknown_task_killed folder=%s", folder)
                supervisor.forget_secrets(str(folder))
            self._left = kill_all(self._belongs, self._rounds)
            self._rounds = 1
        return not self._left
