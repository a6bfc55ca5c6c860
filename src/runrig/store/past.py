"""The past in the database: checkpoints, and the part of the log between them that changes a ledger."""

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, fields, replace
from typing import Any, get_args

from sqlalchemy import Connection, Select, Text, and_, cast, func, insert, or_, select, true

from runrig.domain.gangs import IN_QUEUE, Gang, GangState, PodSet
from runrig.domain.plan import Decision, Declaration, Preempt, Queue, Release, Submit, Unqueue, WorkflowMove
from runrig.domain.records import Event, GangRow
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Workflow
from runrig.ports.past import NOBODY, Checkpoint, ClusterAt, Declared, Growth, Moment, Present, Queued
from runrig.ports.store import WorkflowQuery
from runrig.store import schema
from runrig.store import waiting as who_waited
from runrig.store.checkpoints import cluster_of, gangs_of, packed_cluster, packed_gangs
from runrig.store.codec import Undecodable, decode, loads
from runrig.store.filters import filters
from runrig.store.log import EVENTS
from runrig.store.ordering import paged
from runrig.store.reading import Reader, as_stored
from runrig.store.retention import counts
from runrig.store.rows import KINDS, event_of
from runrig.store.transactions import Tables, Transactions, in_parts

_CHECKPOINT = schema.checkpoints.c
_EVENT = schema.events.c
_WORKFLOW = schema.workflows.c
_DECISIONS = tuple(each.__name__ for each in get_args(Decision))
STEPS = (*_DECISIONS, *(each.__name__ for each in get_args(Declaration)))
_NUMBERS = tuple(_CHECKPOINT[each.name] for each in fields(Checkpoint))
_GANG = schema.gangs.c
_WAITS = _GANG.state == GangState.PENDING
_AT_ONCE = 1_000
"""Gangs read per batch."""
_ROW_BYTES = 60
"""Minimum size of an event without its action."""


