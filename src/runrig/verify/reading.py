"""Reads the event log of a SQLite database, a backup or an export, as commits (docs/verify.md)."""

import gzip
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from .court import Commit
from .world import KINDS

FORMAT = 1
NEWEST = "0023"
"""The newest tables that are known here."""
_COLUMNS = ("revision", "seq", "time", "actor", "kind", "law", "action")
_EVENTS = "SELECT revision, seq, time, actor, kind, law, action FROM events ORDER BY revision, seq"
_EPOCH = datetime.fromisoformat("1970-01-01")
Row = Sequence[Any]
"""A line of an export: revision, number in it, time in microseconds, actor, kind, law, action, and of a submission the groups
that each group needs.
"""


class Unreadable(Exception):
    """One sentence for people."""


def commits(path: str) -> Iterator[Commit]:
    """Raises Unreadable."""
    with _whole(path):
        yield from _grouped(rows(path), path)


def rows(path: str) -> Iterator[Row]:
    """Yields the log in order. Raises Unreadable."""
    with _whole(path):
        if not Path(path).is_file():
            raise Unreadable(f"{path} is not a file. Name a SQLite database, a backup or an export")
        with Path(path).open("rb") as file:
            start = file.read(16)
        if start == b"SQLite format 3\0":
            yield from _of_database(path)
        elif start[:2] == b"\x1f\x8b":
            yield from _of_backup(path)
        elif start[:1] == b"{":
            yield from _of_export(path)
        else:
            raise Unreadable(f"{path} is not a SQLite database, backup or export of runrig")


@contextmanager
def _whole(path: str) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, sqlite3.Error, gzip.zlib.error) as error:  # type: ignore[attr-defined]
        raise Unreadable(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise Unreadable(f"{path} is damaged, or of another release: {type(error).__name__} {error}") from error


def _grouped(log: Iterable[Row], path: str) -> Iterator[Commit]:
    before = 0
    for revision, several in groupby(log, key=itemgetter(0)):
        listed = list(several)
        if revision <= before:
            raise Unreadable(f"{path}: revision {revision} comes after revision {before}")
        for row in listed:
            if row[4] not in KINDS:
                raise Unreadable(
                    f"{path}: revision {revision} has an event of unknown kind {row[4]!r:.40}. Use a newer release"
                )
        gap = revision != before + 1 or listed[-1][1] != len(listed) - 1
        events = [(row[4], _with_upstream(row) if row[4] == "Submit" else row[6]) for row in listed]
        yield Commit(revision, listed[0][2] / 1_000_000, listed[0][3], events, gap=gap)
        before = revision


def _with_upstream(row: Row) -> Any:
    row[6]["workflow"]["upstream"] = row[7]
    return row[6]


def _of_database(path: str) -> Iterator[Row]:
    # Without a WAL file, no process is writing to it, and SQLite does not have to create files.
    how = "mode=ro" if Path(f"{path}-wal").exists() else "mode=ro&immutable=1"
    with closing(sqlite3.connect(f"{Path(path).absolute().as_uri()}?{how}", uri=True)) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not {"events", "specifications", "alembic_version"} <= tables:
            raise Unreadable(f"{path} is not a database of runrig")
        ((version,),) = connection.execute("SELECT version_num FROM alembic_version")
        _check_version(path, version)
        needs = {
            hash: _upstream(json.loads(spec))
            for hash, spec in connection.execute("SELECT hash, spec FROM specifications")
        }
        events = connection.execute(_EVENTS)
        for *start, action in events:
            yield _row([*start, json.loads(action)], needs)


def _of_backup(path: str) -> Iterator[Row]:
    needs: dict[str, Any] = {}
    for table, row in _backup_rows(path):
        if table == "specifications":
            needs[row["hash"]] = _upstream(row["spec"])
    for table, row in _backup_rows(path):
        if table == "events":
            yield _row([row[each] for each in _COLUMNS], needs)


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


def _row(stored: Sequence[Any], needs: Mapping[str, Any]) -> Row:
    """*stored*: the columns."""
    revision, seq, time, actor, kind, law, action = stored
    row = (revision, seq, _microseconds(time), actor, kind, law, action)
    return (*row, needs.get(action["workflow"]["spec_hash"], {})) if kind == "Submit" else row


@lru_cache(10_000)
def _microseconds(text: str) -> int:
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1)
