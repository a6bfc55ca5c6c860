"""Reads the event log of a SQLite database, a backup or an export, as commits (docs/verify.md)."""

import gzip
import heapq
import json
import re
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import accumulate
from operator import itemgetter
from pathlib import Path
from typing import Any

from .chain import LAST, NOTHING, Chain, Event, Item, Snapshot, Unreadable, dumps, event_of, leaf_of, snapshot_of
from .court import Commit
from .gang import counted

FORMAT = 2
NEWEST = max(
    (each.name[1:5] for each in Path(__file__).parent.parent.glob("store/migrations/versions/r[0-9]*.py")),
    default="9999",
)
"""The newest tables of this release. A copy of this folder alone cannot know them."""
KEPT = "0030"
"""The first tables with hashes and snapshots. Version 0.1.0 had older ones."""
DATABASE, BACKUP, EXPORT = b"SQLite format 3\0", b"\x1f\x8b", b"{"
"""How files begin."""
_COLUMNS = {
    "events": ("revision", "seq", "time", "actor", "kind", "law", "action", "hash", "about"),
    "leaves": ("revision", "seq", "leaf", "hash", "about"),
    "snapshots": ("revision", "time", "content"),
}
_BETWEEN = "revision > ? AND revision <= ? ORDER BY revision, seq"
_WHERE = {"events": _BETWEEN, "leaves": _BETWEEN, "snapshots": "revision BETWEEN ? AND ? ORDER BY revision"}
_QUERIES = [f"SELECT {', '.join(_COLUMNS[table])} FROM {table} WHERE {where}" for table, where in _WHERE.items()]  # noqa: S608
_OLD_QUERIES = [_QUERIES[0].replace("hash, about", "NULL, NULL")]
_SPEC = "SELECT spec FROM specifications WHERE hash = ?"
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
END = Event(LAST, 0)
_EPOCH = datetime.fromisoformat("1970-01-01")
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


def commits(path: str, chain: Chain | None = None, after: int = 0, upto: int = LAST) -> Iterator[Commit | Snapshot]:
    """*chain*: takes each commit before it is yielded. *after*, *upto*: as of `log`. Raises Unreadable."""
    with _whole(path):
        yield from (chain or Chain(path)).commits(log(path, after, upto))


def log(path: str, after: int = 0, upto: int = LAST) -> Iterator[Item]:
    """Yields the events in order, and snapshots after the events of their revision. Raises Unreadable.

    *after*: events after this revision, and its snapshot. *upto*: up to and with this one.
    """
    with _whole(path):
        kind = _kind(path)
        if kind == DATABASE:
            yield from _of_database(path, after, upto)
            return
        for item in _of_backup(path) if kind == BACKUP else _of_export(path, after):
            if item.revision > upto:
                break
            if item.revision > after or (item.revision == after and type(item) is Snapshot):
                yield item


def snapshots(path: str) -> dict[int, int]:
    """Returns the revisions of the snapshots that a later commit names, where that is known without reading everything, with the
    number of events up to each. Raises Unreadable.
    """
    with _whole(path):
        kind = _kind(path)
        if kind == DATABASE:
            with _connected(path) as (connection, version):
                named = [at for (at,) in connection.execute(_NAMED)] if version >= KEPT else []
                between = zip([0, *named], named, strict=False)
                counts = [connection.execute(_COUNT, each).fetchone()[0] for each in between]
                return dict(zip(named, accumulate(counts), strict=True))
        if kind == BACKUP:
            return {}
        with Path(path).open(encoding="utf-8") as lines:
            found = [
                (line[0] == "{", int(at[1]), count)
                for count, line in enumerate(lines)
                if _MARK in line and (at := _SNAPSHOT.search(line))
            ]
        later = {at for kept, at, _ in found if not kept}
        return {at: count for kept, at, count in found if kept and at in later}


def _kind(path: str) -> bytes:
    at = Path(path)
    if not at.is_file():
        what = "is a folder" if at.is_dir() else "is not a regular file" if at.exists() else "does not exist"
        raise Unreadable(f"{path} {what}. Name a SQLite database, a backup or an export")
    with at.open("rb") as file:
        start = file.read(16)
    for kind in (DATABASE, BACKUP, EXPORT):
        if start.startswith(kind):
            return kind
    raise Unreadable(f"{path} is not a SQLite database, backup or export of runrig")