class SqlPast(Tables):
    """`ports.past.PastStore`.

    Caches the cluster of the last checkpoint read or written, because most checkpoints have the same.
    """

    def __init__(self, transactions: Transactions) -> None:
        super().__init__(transactions)
        self._cluster: tuple[int, Declared] = (-1, Declared((), (), (), ()))
        self._wholes = who_waited.Wholes()

    # ------------------------------------------------------------ checkpoints

    def checkpoints(self) -> tuple[Checkpoint, ...]:
        return tuple(Checkpoint(*row) for row in self._rows(select(*_NUMBERS).order_by(_CHECKPOINT.revision)))

    def first_checkpoint(self) -> Checkpoint | None:
        return self._at_end(_CHECKPOINT.revision)

    def last_checkpoint(self) -> Checkpoint | None:
        return self._at_end(_CHECKPOINT.revision.desc())

    def _at_end(self, order: Any) -> Checkpoint | None:
        return next((Checkpoint(*row) for row in self._rows(select(*_NUMBERS).order_by(order).limit(1))), None)

    def base(self, revision: int, *, than: int = -1, waiting: bool = True) -> ClusterAt | None:
        newest = (
            select(_CHECKPOINT.revision, _CHECKPOINT.time, _CHECKPOINT.cluster_at, _CHECKPOINT.gangs)
            .where(_CHECKPOINT.revision <= revision, _CHECKPOINT.revision > than)
            .order_by(_CHECKPOINT.revision.desc())
            .limit(1)
        )
        with self._transactions.reading() as connection:
            row = connection.execute(newest).one_or_none()
            if row is None:
                return None
            with suppress(Undecodable):
                declared = self._declared(connection, row.cluster_at)
                queued = self._wholes.waiting(connection, row.revision) if waiting else NOBODY
                gangs = gangs_of(row.gangs, [node.name for node in declared.nodes])
                return ClusterAt(row.revision, row.time, declared, gangs, queued)
        return self.base(row.revision - 1, than=than, waiting=waiting)  # It is damaged, so the one before serves.

    def growth(self, after: int, upto: int | None = None) -> Growth | None:
        new = _EVENT.revision > after if upto is None else and_(_EVENT.revision > after, _EVENT.revision <= upto)
        sums = select(
            func.max(_EVENT.revision),
            func.max(_EVENT.time),
            func.count().filter(_EVENT.kind.in_(_DECISIONS)),
            func.count(),
            func.sum(func.length(cast(_EVENT.action, Text))),
        ).where(new)
        taken = select(_EVENT.time).where(new, _EVENT.kind == Preempt.__name__).order_by(_EVENT.revision, _EVENT.seq)
        with self._transactions.reading() as connection:
            revision, time, decisions, events, size = connection.execute(sums).one()
            if not events:
                return None
            preempted = tuple(connection.execute(taken).scalars())
        return Growth(after, revision, time, decisions, size + _ROW_BYTES * events, preempted)

    def now(self) -> Present | None:
        with self._transactions.reading() as connection:
            revision = connection.execute(select(schema.meta.c.revision)).scalar_one()
            newest = select(_EVENT.time).order_by(_EVENT.revision.desc(), _EVENT.seq.desc()).limit(1)
            time = connection.execute(newest).scalar_one_or_none()
            if time is None:
                return None
            reader = Reader(connection)
            flavors = sorted(reader.records("Flavor"), key=lambda flavor: (flavor.position, flavor.name))
            cohorts, pools = reader.records("Cohort"), reader.records("Pool")
            declared = Declared(tuple(flavors), reader.records("Node"), cohorts, pools, reader.records("Limits"))
            gangs: tuple[GangRow, ...] = reader.records("GangRow", or_(~_WAITS, _GANG.refused != ""))
            queued, whole = _queued(connection, reader)
            return Present(revision, time, declared, gangs, queued, whole, _asked(connection))

    def write(self, checkpoint: Checkpoint, present: Present, most: int | None) -> int:
        with self._transactions.reading() as connection:
            newest = connection.execute(_NEWEST).one_or_none()
            cluster_at = None if newest is None else newest.cluster_at
            same = False
            with suppress(Undecodable):
                same = cluster_at is not None and self._declared(connection, cluster_at) == present.declared
            paid = who_waited.bytes_since(connection)
        cluster = None if same else packed_cluster(present.declared)
        gangs = packed_gangs(present.gangs, [node.name for node in present.declared.nodes])
        queued = who_waited.packed_queued(present.queued)
        # A whole is at most twice as large as the changes since the last one, so it costs no more than they did.
        size = len(gangs) + len(cluster or b"") + (max(0, len(queued) - 2 * paid) if present.whole else 3 * len(queued))
        if most is not None and size > most:
            return size
        kept = {"cluster_at": cluster_at if same else checkpoint.revision, "cluster": cluster, "gangs": gangs}
        part = (checkpoint.revision, present.whole, len(present.queued), queued)
        with self._transactions.writing() as connection:
            if connection.execute(_NEWEST).one_or_none() == newest:  # Retention may have deleted it first.
                connection.execute(insert(schema.checkpoints).values({**asdict(checkpoint), **kept}))
                connection.execute(insert(schema.waiting).values(part))
        return size

    def _declared(self, connection: Connection, cluster_at: int) -> Declared:
        known, declared = self._cluster
        if known != cluster_at:
            kept = select(_CHECKPOINT.cluster).where(_CHECKPOINT.revision == cluster_at)
            declared = cluster_of(connection.execute(kept).scalar_one())
            self._cluster = cluster_at, declared
        return declared

    # ------------------------------------------------------------ the log

    def steps(self, *, after: int, upto: int) -> tuple[Event, ...]:
        return self._events(_EVENT.revision > after, _EVENT.revision <= upto, _EVENT.kind.in_(STEPS))

    def events_between(self, *, after: int, upto: int, without: tuple[type, ...]) -> tuple[Event, ...]:
        kinds = [each.__name__ for each in without]
        return self._events(_EVENT.revision > after, _EVENT.revision <= upto, _EVENT.kind.not_in(kinds), counts())

    def of_workflow(self, id: str, upto: int) -> tuple[Event, ...]:
        return self._events(_EVENT.workflow == id, _EVENT.revision <= upto, counts())

    def queues(self, ids: Collection[str], upto: int) -> tuple[Event, ...]:
        kinds = [each.__name__ for each in (Queue, Unqueue, Release)]
        upto_then = _EVENT.revision <= upto, _EVENT.kind.in_(kinds)
        return tuple(
            event
            for part in in_parts(list(ids), _AT_ONCE)
            for event in self._events(_EVENT.workflow.in_(part), *upto_then)
        )

    def moves(self, ids: Collection[str], upto: int) -> tuple[Event, ...]:
        kinds = [each.__name__ for each in (Submit, *get_args(WorkflowMove))]
        return self._events(_EVENT.workflow.in_(ids), _EVENT.revision <= upto, _EVENT.kind.in_(kinds))

    def _events(self, *where: Any) -> tuple[Event, ...]:
        return self._all(event_of, EVENTS.where(*where))

    # ------------------------------------------------------------ times

    def at_time(self, time: float) -> Moment | None:
        """Bisects: times increase with revisions."""
        with self._transactions.reading() as connection:
            low, high = _moment(connection, _FIRST), _moment(connection, _LAST)
            if low is None or high is None or low.time > time:
                return None
            if high.time <= time:
                return high
            above = high.revision
            while above - low.revision > 1:
                middle = (low.revision + above) // 2
                found = _moment(connection, _FIRST.where(_EVENT.revision >= middle))
                if found is None or found.revision >= above or found.time > time:
                    above = middle
                else:
                    low = found
            return low

    def at_revision(self, revision: int) -> Moment | None:
        with self._transactions.reading() as connection:
            found = _moment(connection, _LAST.where(_EVENT.revision <= revision))
        return None if found is None else Moment(revision, found.time)

    def beside(self, revision: int) -> tuple[int | None, int | None]:
        step = _EVENT.kind.in_(STEPS)
        with self._transactions.reading() as connection:
            before = _moment(connection, _LAST.where(_EVENT.revision < revision, step))
            after = _moment(connection, _FIRST.where(_EVENT.revision > revision, step))
        return None if before is None else before.revision, None if after is None else after.revision

    # ------------------------------------------------------------ workflows

    def workflows(self, query: WorkflowQuery, at: float) -> tuple[Workflow, ...]:
        then = _WORKFLOW.submit_time <= at, _may_have_been(query.statuses, at)
        every = select(schema.workflows).where(*filters(replace(query, statuses=())), *then)
        statement = paged(every, replace(query, order=""), query.limit)
        return self._all(KINDS["Workflow"].of_row, statement)


