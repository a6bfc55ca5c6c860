"""A store with a long past: one finished workflow, copied as often as asked, with its groups, tasks and events."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path

_COUNT = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < :many)"
NAMES = 1000
"""Each name has many copies, as in real life."""


def grow(database: Path, workflow: str, many: int) -> None:
    """*many* copies of *workflow* in the file of a server that does not run; they are spread over the month before."""
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        copied = f"'past-' || (n % {NAMES}) || '-' || (1 + n / {NAMES})"
        changed = {
            "id": copied,
            "uuid": "lower(hex(randomblob(16)))",
            "name": f"'past-' || (n % {NAMES})",
            "number": f"1 + n / {NAMES}",
            "submit_time": _earlier(connection, "workflows", "submit_time"),
        }
        _copy(connection, "workflows", "id", workflow, many, changed)
        for table in ("groups", "tasks"):
            _copy(connection, table, "workflow", workflow, many, {"workflow": copied})
        # All of a copy have the revision of the original, after its own.
        _copy(connection, "events", "workflow", workflow, many, {"workflow": copied, "seq": "seq + 1000 * n"})
        connection.execute("ANALYZE")


def forget(database: Path) -> None:
    """The log is again without the copies of `grow`, which no server wrote."""
    with sqlite3.connect(database) as connection:
        connection.execute("DELETE FROM events WHERE workflow LIKE 'past-%'")


def line_up(database: Path, workflow: str, many: int, pools: Sequence[str]) -> None:
    """*many* copies of *workflow*, which waits, in the file of a server that does not run; dealt out to *pools* in turn.

    Of ``wide-1`` they are ``wide-1-1``, ``wide-2-1`` and on.
    """
    name = workflow.rpartition("-")[0]
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("CREATE TEMP TABLE IF NOT EXISTS dealt (n INTEGER PRIMARY KEY, pool TEXT)")
        connection.executemany("INSERT OR REPLACE INTO dealt VALUES (?, ?)", enumerate(pools))
        copied = f"'{name}-' || n || '-1'"
        pool = f"(SELECT pool FROM dealt WHERE dealt.n = n.n % {len(pools)})"
        changed = {
            "id": copied,
            "uuid": "lower(hex(randomblob(16)))",
            "name": f"'{name}-' || n",
            "number": "1",
            "pool": pool,
        }
        _copy(connection, "workflows", "id", workflow, many, changed)
        for table in ("groups", "tasks"):
            _copy(connection, table, "workflow", workflow, many, {"workflow": copied})
        gang = {"id": f"replace(id, '{workflow}/', {copied} || '/')", "workflow": copied, "pool": pool}
        _copy(connection, "gangs", "workflow", workflow, many, gang)
        past = {"workflow": copied, "pool": pool, "seq": "seq + 1000 * n"}
        _copy(connection, "events", "workflow", workflow, many, past)
        connection.execute("ANALYZE")


def _earlier(connection: sqlite3.Connection, table: str, column: str) -> str:
    """In the column's own form, whichever it is."""
    ((kind,),) = connection.execute(f"SELECT typeof({column}) FROM {table} LIMIT 1").fetchall()
    if kind == "text":
        return f"strftime('%Y-%m-%d %H:%M:%f000', {column}, '-' || (n * 25) || ' seconds')"
    return f"{column} - n * 25"


def _copy(connection: sqlite3.Connection, table: str, key: str, value: str, many: int, changed: dict[str, str]) -> None:
    columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
    names = ", ".join(f'"{name}"' for name in columns)
    values = ", ".join(changed.get(name, f'"{name}"') for name in columns)
    connection.execute(
        f'{_COUNT} INSERT INTO "{table}" ({names}) SELECT {values} FROM n CROSS JOIN "{table}" WHERE "{key}" = :value',
        {"many": many, "value": value},
    )
