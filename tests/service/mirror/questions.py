"""Questions that a mirror's process can find."""

import os
import time
from pathlib import Path

from runrig.engine.state.state import State


def revision(state: State) -> int:
    return state.revision


def workflows(state: State) -> list[str]:
    return sorted(state.workflows)


def cleared(state: State) -> int:
    """How many workflows there are, once all are gone."""
    state.workflows.clear()
    return len(state.workflows)


def open_files(_: State) -> tuple[int, list[str]]:
    """(who answers, what it has open)."""
    folder = Path("/proc/self/fd")
    return os.getpid(), [str(each.readlink()) for each in folder.iterdir() if each.exists()]


def forever(_: State, started: str) -> None:
    Path(started).write_text(str(os.getpid()))
    while True:
        time.sleep(0.01)


def broken(_: State) -> None:
    raise ZeroDivisionError("on purpose")
