"""A server that is killed while it writes: ``dies.py URL WHEN STATEMENT`` kills itself, as the kernel would, behind a statement.

WHEN ``opening``: while the tables are made.  WHEN ``writing``: in the history's third commit.  WHEN ``written``: after it.
STATEMENT: how it begins.  WHEN ``parent``: at once, with two children that live on; their process ids are printed.
"""

import os
import signal
import sqlite3
import subprocess
import sys
from typing import Any

from sqlalchemy import Engine, Pool, event

from runrig.store import SqlStore

from .values import HISTORY


def main(url: str, when: str, statement: str) -> None:
    if when == "opening":
        die_behind(statement)
    store = SqlStore.open(url, exclusive=True)
    if when == "parent":
        die_before_the_children()
    HISTORY[0].to(store)
    HISTORY[1].to(store)
    if when == "writing":
        die_behind(statement)
    HISTORY[2].to(store)
    if when == "written":
        die()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_behind(beginning: str) -> None:
    def executed(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.strip().startswith(beginning):
            die()

    begun = False

    def begins(statement: str) -> None:
        nonlocal begun
        if begun and not statement.startswith(beginning):
            die()
        begun = begun or statement.startswith(beginning)

    def traced(driver: Any, *_: object) -> None:
        if isinstance(driver, sqlite3.Connection):  # SQLAlchemy does not see all of its statements
            driver.set_trace_callback(begins)

    event.listen(Engine, "after_cursor_execute", executed)
    event.listen(Pool, "checkout", traced)


def die_before_the_children() -> None:
    started = subprocess.Popen(["sleep", "60"], close_fds=False, stdout=subprocess.DEVNULL).pid
    ready, say = os.pipe()
    forked = os.fork()
    if forked == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # a reader of our output must not wait for the child's
        os.write(say, b".")
        signal.pause()
    os.read(ready, 1)
    print(started, forked, flush=True)
    die()


if __name__ == "__main__":
    main(*sys.argv[1:])