def _queued(connection: Connection, reader: Reader) -> tuple[Queued, bool]:
    """Returns the pending gangs as in `Present`, and whether they are complete."""
    last = connection.execute(_NEWEST).one_or_none()
    since = _EVENT.revision > (-1 if last is None else last.revision)
    decided = select(_EVENT.workflow).where(since, _EVENT.kind.in_(_DECISIONS)).distinct().order_by(_EVENT.workflow)
    changed = () if last is None else tuple(connection.execute(decided).scalars())
    if whole := last is None or who_waited.is_whole_due(connection, len(changed)):
        return _by_workflow(_all_that_wait(reader)), whole
    parts = in_parts(changed, _AT_ONCE)
    found = (row for part in parts for row in reader.records("GangRow", _WAITS, _GANG.workflow.in_(part)))
    return {**dict.fromkeys(changed, ()), **_by_workflow(found)}, whole


def _all_that_wait(reader: Reader) -> Iterator[GangRow]:
    """Yields in small batches, so that other threads can run in between."""
    last = ""
    while True:
        behind = select(_GANG.id).where(_WAITS, _GANG.id > last).order_by(_GANG.id).limit(_AT_ONCE)
        rows = reader.records("GangRow", _GANG.id.in_(behind))
        yield from rows
        if len(rows) < _AT_ONCE:
            return
        last = rows[-1].gang.id


def _by_workflow(rows: Iterable[GangRow]) -> dict[str, tuple[Gang, ...]]:
    found: dict[str, tuple[Gang, ...]] = {}
    for row in rows:
        gang = replace(row.gang, refused="") if row.gang.refused else row.gang
        found[gang.workflow] = (*found.get(gang.workflow, ()), gang)
    return found


def _asked(connection: Connection) -> tuple[tuple[tuple[PodSet, ...], int], ...]:
    """As in `Present`."""
    sets = as_stored(_GANG.pod_sets, connection.dialect.name)
    waiting_or_promised = _GANG.state.in_(IN_QUEUE)
    counted = select(sets, func.count()).where(waiting_or_promised).group_by(sets)
    return tuple((decode(tuple[PodSet, ...], loads(text)), gangs) for text, gangs in connection.execute(counted))


_NEWEST = select(_CHECKPOINT.revision, _CHECKPOINT.cluster_at).order_by(_CHECKPOINT.revision.desc()).limit(1)
_FIRST = select(_EVENT.revision, _EVENT.time).order_by(_EVENT.revision, _EVENT.seq).limit(1)
_LAST = select(_EVENT.revision, _EVENT.time).order_by(_EVENT.revision.desc(), _EVENT.seq.desc()).limit(1)


def _moment(connection: Connection, statement: Select[Any]) -> Moment | None:
    row = connection.execute(statement).one_or_none()
    return None if row is None else Moment(*row)


def _may_have_been(statuses: Collection[str], at: float) -> Any:
    """Returns a condition: the workflow may have had one of *statuses* at that time."""
    if not statuses:
        return true()
    lived = or_(_WORKFLOW.end_time.is_(None), _WORKFLOW.end_time >= at)
    found = []
    if WorkflowStatus.PENDING.value in statuses:
        found.append(lived)
    if WorkflowStatus.RUNNING.value in statuses:
        found.append(and_(lived, _WORKFLOW.start_time <= at))
    ended = [each for each in statuses if WorkflowStatus(each).finished]
    if ended:
        found.append(and_(_WORKFLOW.end_time <= at, _WORKFLOW.status.in_(ended)))
    return or_(*found)
