"""Reads the event log of a SQLite database, a backup or an export, as commits (docs/verify.md)."""

import gzip
import heapq
import json
import re
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import accumulate, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from .chain import LAST, NOTHING, Chain, Event, Snapshot, dumps, event_of, leaf_of, snapshot_of
from .court import Commit
from .gang import counted
from .world import KINDS

FORMAT = 2
NEWEST = max(
    (each.name[1:5] for each in Path(__file__).parent.parent.glob("store/migrations/versions/r[0-9]*.py")),
    default="9999",
)
"""The newest tables of this release. A copy of this folder alone cannot know them."""
CHAINED, ABOUT, KEPT = "0024", "0029", "0030"
"""The first with hashes; in which commits say something about themselves; with snapshots."""
_COLUMNS = ("revision", "seq", "time", "actor", "kind", "law")
_EVENTS = (
    "SELECT revision, seq, time, actor, kind, law, action, hash, about FROM events "
    "WHERE revision > ? AND revision <= ? ORDER BY revision, seq"
)
_LEAVES = (
    "SELECT revision, seq, leaf, hash, about FROM leaves WHERE revision > ? AND revision <= ? ORDER BY revision, seq"
)
_SNAPSHOTS = "SELECT content FROM snapshots WHERE revision >= ? AND revision <= ? ORDER BY revision"
_NAMES = """revision > snapshots.revision AND about LIKE '%"snapshot":[' || snapshots.revision || ',%'"""
_NAMED = (
    f"SELECT revision FROM snapshots WHERE EXISTS (SELECT 1 FROM events WHERE {_NAMES}) "  # noqa: S608
    f"OR EXISTS (SELECT 1 FROM leaves WHERE {_NAMES}) ORDER BY revision"
)
_COUNT = "SELECT count(*) FROM events WHERE revision > ? AND revision <= ?"
LONGEST_LINE, MOST_VALUES = 128 * 1024 * 1024, 2_000_000
"""Limits for a line of a backup, in bytes and in values, as when one is restored."""
_MARK = '"snapshot":['
"""Most lines are without it, and that is known faster."""
_SNAPSHOT = re.compile(r'(?<!\\)"snapshot":\[([0-9]+),')
_EPOCH = datetime.fromisoformat("1970-01-01")
Item = Event | Snapshot
END = Event(LAST, 0)
_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]


def loads(text: str) -> Any:
    """Takes a third of the time of `json.loads`. Raises ValueError, also for spaces around *text*."""
    try:
        found, end = _scan(text, 0)
    except StopIteration:
        end = -1
    if end != len(text):
        raise ValueError(f"{text:.80} is not JSON")
    return found


class Unreadable(Exception):
    """One sentence for people."""


def commits(path: str, chain: Chain | None = None, after: int = 0, upto: int = LAST) -> Iterator[Commit | Snapshot]:
    """*chain*: takes each commit before it is yielded. *after*, *upto*: as of `log`. Raises Unreadable."""
    with _whole(path):
        yield from Joined(path, Chain() if chain is None else chain).commits(log(path, after, upto))


def log(path: str, after: int = 0, upto: int = LAST) -> Iterator[Item]:
    """Yields the events in order, and snapshots after the events of their revision. Raises Unreadable.

    *after*: events after this revision, and its snapshot. *upto*: up to and with this one.
    """
    with _whole(path):
        read = _reader(path)
        if read is _of_database:
            yield from _of_database(path, after, upto)
            return
        for item in read(path, after):
            if item.revision > upto:
                break
            if item.revision > after or (item.revision == after and type(item) is Snapshot):
                yield item


def snapshots(path: str) -> dict[int, int]:
    """Returns the revisions of the snapshots that a later commit names, where that is known without reading everything, with the
    number of events up to each. Raises Unreadable.
    """
    with _whole(path):
        read = _reader(path)
        if read is _of_database:
            with _connected(path) as (connection, version):
                named = [at for (at,) in connection.execute(_NAMED)] if version >= KEPT else []
                between = zip([0, *named], named, strict=False)
                counts = [connection.execute(_COUNT, each).fetchone()[0] for each in between]
                return dict(zip(named, accumulate(counts), strict=True))
        if read is _of_export:
            with Path(path).open(encoding="utf-8") as lines:
                found = [
                    (line[0] == "{", int(at[1]), count)
                    for count, line in enumerate(lines)
                    if _MARK in line and (at := _SNAPSHOT.search(line))
                ]
            later = {at for kept, at, _ in found if not kept}
            return {at: count for kept, at, count in found if kept and at in later}
        return {}


