"""The chain of hashes over the log, which shows whether any of it was changed (docs/event-export.md).

The hash of a commit covers the one before it, its revision, the leaf of each of its events, and what it says about itself. It is
stored with the last event. When retention deletes events, their leaves stay.
"""

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, delete, select

from runrig.domain.errors import InvalidInput
from runrig.domain.gangs import Gang
from runrig.store import schema
from runrig.store.codec import dumps, encode, loads
from runrig.store.dialect import Dumped, insert_rows
from runrig.store.rows import Row
from runrig.store.text import checked_dumps

START = bytes(32)
"""Before the first commit."""
_EVENT, _LEAF = schema.events.c, schema.leaves.c
HASHED = (
    *(_EVENT.revision, _EVENT.seq, _EVENT.time, _EVENT.actor, _EVENT.kind, _EVENT.law, _EVENT.action),
    *(_EVENT.hash, _EVENT.about),
)
_NEWEST = tuple(
    select(each.revision, each.hash).where(each.hash.is_not(None)).order_by(each.revision.desc()).limit(1)
    for each in (_EVENT, _LEAF)
)


def head(connection: Connection) -> tuple[int, bytes]:
    """Returns the last revision in the chain and its hash."""
    found = [row for each in _NEWEST for row in connection.execute(each)]
    return max(((row.revision, row.hash) for row in found), default=(0, START))


def head_text(connection: Connection) -> str:
    """Returns the hash in hexadecimal; "" if no commit has one."""
    at, hash = head(connection)
    return hash.hex() if at else ""


def chained(rows: Sequence[Row], before: bytes, about: Mapping[int, Any]) -> tuple[list[Row], bytes]:
    """Returns the rows of new events, without *hash* and *about*, as they are stored; and the new head. Actions are encoded once.

    *about*: by revision.
    """
    found: list[Row] = []
    for revision, several in groupby(rows, key=itemgetter(0)):
        digest = hashlib.sha256(before + revision.to_bytes(8))
        for row in several:
            _, seq, time, actor, kind, action, law, *whose = row
            text = checked_dumps(action)
            digest.update(_leaf(revision, seq, time, actor, kind, law, text))
            found.append((revision, seq, time, actor, kind, Dumped(action, text), law, *whose, None, None))
        said = None
        if revision in about:
            plain = _plain(about[revision])
            said = Dumped(plain, checked_dumps(plain))
            digest.update(said.text.encode())
        before = digest.digest()
        found[-1] = (*found[-1][:-2], before, said)
    return found, before


def _plain(about: Mapping[str, Any]) -> Mapping[str, Any]:
    if "refused" not in about:
        return about
    return {**about, "refused": [each for each in map(_storable, about["refused"]) if each]}


def _storable(refused: Mapping[str, Any]) -> Any:
    """Writes a gang that was refused as one that is queued. None if that cannot be stored: the commit is another user's."""
    gang = {"gang": encode(Gang, refused["gang"])} if "gang" in refused else {}
    try:
        return loads(checked_dumps({**refused, **gang}))
    except (InvalidInput, TypeError, ValueError):
        return None


def keep_leaves(connection: Connection, which: Any) -> int:
    """Deletes the events that match *which*, but not their leaves; returns how many."""
    rows = [
        (revision, seq, _leaf(revision, seq, time, actor, kind, law, dumps(action)), *kept)
        for revision, seq, time, actor, kind, law, action, *kept in connection.execute(select(*HASHED).where(which))
    ]
    insert_rows(connection, schema.leaves, rows)
    return connection.execute(delete(schema.events).where(which)).rowcount


def _leaf(revision: int, seq: int, time: float, actor: str, kind: str, law: str, action: str) -> bytes:
    """The hash of the first seven values of its line in an export."""
    words = _quoted(actor), _quoted(kind), _quoted(law), action
    return hashlib.sha256(f"[{revision},{seq},{round(time * 1_000_000)},{','.join(words)}]".encode()).digest()


_quoted = lru_cache(1_000)(dumps)
