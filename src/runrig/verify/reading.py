"""Reads the event log of a SQLite database, a backup or an export, as commits (docs/verify.md)."""

import gzip
import heapq
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

from .chain import Chain, Event, dumps, event_of, leaf_of
from .court import Commit
from .world import KINDS

FORMAT = 2
NEWEST = "0029"
"""The newest tables that are known here."""
CHAINED, ABOUT = "0024", "0029"
"""The first with hashes, and the first in which commits say something about themselves."""
_COLUMNS = ("revision", "seq", "time", "actor", "kind", "law", "action", "hash", "about")
_EVENTS = "SELECT revision, seq, time, actor, kind, law, action, hash, about FROM events ORDER BY revision, seq"
_LEAVES = "SELECT revision, seq, leaf, hash, about FROM leaves ORDER BY revision, seq"
_EPOCH = datetime.fromisoformat("1970-01-01")


class Unreadable(Exception):
    """One sentence for people."""


def commits(path: str, chain: Chain | None = None) -> Iterator[Commit]:
    """*chain*: takes each commit before it is yielded. Raises Unreadable."""
    with _whole(path):
        yield from _grouped(log(path), path, Chain() if chain is None else chain)


def log(path: str) -> Iterator[Event]:
    """Yields the events in order. Raises Unreadable."""
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


def _grouped(events: Iterable[Event], path: str, chain: Chain) -> Iterator[Commit]:
    before, says = 0, False
    for revision, several in groupby(events, key=itemgetter(0)):
        listed = list(several)
        if revision <= before:
            raise Unreadable(f"{path}: revision {revision} comes after revision {before}")
        chain.take(revision, listed)
        kept = [event for event in listed if event.kind]
        if not kept:
            continue
        for event in kept:
            if event.kind not in KINDS:
                raise Unreadable(
                    f"{path}: revision {revision} has an event of unknown kind {event.kind!r:.40}. Use a newer release"
                )
        gap = revision != before + 1 or len(kept) != listed[-1].seq + 1
        about = listed[-1].about
        says = says or "laws" in about
        plain = [_plain(event, about.get("needs", {}) if says else None) for event in kept]
        rest = about["rest"] / 1_000_000 if "rest" in about else None
        yield Commit(revision, kept[0].time / 1_000_000, kept[0].actor, plain, None, gap, says, rest)
        before = revision


def _plain(event: Event, needs: Any) -> tuple[str, Any]:
    """*needs*: of the workflows of the commit; None: the event itself has them."""
    if event.kind == "Submit":
        row = event.action["workflow"]
        row["upstream"] = (event.needs or {}) if needs is None else needs.get(row["id"], {})
    return event.kind, event.action


def _of_database(path: str) -> Iterator[Event]:
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
        connection.execute("BEGIN")
        rows: Iterable[Any]
        leaves: Iterable[Any] = ()
        if version < CHAINED:
            rows = ((*row, None, None) for row in connection.execute(_EVENTS.replace(", hash, about", "")))
        elif version < ABOUT:
            rows = ((*row, None) for row in connection.execute(_EVENTS.replace(", about", "")))
            leaves = ((*row, None) for row in connection.execute(_LEAVES.replace(", about", "")))
        else:
            rows, leaves = connection.execute(_EVENTS), connection.execute(_LEAVES)
        events = (_event(row, row[6], json.loads(row[6]), row[7], _about(row[8]), needs) for row in rows)
        left = (
            Event(revision, seq, leaf=leaf, hash=hash or b"", about=_about(about))
            for revision, seq, leaf, hash, about in leaves
        )
        yield from merged(events, left)


def _of_backup(path: str) -> Iterator[Event]:
    needs: dict[str, Any] = {}
    for row in _backup_rows(path, "specifications"):
        needs[row["hash"]] = _upstream(row["spec"])
    left = (
        Event(row["revision"], row["seq"], leaf=_bytes(row["leaf"]), hash=_bytes(row["hash"]), about=row.get("about") or {})
        for row in _backup_rows(path, "leaves")
    )
    rows = ([row.get(each) for each in _COLUMNS] for row in _backup_rows(path, "events"))
    events = (_event(row, dumps(row[6]), row[6], _bytes(row[7]), row[8] or {}, needs) for row in rows)
    yield from merged(events, left)


def merged(events: Iterable[Event], left: Iterable[Event]) -> Iterator[Event]:
    """Where commits say what the groups of workflows need, specifications, which no hash covers, are not asked."""
    says = False
    for event in heapq.merge(events, left, key=itemgetter(0, 1)):
        yield event._replace(needs=None) if says and event.needs is not None else event
        says = says or "laws" in event.about


def _about(text: str | None) -> Any:
    """Raises ValueError for other bytes than those that were hashed."""
    about = json.loads(text or "{}")
    if text and dumps(about) != text:
        raise ValueError(f"{text:.80} was changed")
    return about


def _bytes(text: str | None) -> bytes:
    return bytes.fromhex(text[2:]) if text else b""


def _backup_rows(path: str, wanted: str) -> Iterator[dict[str, Any]]:
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
            elif isinstance(entry, list) and table == wanted:
                yield dict(zip(columns, entry, strict=True))
        if not ended:
            raise Unreadable(f"{path} is cut off: its last line is missing")


def _of_export(path: str) -> Iterator[Event]:
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
            yield event_of(row)
        if not ended:
            raise Unreadable(f"{path} is cut off: it ends after {count} events")


def _check_version(path: str, version: str) -> None:
    if version > NEWEST:
        raise Unreadable(f"{path} has tables {version}, and this release knows up to {NEWEST}. Use a newer release")


def _upstream(spec: Any) -> dict[str, Any]:
    return {group["name"]: group.get("upstream", []) for group in spec.get("groups", ())}


def _event(
    row: Sequence[Any], text: str, action: Any, hash: bytes | None, about: Mapping[str, Any], needs: Mapping[str, Any]
) -> Event:
    """*row*: the columns. *text*: the action as JSON."""
    revision, seq, time, actor, kind, law = row[:6]
    at = _microseconds(time)
    needed = needs.get(action["workflow"]["spec_hash"], {}) if kind == "Submit" else None
    leaf = leaf_of(revision, seq, at, actor, kind, law, text)
    return Event(revision, seq, at, actor, kind, law, action, needed, leaf, hash or b"", about)


@lru_cache(10_000)
def _microseconds(text: str) -> int:
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1)
