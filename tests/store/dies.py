"""A server that is killed while it writes: ``dies.py DATABASE WHEN STEP`` kills itself, as the kernel would, at a statement.

WHEN ``opening``: at the statement number STEP of making the database.  WHEN ``writing``: at that of the history's third commit.
WHEN ``written``: after that commit.
"""

import os
import signal
import sys
from pathlib import Path

from sqlalchemy import Engine, event

from runrig.store import SqlStore

from .values import HISTORY


def main(path: Path, when: str, step: int) -> None:
    if when == "opening":
        die_at(step)
    store = SqlStore.open(path, exclusive=True)
    HISTORY[0].to(store)
    HISTORY[1].to(store)
    if when == "writing":
        die_at(step)
    HISTORY[2].to(store)
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(step: int) -> None:
    statements = iter(range(1, step + 1))

    def executed(*_: object) -> None:
        if next(statements) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(Engine, "after_cursor_execute", executed)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
