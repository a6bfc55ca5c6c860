"""Pending gangs at each checkpoint: all of them now and then; in between only the changes since the previous
checkpoint.

So a checkpoint costs the decisions since the last one, even with a hundred thousand pending gangs. Once the changes
cover as many workflows as the last whole, a new whole is written, so a reader reads at most twice the size.

Stored as compressed JSON, in parts of some hundred workflows, so that no part blocks the interpreter for long.
"""

import weakref
import zlib
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from sqlalchemy import Connection, delete, func, select

from runrig.domain.gangs import Gang, PodSet, Priority
from runrig.ports.past import NOBODY, Queued, Waiting
from runrig.store import schema
from runrig.store.codec import decode, dumps, encode, loads, unpacked

_WAITING = schema.waiting.c
_AT_ONCE = 1_000
"""Workflows per part."""
_LEVEL = 6
_SETS = tuple[PodSet, ...]


def packed_queued(queued: Queued) -> bytes:
    packing = zlib.compressobj(_LEVEL)
    left, packed = iter(queued.items()), b""
    while part := list(islice(left, _AT_ONCE)):
        packed += packing.compress(dumps(_part(part)).encode() + b"\n")
    return packed + packing.flush()


def _part(queued: Iterable[tuple[str, tuple[Gang, ...]]]) -> dict[str, list[Any]]:
    """Gangs of a kind differ only by id and time. *none*: workflows without pending gangs."""
    kinds: dict[tuple[str, Priority, _SETS, int], int] = {}
    found: dict[str, list[Any]] = {"ids": [], "kind": [], "at": [], "none": []}
    for workflow, gangs in queued:
        if not gangs:
            found["none"].append(workflow)
        for gang in gangs:
            found["ids"].append(gang.id)
            found["kind"].append(kinds.setdefault((gang.pool, gang.priority, gang.pod_sets, gang.attempt), len(kinds)))
            found["at"].append(gang.submitted_at)
    found["kinds"] = [[pool, priority.value, encode(_SETS, sets), attempt] for pool, priority, sets, attempt in kinds]
    return found


def queued_of(packed: bytes) -> "Whole":
    found = Whole()
    for line in unpacked(packed).splitlines():
        part = loads(line)
        kinds = [
            (pool, Priority(priority), decode(_SETS, sets), attempt) for pool, priority, sets, attempt in part["kinds"]
        ]
        found |= dict.fromkeys(part["none"], ())
        for id, kind, at in zip(part["ids"], part["kind"], part["at"], strict=True):
            pool, priority, sets, attempt = kinds[kind]
            workflow = id.partition("/")[0]
            found[workflow] = (*found.get(workflow, ()), Gang(id, pool, priority, at, sets, attempt))
    return found


class Whole(dict[str, tuple[Gang, ...]]):
    """Gangs by workflow; weakly cached while in use."""

    __slots__ = ("__weakref__",)


class Wholes:
    """Reads pending gangs, and reuses the last result while it is in use."""

    def __init__(self) -> None:
        self._known: tuple[int, weakref.ref[Whole]] = -1, weakref.ref(Whole())

    def waiting(self, connection: Connection, revision: int) -> Waiting:
        """Returns the pending gangs at the checkpoint after *revision*."""
        first = first_needed(connection, revision)
        if first is None:
            return NOBODY
        known, whole = self._known[0], self._known[1]()
        skipped = known == first and whole is not None
        statement = (
            select(_WAITING.gangs)
            .where(_WAITING.revision > first if skipped else _WAITING.revision >= first, _WAITING.revision <= revision)
            .order_by(_WAITING.revision)
        )
        rows: Iterator[bytes] = connection.execute(statement).scalars()
        if not skipped or whole is None:
            whole = queued_of(next(rows))
            self._known = first, weakref.ref(whole)
        since: dict[str, tuple[Gang, ...]] = {}
        for packed in rows:
            since |= queued_of(packed)
        return Waiting(whole, since)


def first_needed(connection: Connection, revision: int | None = None) -> int | None:
    """Returns the last whole, up to *revision* if given: rows from there on are needed for a checkpoint. None: there is no whole."""
    upto = [] if revision is None else [_WAITING.revision <= revision]
    found: int | None = connection.execute(
        select(func.max(_WAITING.revision)).where(_WAITING.whole, *upto)
    ).scalar_one()
    return found


def is_whole_due(connection: Connection, workflows: int) -> bool:
    """Whether a whole must be written: there is none, or the changes since then cover as many workflows.
    *workflows*: of the newest.
    """
    first = first_needed(connection)
    if first is None:
        return True
    told = select(_WAITING.workflows).where(_WAITING.revision == first)
    since = select(func.coalesce(func.sum(_WAITING.workflows), 0)).where(_WAITING.revision > first)
    return bool(workflows + connection.execute(since).scalar_one() >= connection.execute(told).scalar_one())


def bytes_since(connection: Connection) -> int:
    """Returns the bytes of the changes since the last whole."""
    first = first_needed(connection)
    sums = select(func.coalesce(func.sum(func.length(_WAITING.gangs)), 0)).where(_WAITING.revision > (first or 0))
    return int(connection.execute(sums).scalar_one())


def forget(connection: Connection, first: int | None) -> None:
    """Deletes what only checkpoints before *first* need; None: everything."""
    needed = None if first is None else first_needed(connection, first)
    connection.execute(delete(schema.waiting).where(*([] if needed is None else [_WAITING.revision < needed])))
