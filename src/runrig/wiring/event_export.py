"""Writes the event log as lines that `runrig verify` reads, for `runrig export --events` (docs/event-export.md)."""

from collections.abc import Iterator
from typing import TextIO

from sqlalchemy import select

from runrig.domain.errors import InvalidInput
from runrig.store import SqlStore, schema
from runrig.store.backup import check_tables
from runrig.store.codec import dumps
from runrig.verify.reading import FORMAT, Row, Unreadable, rows

AT_ONCE = 2_000
_EVENT = schema.events.c
_SPEC = schema.specifications.c


def export_events(database: str, out: TextIO) -> int:
    """Writes the log of a SQLite file, a PostgreSQL URL, a backup or another export to *out*; returns the number of events.

    Raises InvalidInput if it is none of these or damaged; of a database that cannot be used, what `SqlStore.look` raises.
    """
    count = 0
    out.write(f"{dumps({'runrig_events': FORMAT})}\n")
    try:
        for row in _of_url(database) if "://" in database else rows(database):
            out.write(f"{dumps(row)}\n")
            count += 1
    except Unreadable as error:
        raise InvalidInput.one(str(error)) from error
    out.write(f"{dumps({'events': count})}\n")
    return count


def _of_url(url: str) -> Iterator[Row]:
    store = SqlStore.look(url)
    try:
        with store.transactions.reading() as connection:
            check_tables(connection)
            needs = {
                hash: {each.name: each.upstream for each in spec.groups}
                for hash, spec in connection.execute(select(_SPEC.hash, _SPEC.spec))
            }
            columns = _EVENT.revision, _EVENT.seq, _EVENT.time, _EVENT.actor, _EVENT.kind, _EVENT.law, _EVENT.action
            log = select(*columns).order_by(_EVENT.revision, _EVENT.seq)
            for revision, seq, time, *rest in connection.execution_options(yield_per=AT_ONCE).execute(log):
                row = (revision, seq, round(time * 1_000_000), *rest)
                yield (*row, needs.get(rest[-1]["workflow"]["spec_hash"], {})) if rest[1] == "Submit" else row
    finally:
        store.close()