@contextmanager
def _whole(path: str) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, sqlite3.Error, zlib.error) as error:
        raise Unreadable(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
        what: object = error
        if isinstance(error, json.JSONDecodeError):  # Its own position is one within a line.
            what = f"{error.msg.removesuffix(' at')} at {error.doc[error.pos :]!r:.40}"
        raise Unreadable(f"{path} is damaged, or from another release: {type(error).__name__} {what}") from error


def _check_version(path: str, version: str) -> None:
    if version > NEWEST:
        raise Unreadable(f"{path} has schema {version}, but this release supports up to {NEWEST}. Use a newer release")


def merged(
    events: Iterable[Event], left: Iterable[Event], kept: Iterable[Snapshot], needs: Callable[[str], Any]
) -> Iterator[Item]:
    """*left*: what retention left of events. *needs*: what the groups of a specification need, asked only where commits do not say
    that: no hash covers it.
    """
    others: Iterator[Any] = heapq.merge(left, kept, key=itemgetter(0, 1))
    other, says = next(others, END), False
    for event in events:
        while other.revision <= event.revision and other[:2] < event[:2]:
            says = says or type(other) is Snapshot or "laws" in other.about
            yield other
            other = next(others, END)
        if not says:
            says = "laws" in event.about
            if event.kind == "Submit" and not event.hash:
                row = event.action["workflow"]
                event = event._replace(about={"needs": {row["id"]: needs(row["spec_hash"])}})
        yield event
    yield from () if other is END else (other, *others)


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


def _of_database(path: str, after: int, upto: int) -> Iterator[Item]:
    with _connected(path) as (connection, version):
        connection.execute("BEGIN")

        def spec(hash: str) -> Any:
            found = connection.execute(_SPEC, (hash,)).fetchone()
            return json.loads(found[0]) if found else {}

        queries = _QUERIES if version >= KEPT else _OLD_QUERIES
        yield from _items(path, spec, *(connection.execute(each, (after, upto)) for each in queries))


def _items(
    path: str, spec: Callable[[str], Any], events: Iterable[Any], left: Iterable[Any] = (), kept: Iterable[Any] = ()
) -> Iterator[Item]:
    """*spec*: hash → specification. *events*, *left*, *kept*: rows of `_COLUMNS`."""

    @lru_cache(10_000)
    def needs(hash: str) -> Any:
        return {group["name"]: group.get("upstream", []) for group in spec(hash).get("groups", ())}

    whole = (_snapshot(path, *row) for row in kept)
    return merged(_events(events), _leaves(left), whole, needs)


def _events(rows: Iterable[Any]) -> Iterator[Event]:
    new = tuple.__new__  # Without the steps that a named tuple adds.
    for revision, seq, time, actor, kind, law, text, hash, about in rows:
        at = _microseconds(time)
        leaf = leaf_of(revision, seq, at, actor, kind, law, text)
        facts, said = (NOTHING, b"") if about is None else (loads(about), about.encode())
        ends = b"" if hash is None else _hash(hash)
        yield new(Event, (revision, seq, at, actor, kind, law, loads(text), leaf, ends, facts, said))


def _leaves(rows: Iterable[Any]) -> Iterator[Event]:
    for revision, seq, leaf, hash, about in rows:
        facts, said = (NOTHING, b"") if about is None else (loads(about), about.encode())
        yield Event(revision, seq, leaf=leaf, hash=_hash(hash), about=facts, said=said)


@lru_cache(10_000)
def _microseconds(text: str) -> int:
    """Raises ValueError for other bytes than those that were written."""
    moment = datetime.fromisoformat(text)
    if moment.isoformat(" ", "microseconds") != text:
        raise ValueError(f"{text:.80} was changed")
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _hash(stored: bytes | None) -> bytes:
    """Raises ValueError for other bytes than those that were written."""
    if stored is None:
        return b""
    if type(stored) is not bytes or not stored:
        raise ValueError(f"{stored!r:.80} was changed")
    return stored


def _snapshot(path: str, revision: int, time: str, packed: bytes) -> Snapshot:
    found = snapshot_of(_unpacked(packed, path))
    whole = (found.revision, found.time) == (revision, _microseconds(time))
    return found if whole else found._replace(digest="")  # Then it is not the one that a commit names.


def _unpacked(packed: bytes, path: str) -> bytes:
    """Raises Unreadable for what unpacks to far more than a snapshot."""
    unpacker = zlib.decompressobj()
    text = unpacker.decompress(packed, LONGEST_LINE // 8 + 200 * len(packed))
    if not unpacker.eof or unpacker.unused_data:
        raise Unreadable(f"{path} is damaged: a snapshot is too large or incomplete")
    return text


def _of_backup(path: str) -> Iterator[Item]:
    specs: dict[str, Any] = dict(_rows(path, "specifications", ("hash", "spec")))
    yield from _items(path, lambda hash: specs.get(hash, {}), *(_rows(path, *each) for each in _COLUMNS.items()))


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text[2:])


_STORED: Mapping[str, Callable[[Any], Any]] = {
    "action": dumps,
    "about": lambda plain: None if plain is None else dumps(plain),
    **dict.fromkeys(("hash", "leaf", "content"), _bytes),
}
"""Column → converts a value of a backup to that of a database."""


def _rows(path: str, wanted: str, names: Iterable[str]) -> Iterator[Any]:
    """The columns *names* of a table, those of the log as a database has them."""
    stored = _STORED if wanted in _COLUMNS else {}
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
                row = dict(zip(columns, entry, strict=True))
                yield [stored[name](row[name]) if name in stored else row[name] for name in names]
        if not ended:
            raise Unreadable(f"{path} is cut off: its last line is missing")


def _lines(file: gzip.GzipFile, path: str) -> Iterator[bytes]:
    """A small file can have very long ones."""
    while line := file.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE or sum(map(line.count, (b",", b"[", b"{"))) > MOST_VALUES:
            raise Unreadable(f"{path} is damaged: a line is too long")
        yield line


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