def _reader(path: str) -> Callable[[str, int], Iterator[Item]]:
    if not Path(path).is_file():
        what = "a folder" if Path(path).is_dir() else "not a file"
        raise Unreadable(f"{path} is {what}. Name a SQLite database, a backup or an export")
    with Path(path).open("rb") as file:
        start = file.read(16)
    if start == b"SQLite format 3\0":
        return _of_database
    if start[:2] == b"\x1f\x8b":
        return _of_backup
    if start[:1] == b"{":
        return _of_export
    raise Unreadable(f"{path} is not a SQLite database, backup or export of runrig")


@contextmanager
def _whole(path: str) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, sqlite3.Error, zlib.error) as error:
        raise Unreadable(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
        raise Unreadable(f"{path} is damaged, or from another release: {type(error).__name__} {error}") from error


class Joined:
    """Joins events to commits, over any number of calls. *path*: for messages."""

    def __init__(self, path: str, chain: Chain) -> None:
        self._path, self._chain = path, chain
        self.last, self._snapshot = 0, -1
        self._says = False

    def commits(self, items: Iterable[Item]) -> Iterator[Commit | Snapshot]:
        for revision, several in groupby(items, key=itemgetter(0)):
            listed = list(several)
            snapshot = listed.pop() if type(listed[-1]) is Snapshot else None
            if listed:
                yield from self._commit(revision, listed)  # type: ignore[arg-type]
            if (
                isinstance(snapshot, Snapshot) and revision != self._snapshot
            ):  # The next call may begin with the same one.
                begins, self._snapshot = not self.last, revision
                self._chain.see(snapshot, begins=begins)
                if begins:
                    self.last, self._says = revision, True
                yield snapshot

    def _commit(self, revision: int, listed: Sequence[Event]) -> Iterator[Commit]:
        if revision <= self.last:
            raise Unreadable(f"{self._path}: revision {revision} comes after revision {self.last}")
        self._chain.take(revision, listed)
        about = listed[-1].about
        self._says = self._says or "laws" in about
        needs = about.get("needs", NOTHING)
        plain = [(event.kind, event.action) for event in listed if event.kind]  # Retention has deleted the others.
        for kind in {kind for kind, _ in plain} - KINDS:
            what = f"has an event of unknown kind {kind!r:.40}. Use a newer release"
            raise Unreadable(f"{self._path}: revision {revision} {what}")
        for event in listed:
            if event.kind == "Submit":
                row = event.action["workflow"]
                row["upstream"] = needs.get(row["id"], {}) if self._says else (event.needs or {})
        if not plain:
            return
        gap = revision != self.last + 1 or len(plain) != listed[-1].seq + 1
        first = next(event for event in listed if event.kind)
        rest = about["rest"] / 1_000_000 if "rest" in about else None
        yield Commit(revision, first.time / 1_000_000, first.actor, plain, None, gap, self._says, rest)
        self.last = revision


@contextmanager
def _connected(path: str) -> Iterator[tuple[sqlite3.Connection, str]]:
    """Yields a connection and the version of the tables."""
    # Without a WAL file, no process is writing to it, and SQLite need not create files.
    how = "mode=ro" if Path(f"{path}-wal").exists() else "mode=ro&immutable=1"
    with closing(sqlite3.connect(f"{Path(path).absolute().as_uri()}?{how}", uri=True)) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not {"events", "specifications", "alembic_version"} <= tables:
            raise Unreadable(f"{path} is not a database of runrig")
        ((version,),) = connection.execute("SELECT version_num FROM alembic_version")
        _check_version(path, version)
        yield connection, version


def _of_database(path: str, after: int, upto: int = LAST) -> Iterator[Item]:
    with _connected(path) as (connection, version):
        connection.execute("BEGIN")
        events, leaves, between = _EVENTS, _LEAVES, (after, upto)
        for first, columns in ((ABOUT, "about"), (CHAINED, "hash")):
            if version < first:
                events, leaves = (
                    each.replace(f" {columns} ", " NULL ").replace(f" {columns},", " NULL,")
                    for each in (events, leaves)
                )
        rows: Iterable[Any] = connection.execute(events, between)
        left: Iterable[Any] = connection.execute(leaves, between) if version >= CHAINED else ()
        kept: Iterable[Any] = connection.execute(_SNAPSHOTS, between) if version >= KEPT else ()

        def needs(hash: str) -> Any:
            found = connection.execute("SELECT spec FROM specifications WHERE hash = ?", (hash,)).fetchone()
            return {} if found is None else _upstream(json.loads(found[0]))

        yield from merged(
            _events(rows),
            (Event(*row[:2], leaf=row[2], hash=row[3] or b"", about=_about(row[4])) for row in left),  # type: ignore[misc]
            (snapshot_of(zlib.decompress(content)) for (content,) in kept),
            lru_cache(10_000)(needs),
        )


def _of_backup(path: str, _: int) -> Iterator[Item]:
    needs = {row["hash"]: _upstream(row["spec"]) for row in _backup_rows(path, "specifications")}
    rows = (
        (
            *(row[each] for each in _COLUMNS),
            dumps(row["action"]),
            _bytes(row.get("hash")),
            dumps(row["about"]) if row.get("about") else None,
        )
        for row in _backup_rows(path, "events")
    )
    yield from merged(
        _events(rows),
        (
            Event(
                row["revision"],
                row["seq"],
                leaf=_bytes(row["leaf"]),
                hash=_bytes(row["hash"]),
                about=row.get("about") or NOTHING,
            )
            for row in _backup_rows(path, "leaves")
        ),
        (snapshot_of(_unpacked(_bytes(row["content"]), path)) for row in _backup_rows(path, "snapshots")),
        lambda hash: needs.get(hash, {}),
    )


def merged(
    events: Iterable[Event], left: Iterable[Event], kept: Iterable[Snapshot], needs: Callable[[str], Any]
) -> Iterator[Item]:
    """*needs*: what the groups of a specification need, asked only where commits do not say that: no hash covers it."""
    others: Iterator[Any] = heapq.merge(left, kept, key=itemgetter(0, 1))
    other, says = next(others, END), False
    for event in events:
        while other.revision <= event.revision and other[:2] < event[:2]:
            says = says or type(other) is Snapshot or "laws" in other.about
            yield other
            other = next(others, END)
        if not says:
            says = "laws" in event.about
            if event.kind == "Submit":
                event = event._replace(needs=needs(event.action["workflow"]["spec_hash"]))
        yield event
    yield from () if other is END else (other, *others)


def _about(text: str | None) -> Any:
    """Raises ValueError for other bytes than those that were hashed."""
    if not text:
        return NOTHING
    about = json.loads(text)
    if dumps(about) != text:
        raise ValueError(f"{text:.80} was changed")
    return about


def _bytes(text: str | None) -> bytes:
    return bytes.fromhex(text[2:]) if text else b""


def _unpacked(packed: bytes, path: str) -> bytes:
    """Raises Unreadable for what unpacks to far more than a snapshot."""
    unpacker = zlib.decompressobj()
    text = unpacker.decompress(packed, LONGEST_LINE // 8 + 200 * len(packed))
    if not unpacker.eof:
        raise Unreadable(f"{path} is damaged: a snapshot is too large or incomplete")
    return text


def _lines(file: gzip.GzipFile, path: str) -> Iterator[bytes]:
    """Yields the lines of a backup. A small file can have very long ones."""
    while line := file.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE or sum(map(line.count, (b",", b"[", b"{"))) > MOST_VALUES:
            raise Unreadable(f"{path} is damaged: a line is too long")
        yield line


def _backup_rows(path: str, wanted: str) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rb") as file:
        lines = _lines(file, path)
        header = json.loads(next(lines, b"null"))
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


def _of_export(path: str, after: int) -> Iterator[Item]:
    with Path(path).open(encoding="utf-8") as lines:
        yield from of_lines(lines, path, after)


def of_lines(lines: Iterable[str], path: str, after: int = 0) -> Iterator[Item]:
    """*lines*: of an export. *path*: for messages. *after*: as of `log`."""
    rest = iter(lines)
    header = json.loads(next(rest))
    if "runrig_events" not in header:
        raise Unreadable(f"{path} is not an export of runrig's event log")
    if header["runrig_events"] > FORMAT:
        raise Unreadable(f"{path} has format {header['runrig_events']}, but this release supports up to {FORMAT}")
    count = 0
    for line in rest:
        text = line.rstrip("\n")
        if text[:1] == "[":
            count += 1
            if not after or int(text[1 : text.index(",")]) > after:
                yield event_of(text)
            continue
        row = json.loads(text)
        if "snapshot" not in row:
            if row["events"] == count:
                return
            break
        if dumps(row) != text:
            raise ValueError(f"{text:.80} was changed")
        yield snapshot_of(dumps(row["snapshot"]).encode())
    raise Unreadable(f"{path} is cut off: it ends after {counted(count, 'event')}")


def _check_version(path: str, version: str) -> None:
    if version > NEWEST:
        raise Unreadable(f"{path} has schema {version}, but this release supports up to {NEWEST}. Use a newer release")


def _upstream(spec: Any) -> dict[str, Any]:
    return {group["name"]: group.get("upstream", []) for group in spec.get("groups", ())}


def _events(rows: Iterable[Any]) -> Iterator[Event]:
    """*rows*: the columns of `_EVENTS`."""
    for revision, seq, time, actor, kind, law, text, hash, about in rows:
        at = _microseconds(time)
        leaf = leaf_of(revision, seq, at, actor, kind, law, text)
        more = _about(about) if about else NOTHING
        yield Event(revision, seq, at, actor, kind, law, loads(text), None, leaf, hash or b"", more)


@lru_cache(10_000)
def _microseconds(text: str) -> int:
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1)
