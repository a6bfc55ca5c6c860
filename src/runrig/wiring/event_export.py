"""Writes the event log as lines that `runrig verify` reads, for `runrig export --events` (docs/event-export.md)."""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import cache
from typing import Any, TextIO

from sqlalchemy import ColumnElement, Table, Text, cast, exists, literal, or_, select

from runrig.domain.errors import InvalidInput
from runrig.store import SqlStore, schema
from runrig.store.backup import check_tables
from runrig.store.chain import HASHED
from runrig.store.codec import dumps
from runrig.verify.chain import Event, Snapshot, Unreadable, leaf_of, said, snapshot_of
from runrig.verify.reading import FORMAT, log, merged

AT_ONCE = 2_000
_EVENT, _LEAF, _SPEC, _SNAPSHOT = schema.events.c, schema.leaves.c, schema.specifications.c, schema.snapshots.c
_LOG = select(*HASHED).order_by(_EVENT.revision, _EVENT.seq)
_KEPT = select(_SNAPSHOT.content).order_by(_SNAPSHOT.revision)
_LEFT = select(_LEAF.revision, _LEAF.seq, _LEAF.leaf, _LEAF.hash, _LEAF.about).order_by(_LEAF.revision, _LEAF.seq)


def export_events(database: str, out: TextIO) -> int:
    """Writes the log of a SQLite file, a PostgreSQL URL, a backup or another export to *out*; returns the number of events.

    Raises InvalidInput if it is none of these or damaged; of a database that cannot be used, what `SqlStore.look` raises.
    """
    count = 0
    out.write(f"{dumps({'runrig_events': FORMAT})}\n")
    try:
        for event in url_log(database) if "://" in database else log(database):
            out.write(f"{dumps(event.line())}\n")
            count += isinstance(event, Event)
    except Unreadable as error:
        raise InvalidInput.one(str(error)) from error
    out.write(f"{dumps({'events': count})}\n")
    return count


def url_snapshots(url: str) -> list[int]:
    """As `verify.reading.snapshots`, of the database with this URL. Raises what `SqlStore.look` raises."""
    named = or_(_named(schema.events), _named(schema.leaves))
    found = select(_SNAPSHOT.revision).where(named).order_by(_SNAPSHOT.revision)
    with closing(SqlStore.look(url)) as store, store.transactions.reading() as connection:
        return list(connection.execute(found).scalars())


def _named(table: Table) -> ColumnElement[bool]:
    """Returns a condition: a later commit in *table* names the snapshot."""
    names = literal('%"snapshot":[') + cast(_SNAPSHOT.revision, Text) + literal(",%")
    return exists().where(table.c.revision > _SNAPSHOT.revision, cast(table.c.about, Text).like(names))


def url_log(url: str, after: int = 0) -> Iterator[Event | Snapshot]:
    """As `verify.reading.log`, of the database with this URL. Raises what `SqlStore.look` raises."""
    with closing(SqlStore.look(url)) as store, store.transactions.reading() as connection:
        check_tables(connection)

        @cache
        def needs(hash: str) -> Mapping[str, Sequence[str]]:
            spec = connection.execute(select(_SPEC.spec).where(_SPEC.hash == hash)).scalar()
            return {} if spec is None else {each.name: each.upstream for each in spec.groups}

        kept = connection.execute(_KEPT.where(_SNAPSHOT.revision >= after)).scalars().all()
        streamed = connection.execution_options(yield_per=AT_ONCE)
        left = (
            Event(
                row.revision, row.seq, leaf=row.leaf, hash=row.hash or b"", about=row.about or {}, said=said(row.about)
            )
            for row in streamed.execute(_LEFT.where(_LEAF.revision > after))
        )
        events = (_event(row) for row in streamed.execute(_LOG.where(_EVENT.revision > after)))
        snapshots = (snapshot_of(zlib.decompress(each)) for each in kept)
        yield from merged(events, left, snapshots, needs)


def _event(row: Any) -> Event:
    revision, seq, time, actor, kind, law, action, hash, about = row
    at = round(time * 1_000_000)
    leaf = leaf_of(revision, seq, at, actor, kind, law, dumps(action))
    return Event(revision, seq, at, actor, kind, law, action, leaf, hash or b"", about or {}, said(about))
