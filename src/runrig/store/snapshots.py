"""Snapshots: all that was alive at a revision, so that `runrig verify` can begin there (docs/event-export.md).

A snapshot is written as the actions that make it. The commit after it names its hash, so the chain covers it.
"""

import hashlib
import zlib
from collections.abc import Callable, Iterator

from sqlalchemy import Connection, delete, func, select

from runrig.domain.budgets import Owner
from runrig.domain.gangs import GangState
from runrig.domain.limits import Limits
from runrig.domain.plan import (
    Action,
    Admit,
    MoveTask,
    Nominate,
    PutCohort,
    PutLimits,
    PutNode,
    PutPool,
    Queue,
    SetFlavors,
    SetSpent,
    Stop,
    Submit,
)
from runrig.domain.records import Loaded
from runrig.domain.workflows import Group, Status
from runrig.store import schema
from runrig.store.codec import dumps, encode_action
from runrig.store.dialect import insert_rows
from runrig.store.transactions import Transactions

LEAST = 1_000
"""Revisions between two snapshots, at least."""
SHARE = 5
"""Bytes of the last snapshot per revision: a revision takes at least some 250 bytes, so snapshots are at most 2 % of the log."""
_SNAPSHOT, _EVENT = schema.snapshots.c, schema.events.c
_LAST = (
    select(_SNAPSHOT.revision, func.length(_SNAPSHOT.content).label("size"))
    .order_by(_SNAPSHOT.revision.desc())
    .limit(1)
)


class SqlSnapshots:
    """`ports.store.SnapshotStore`. *load*: reads what is alive."""

    def __init__(self, transactions: Transactions, load: Callable[[], Loaded]) -> None:
        self._transactions = transactions
        self._load = load
        self._last: tuple[int, int] | None = None
        self.unnamed: tuple[int, str] | None = None
        """The revision and the hash of the newest snapshot, until a commit has named it."""

    def is_due(self, revision: int) -> bool:
        if self._last is None:
            with self._transactions.reading() as connection:
                row = connection.execute(_LAST).one_or_none()
            self._last = (0, 0) if row is None else (row.revision, row.size)
        last, size = self._last
        return revision - last >= max(LEAST, size // SHARE)

    def take(self) -> int | None:
        """Writes a snapshot of the newest revision, and returns that; None if its commit has no hash or was deleted.

        Costs what a server's start costs: it reads everything that is alive.
        """
        loaded = self._load()
        of_it = select(_EVENT.time, _EVENT.hash).where(_EVENT.revision == loaded.revision, _EVENT.hash.is_not(None))
        with self._transactions.reading() as connection:
            row = connection.execute(of_it).one_or_none()
        if row is None:
            return None
        needs = {
            each.id: found
            for each in loaded.workflows
            if (
                found := {group.name: group.upstream for group in loaded.specs[each.spec_hash].groups if group.upstream}
            )
        }
        actions = [encode_action(each) for each in _actions(loaded)]
        text = dumps([loaded.revision, round(row.time * 1_000_000), row.hash.hex(), needs, actions]).encode()
        content = zlib.compress(text)
        with self._transactions.writing() as connection:
            newest = connection.execute(_LAST).one_or_none()
            if newest is None or newest.revision < loaded.revision:
                insert_rows(connection, schema.snapshots, [(loaded.revision, row.time, content)])
        self._last = loaded.revision, len(content)
        self.unnamed = loaded.revision, hashlib.sha256(text).hexdigest()
        return loaded.revision


def forget(connection: Connection, until: float) -> None:
    """Deletes the snapshots up to the time *until*."""
    connection.execute(delete(schema.snapshots).where(_SNAPSHOT.time <= until))


def _actions(loaded: Loaded) -> Iterator[Action]:
    """Yields what turns an empty state into this one."""
    yield SetFlavors(loaded.flavors)
    yield from map(PutNode, loaded.nodes)
    yield from map(PutCohort, loaded.cohorts)
    yield from map(PutPool, sorted(loaded.pools, key=lambda pool: (pool.parent is not None, pool.name)))
    yield from (PutLimits(each, Limits(user=each.user)) for each in loaded.limits)
    groups: dict[str, list[Group]] = {}
    for group in loaded.groups:
        groups.setdefault(group.workflow, []).append(group)
    for workflow in sorted(loaded.workflows, key=lambda each: (each.submit_time, each.id)):
        yield Submit.of(workflow, groups.get(workflow.id, ()), loaded.specs[workflow.spec_hash])
    latest = {(task.workflow, task.name): task for task in sorted(loaded.tasks, key=lambda each: each.key)}
    for task in latest.values():
        if task.status.finished or task.status is Status.RESCHEDULED:
            yield MoveTask(task.key, task.status)
    for row in loaded.gangs:
        yield Queue(row.gang)
        if row.state in (GangState.ADMITTED, GangState.STOPPING):
            yield Admit(row.gang.id, row.placement)
        if row.state is GangState.STOPPING:
            yield Stop(row.gang.id, Status.FAILED_CANCELED)
    for row in loaded.gangs:
        if row.state is GangState.NOMINATED:
            yield Nominate(row.gang.id, row.placement, row.waits_for)
    pools, users = {each.name: each.budget for each in loaded.pools}, {each.user: each.budget for each in loaded.limits}
    for spent in loaded.spent:
        yield SetSpent(spent, (pools if spent.of == Owner.POOL else users).get(spent.name))
