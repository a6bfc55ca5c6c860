"""Reads the event log of a SQLite database, a backup or an export, as commits (docs/verify.md)."""

import gzip
import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from .court import Commit
from .world import KINDS

FORMAT = 1
NEWEST = "0020"
"""The newest tables that are known here."""
Row = tuple[int, int, float, str, str, Any]
"""Revision, number in it, time, actor, kind, action."""


class Unreadable(Exception):
    """One sentence for people."""


def commits(path: str) -> Iterator[Commit]:
    """Raises Unreadable."""
    try:
        yield from _grouped(_rows(path), path)
    except (OSError, EOFError, sqlite3.Error, gzip.zlib.error) as error:  # type: ignore[attr-defined]
        raise Unreadable(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise Unreadable(f"{path} is damaged, or of another release: {type(error).__name__} {error}") from error


def _rows(path: str) -> Iterator[Row]:
    if not Path(path).is_file():
        raise Unreadable(f"{path} is not a file. Name a SQLite database, a backup or an export")
    with Path(path).open("rb") as file:
        start = file.read(16)
    if start == b"SQLite format 3\0":
        return _of_database(path)
    if start[:2] == b"\x1f\x8b":
        return _of_backup(path)
    if start[:1] == b"{":
        return _of_export(path)
    raise Unreadable(f"{path} is not a SQLite database, backup or export of runrig")


def _grouped(rows: Iterable[Row], path: str) -> Iterator[Commit]:
    before = 0
    for revision, several in groupby(rows, key=itemgetter(0)):
        listed = list(several)
        if revision <= before:
            raise Unreadable(f"{path}: revision {revision} comes after revision {before}")
        for row in listed:
            if row[4] not in KINDS:
                raise Unreadable(
                    f"{path}: revision {revision} has an event of unknown kind {row[4]!r:.40}. Use a newer release"
                )
        gap = revision != before + 1 or listed[-1][1] != len(listed) - 1
        events = [(kind, action) for *_, kind, action in listed]
        yield Commit(revision, listed[0][2], listed[0][3], events, gap=gap)
        before = revision


def _of_database(path: str) -> Iterator[Row]:
    # Without a WAL file, no process is writing to it, and SQLite does not have to create files.
    how = "mode=ro" if Path(f"{path}-wal").exists() else "mode=ro&immutable=1"
    with closing(sqlite3.connect(f"{Path(path).absolute().as_uri()}?{how}", uri=True)) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not {"events", "specifications", "alembic_version"} <= tables:
            raise Unreadable(f"{path} is not a database of runrig")
        ((version,),) = connection.execute("SELECT version_num FROM alembic_version")
        _check_version(path, version)
        specs = {
            hash: _upstream(json.loads(spec))
            for hash, spec in connection.execute("SELECT hash, spec FROM specifications")
        }
        rows = connection.execute("SELECT revision, seq, time, actor, kind, action FROM events ORDER BY revision, seq")
        for revision, seq, time, actor, kind, action in rows:
            yield revision, seq, _seconds(time), actor, kind, _with_upstream(kind, json.loads(action), specs)


def _of_backup(path: str) -> Iterator[Row]:
    specs: dict[str, Any] = {}
    for table, row in _backup_rows(path):
        if table == "specifications":
            specs[row["hash"]] = _upstream(row["spec"])
    for table, row in _backup_rows(path):
        if table == "events":
            action = _with_upstream(row["kind"], row["action"], specs)
            yield row["revision"], row["seq"], _seconds(row["time"]), row["actor"], row["kind"], action


def _backup_rows(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        header = json.loads(next(lines))
        if not isinstance(header, dict) or "runrig_backup" not in header:
            raise Unreadable(f"{path} is not a backup of runrig")
        _check_version(path, header["tables"])
        table, columns, ended = "", list[str](), False
        for line in lines:
            entry = json.loads(line)
            if isinstance(entry, dict):
                table, columns = entry.get("table", ""), entry.get("columns", [])
                ended = "sha256" in entry
            elif isinstance(entry, list) and table in ("events", "specifications"):
                yield table, dict(zip(columns, entry, strict=True))
        if not ended:
            raise Unreadable(f"{path} is cut off: its last line is missing")


def _of_export(path: str) -> Iterator[Row]:
    with Path(path).open(encoding="utf-8") as lines:
        header = json.loads(next(lines))
        if "runrig_events" not in header:
            raise Unreadable(f"{path} is not an export of runrig's event log")
        if header["runrig_events"] > FORMAT:
            raise Unreadable(f"{path} has format {header['runrig_events']}, and this release reads up to {FORMAT}")
        count, ended = 0, False
        for line in lines:
            row = json.loads(line)
            if isinstance(row, dict):
                ended = row["events"] == count
                break
            count += 1
            yield row
        if not ended:
            raise Unreadable(f"{path} is cut off: it ends after {count} events")


def _check_version(path: str, version: str) -> None:
    if version > NEWEST:
        raise Unreadable(f"{path} has tables {version}, and this release knows up to {NEWEST}. Use a newer release")


def _upstream(spec: Any) -> dict[str, Any]:
    return {group["name"]: group.get("upstream", []) for group in spec["groups"]}


def _with_upstream(kind: str, action: Any, specs: dict[str, Any]) -> Any:
    if kind == "Submit":
        action["workflow"]["upstream"] = specs.get(action["workflow"]["spec_hash"], {})
    return action


@lru_cache(10_000)
def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
