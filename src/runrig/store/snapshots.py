"""Snapshots: all that was alive at a revision, so that `runrig verify` can begin there (docs/event-export.md).

A snapshot is written as the actions that make it. The commit after it names its hash, so the chain covers it.
"""

import hashlib
import zlib
from collections.abc import Callable, Iterator

from sqlalchemy import Connection, delete, func, select

from runrig.domain import plan
from runrig.domain.budgets import Owner
from runrig.domain.gangs import HOLDING, GangState
from runrig.domain.limits import Limits
from runrig.domain.records import Loaded
from runrig.domain.workflows import Group, Status
from runrig.store import schema
from runrig.store.codec import dumps, encode_action
from runrig.store.dialect import insert_rows
from runrig.store.transactions import Tables, Transactions

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


class SqlSnapshots(Tables):
    """`ports.store.SnapshotStore`. *load*: reads what is alive."""

    def __init__(self, transactions: Transactions, load: Callable[[], Loaded]) -> None:
        super().__init__(transactions)
        self._load = load
        self._last: tuple[int, int] | None = None
        self.unnamed: tuple[int, str] | None = None
        """The revision and the hash of the newest snapshot, until a commit has named it."""

    def is_due(self, revision: int) -> bool:
        if self._last is None:
            self._last = next(((row.revision, row.size) for row in self._rows(_LAST)), (0, 0))
        last, size = self._last
        return revision - last >= max(LEAST, size // SHARE)

    def take(self) -> int | None:
        """Writes a snapshot of the newest revision, and returns that; None if its commit has no hash or was deleted.

        Costs what a server's start costs: it reads everything that is alive.
        """
        loaded = self._load()
        of_it = select(_EVENT.time, _EVENT.hash).where(_EVENT.revision == loaded.revision, _EVENT.hash.is_not(None))
        if not (rows := self._rows(of_it)):
            return None
        (row,) = rows
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


def _actions(loaded: Loaded) -> Iterator[plan.Action]:
    """Yields what turns an empty state into this one."""
    yield plan.SetFlavors(loaded.flavors)
    yield from map(plan.PutNode, loaded.nodes)
    yield from map(plan.PutCohort, loaded.cohorts)
    yield from map(plan.PutPool, sorted(loaded.pools, key=lambda pool: (pool.parent is not None, pool.name)))
    yield from (plan.PutLimits(each, Limits(user=each.user)) for each in loaded.limits)
    groups: dict[str, list[Group]] = {}
    for group in loaded.groups:
        groups.setdefault(group.workflow, []).append(group)
    for workflow in sorted(loaded.workflows, key=lambda each: (each.submit_time, each.id)):
        yield plan.Submit.of(workflow, groups.get(workflow.id, ()), loaded.specs[workflow.spec_hash])
    latest = {(task.workflow, task.name): task for task in sorted(loaded.tasks, key=lambda each: each.key)}
    for task in latest.values():
        if task.status.finished or task.status is Status.RESCHEDULED:
            yield plan.MoveTask(task.key, task.status)
    for row in loaded.gangs:
        yield plan.Queue(row.gang)
        if row.state in HOLDING:
            yield plan.Admit(row.gang.id, row.placement)
        if row.state is GangState.STOPPING:
            yield plan.Stop(row.gang.id, Status.FAILED_CANCELED)
    for row in loaded.gangs:
        if row.state is GangState.NOMINATED:
            yield plan.Nominate(row.gang.id, row.placement, row.waits_for)
    pools, users = {each.name: each.budget for each in loaded.pools}, {each.user: each.budget for each in loaded.limits}
    for spent in loaded.spent:
        yield plan.SetSpent(spent, (pools if spent.of == Owner.POOL else users).get(spent.name))
