"""The store on a database: the current state in ordinary tables, and the log that led to it.

One transaction per commit, which begins by advancing the revision: a server that lost leadership finds another one and
writes nothing. Where servers take turns (`store.election`) each writing transaction also checks the epoch.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Connection, Select, and_, bindparam, func, or_, select, update

from runrig.domain.errors import NotFound, Unavailable
from runrig.domain.gangs import Priority
from runrig.domain.plan import Preempt
from runrig.domain.records import Event, Loaded, RowChange
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Status, Workflow, WorkflowSpec
from runrig.ports.access import AccessStore
from runrig.ports.notices import NoticeStore
from runrig.ports.store import ALIVE, NOTHING, SpecText, StoredWorkflow, WorkflowQuery, WorkflowTotals
from runrig.store import chain, ordering, schema, sums
from runrig.store.access import AccessTables
from runrig.store.code import SqlCode
from runrig.store.codec import decode
from runrig.store.dialect import delete_rows, insert_new, insert_rows, put_rows, run
from runrig.store.log import SqlLog
from runrig.store.notices import SqlNotices
from runrig.store.opening import open_database
from runrig.store.past import SqlPast
from runrig.store.reading import Reader
from runrig.store.retention import SqlRetention, past_numbers
from runrig.store.rows import KINDS, event_row
from runrig.store.snapshots import SqlSnapshots
from runrig.store.tags import SqlTags
from runrig.store.tasks import SqlTasks
from runrig.store.transactions import Tables, Transactions
from runrig.store.usage import SqlUsage

_WORKFLOW = schema.workflows.c
_GROUP = schema.groups.c
_TASK = schema.tasks.c
_EVENT = schema.events.c
_FLAVOR = schema.flavors.c
_SPEC = schema.specifications.c
# Built once, because building such a query takes longer than running it.
_NAMED = select(schema.workflows).where(or_(_WORKFLOW.id == bindparam("name"), _WORKFLOW.uuid == bindparam("name")))
_PARTS = {
    kind: select(KINDS[kind].table).where(KINDS[kind].table.c.workflow == bindparam("workflow"))
    for kind in ("Group", "Task")
}
_SOME_PARTS = {
    kind: statement.where(name.in_(bindparam("names", expanding=True)))
    for (kind, statement), name in zip(_PARTS.items(), (_GROUP.name, _TASK.group), strict=True)
}
_PREEMPTIONS = select(_EVENT.action).where(_EVENT.workflow == bindparam("workflow"), _EVENT.kind == Preempt.__name__)
_IDS: Any = bindparam("ids", expanding=True)
_ON_NODES = _TASK.workflow.in_(_IDS), _TASK.node.is_not(None), _TASK.end_time.is_(None)
# Implements `domain.workflows.left_out`.
_PODS = (
    select(_TASK.workflow, _TASK.spec, func.count(_TASK.name.distinct()))
    .join(schema.groups, and_(_GROUP.workflow == _TASK.workflow, _GROUP.name == _TASK.group))
    .where(_TASK.workflow.in_(_IDS))
    .where(or_(_GROUP.attempt == 0, _TASK.end_time.is_(None), _TASK.end_time > _GROUP.queued_time))
    .group_by(_TASK.workflow, _TASK.spec)
)
_NODES = (
    select(_TASK.workflow, func.min(_TASK.node), func.count(_TASK.node.distinct()))
    .where(*_ON_NODES)
    .group_by(_TASK.workflow)
)
_HOLDING = (
    select(_TASK.workflow, _TASK.spec, func.count(_TASK.name)).where(*_ON_NODES).group_by(_TASK.workflow, _TASK.spec)
)
_STATUSES = (
    select(_GROUP.workflow, _GROUP.status, func.count(_GROUP.name))
    .where(_GROUP.workflow.in_(_IDS))
    .group_by(_GROUP.workflow, _GROUP.status)
)
_RUNNING_SINCE = (
    select(_GROUP.workflow, func.min(_GROUP.start_time))
    .where(_GROUP.workflow.in_(_IDS), _GROUP.status == Status.RUNNING, _GROUP.start_time.is_not(None))
    .group_by(_GROUP.workflow)
)
_NOT_PENDING = [each for each in WorkflowStatus if each is not WorkflowStatus.PENDING]
_ADVANCE = update(schema.meta).where(schema.meta.c.revision == bindparam("before")).values(revision=bindparam("after"))
_ADVANCE_IN_EPOCH = _ADVANCE.where(schema.meta.c.epoch == bindparam("in_epoch"))
_HASHED = select(_SPEC.hash, _SPEC.text, _SPEC.template, _SPEC.spec).where(_SPEC.hash == bindparam("hash"))


class SqlStore(Tables):
    """`ports.store.Store` on SQLite and on PostgreSQL."""

    def __init__(self, transactions: Transactions) -> None:
        """The database must have the tables of this version, or get them from `Transactions.migrate`."""
        super().__init__(transactions)
        self.transactions = transactions
        self._chained = (-1, chain.START)
        """The last revision that this server stored, and its hash."""
        self.access: AccessStore = AccessTables(transactions)
        self.code = SqlCode(transactions)
        self.log = SqlLog(transactions)
        self.notices: NoticeStore = SqlNotices(transactions)
        self.past = SqlPast(transactions)
        self.retention = SqlRetention(transactions)
        self.snapshots = SqlSnapshots(transactions, self.load)
        self.tags = SqlTags(transactions)
        self.tasks = SqlTasks(transactions)
        self.usage = SqlUsage(transactions)

    @classmethod
    def open(
        cls, url_or_path: str | Path, *, exclusive: bool = False, when_empty: Callable[[str], None] | None = None
    ) -> Self:
        """Opens the store, and migrates its tables if it is empty or older. Creates a missing file.

        *exclusive*: as the owner, until `close` or the end of the process. *when_empty*: see `Transactions.migrate`.

        Raises InvalidInput for an invalid URL. Raises ServerFault or Unavailable, with the way out, if another server
        owns it, it is not accessible, it is not runrig's, or a newer version wrote it.
        """
        transactions = Transactions(open_database(url_or_path, exclusive=exclusive))
        try:
            transactions.migrate(when_empty=when_empty)
        except BaseException:
            transactions.close()
            raise
        return cls(transactions)

    @classmethod
    def look(cls, url_or_path: str | Path) -> Self:
        """Opens the store as it is: creates nothing and changes no table. Raises NotFound for a missing file."""
        return cls(Transactions(open_database(url_or_path, exclusive=False, make=False)))

    def close(self) -> None:
        self.transactions.close()

    # ------------------------------------------------------------ writing

    def commit(
        self,
        revision: int,
        events: Sequence[Event],
        changes: Sequence[RowChange],
        specs: Collection[SpecText] = (),
        about: Mapping[int, Any] = NOTHING,
    ) -> None:
        """See `ports.store.Store.commit`. Of several changes to one row, the last counts."""
        first = min((event.revision for event in events), default=revision)
        assert {event.revision for event in events} <= {*range(first, revision + 1)}, "an event of another revision"
        last = {(change.kind, change.key): change for change in changes}
        if (named := self.snapshots.unnamed) is not None:
            about = {**about, first: {**about.get(first, {}), "snapshot": named}}
        with self.transactions.writing(fenced=False) as connection:
            self._advance(connection, first, revision)
            for spec in {spec.hash: spec for spec in specs}.values():
                _write_spec(connection, spec)
            by_kind: dict[str, list[RowChange]] = {}
            for change in last.values():
                by_kind.setdefault(change.kind, []).append(change)
            for kind in reversed(tuple(KINDS)):
                _delete(connection, kind, [each.key for each in by_kind.get(kind, ()) if each.record is None])
            for kind in KINDS:
                _write(connection, kind, [each.record for each in by_kind.get(kind, ()) if each.record is not None])
            _, before = self._chained if self._chained[0] == first - 1 else chain.head(connection)
            rows, head = chain.chained([event_row(event) for event in events], before, about)
            insert_rows(connection, schema.events, rows)
        self._chained = (revision, head)
        if self.snapshots.unnamed == named:
            self.snapshots.unnamed = None

    def risk(self) -> str | None:
        """Returns why a commit may not survive a power failure, and the way out; None if it does."""
        with self.transactions.reading() as connection:
            return self.transactions.database.risk(connection)

    def try_writing(self) -> None:
        self.transactions.database.room()
        with self.transactions.writing() as connection:
            connection.execute(update(schema.meta).values(revision=schema.meta.c.revision))

    def _advance(self, connection: Connection, first: int, revision: int) -> None:
        """Advances to *revision*. Raises Unavailable if *first* is not the next one, or this server may not store it."""
        statement, values = _ADVANCE, {"before": first - 1, "after": revision}
        if self.transactions.epoch is not None:
            statement, values = _ADVANCE_IN_EPOCH, values | {"in_epoch": self.transactions.epoch}
        if run(connection, statement, values):
            return
        self.transactions.check_epoch(connection)
        stored = connection.execute(select(schema.meta.c.revision)).scalar_one()
        raise Unavailable(
            f"cannot store revision {first}: {self.transactions.place} is at {stored}, because another server wrote to it. "
            "Nothing was stored. Try again",
            {"revision": first, "stored": stored},
        )

    # ------------------------------------------------------------ the current state

    def load(self) -> Loaded:
        """Returns everything that is live, all pools, and the used numbers; sorted by key, flavors by position."""
        live = _WORKFLOW.status.in_(ALIVE)
        ids = select(_WORKFLOW.id).where(live)
        specs = select(_SPEC.hash, _SPEC.spec).where(_SPEC.hash.in_(select(_WORKFLOW.spec_hash).where(live)))
        numbers = select(_WORKFLOW.name, func.max(_WORKFLOW.number)).group_by(_WORKFLOW.name)
        with self.transactions.reading() as connection:
            read = Reader(connection).records
            return Loaded(
                revision=connection.execute(select(schema.meta.c.revision)).scalar_one(),
                flavors=_records(connection, "Flavor", select(schema.flavors).order_by(_FLAVOR.position, _FLAVOR.name)),
                nodes=read("Node"),
                cohorts=read("Cohort"),
                pools=read("Pool"),
                workflows=read("Workflow", live),
                groups=read("Group", schema.groups.c.workflow.in_(ids)),
                tasks=read("Task", schema.tasks.c.workflow.in_(ids)),
                gangs=read("GangRow"),
                specs=dict(connection.execute(specs).all()),
                numbers=_highest(dict(connection.execute(numbers).all()), past_numbers(connection)),
                limits=read("Limits"),
                spent=read("Spent"),
            )

    # ------------------------------------------------------------ single rows and pages

    def spec(self, hash: str) -> SpecText:
        """Raises NotFound."""
        for row in self._rows(_HASHED, {"hash": hash}):
            return SpecText(*row)
        raise NotFound(f"no specification has the hash {hash!r}. It may have been deleted by retention")

    def specs(self, hashes: Collection[str]) -> Mapping[str, WorkflowSpec]:
        return dict(self._rows(select(_SPEC.hash, _SPEC.spec).where(_SPEC.hash.in_(sorted(hashes)))))

    def head(self, id: str) -> Workflow:
        with self.transactions.reading() as connection:
            return _head(connection, id)

    def repeat_of(self, id: str) -> str | None:
        newest = (
            select(_WORKFLOW.id)
            .where(_WORKFLOW.parent == id)
            .order_by(_WORKFLOW.submit_time.desc(), _WORKFLOW.number.desc())
        )
        return self._value(newest.limit(1))

    def workflow(self, id: str, only: Collection[str] | None = None) -> StoredWorkflow:
        with self.transactions.reading() as connection:
            workflow = _head(connection, id)
            values: dict[str, Any] = {"workflow": workflow.id}
            parts = _PARTS if only is None else _SOME_PARTS
            values |= {} if only is None else {"names": list(only)}
            groups, tasks = (_sorted(connection, kind, statement, values) for kind, statement in parts.items())
            preemptors = {each.what for each in workflow.after}
            if only is None or any(each.preemptions for each in groups):
                preemptions = connection.execute(_PREEMPTIONS, {"workflow": workflow.id}).scalars()
                preemptors |= {decode(Preempt, plain).by for plain in preemptions}
            return StoredWorkflow(workflow, groups, tasks, tuple(sorted(preemptors)))

    def elements(self, id: str) -> Mapping[str, Status]:
        return dict(self._rows(select(_GROUP.name, _GROUP.status).where(_GROUP.workflow == id)))

    def totals(self, query: WorkflowQuery, at: float, most: int) -> WorkflowTotals:
        with self.transactions.reading() as connection:
            return ordering.totals(connection, query, at, most)

    def workflows(self, query: WorkflowQuery, at: float = 0.0) -> tuple[tuple[Workflow, ...], bool]:
        """*query.name* matches a part of the id, ignoring case. Of workflows submitted at the same time, the higher
        number comes first.
        """
        with self.transactions.reading() as connection:
            page = _records(connection, "Workflow", ordering.page(connection, query, at, query.limit + 1))
        found = page[: query.limit]
        return found[::-1] if query.back else found, len(page) > query.limit

    def holding(self, ids: Collection[str]) -> Mapping[str, Mapping[str, int]]:
        return self._counted(_HOLDING, ids)

    def pods(self, ids: Collection[str]) -> Mapping[str, Mapping[str, int]]:
        return self._counted(_PODS, ids)

    def statuses(self, ids: Collection[str]) -> Mapping[str, Mapping[str, int]]:
        found = self._counted(_STATUSES, ids)
        return {id: {Status(status).value: number for status, number in each.items()} for id, each in found.items()}

    def nodes(self, ids: Collection[str]) -> Mapping[str, tuple[str, int]]:
        return {workflow: (first, count) for workflow, first, count in self._about(_NODES, ids)}

    def running_since(self, ids: Collection[str]) -> Mapping[str, float]:
        return {workflow: float(since) for workflow, since in self._about(_RUNNING_SINCE, ids)}

    def _counted(self, question: Select[Any], ids: Collection[str]) -> Mapping[str, Mapping[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for workflow, what, count in self._about(question, ids):
            found.setdefault(workflow, {})[what] = count
        return found

    def _about(self, question: Select[Any], ids: Collection[str]) -> Sequence[Any]:
        return self._rows(question, {"ids": sorted(ids)}) if ids else ()

    def started_later(self, than: Workflow, since: float, most: int) -> int:
        behind = [each for each in Priority if each.rank <= than.priority.rank]
        started = (
            select(_GROUP.workflow)
            .join(schema.workflows, _WORKFLOW.id == _GROUP.workflow)
            .where(
                _WORKFLOW.pool == than.pool,
                _WORKFLOW.status.in_(_NOT_PENDING),
                _WORKFLOW.submit_time > than.submit_time,
            )
            .where(_WORKFLOW.priority.in_(behind), _GROUP.start_time >= since)
            .limit(most)
        )
        return self._value(select(func.count()).select_from(started.subquery())) or 0


# ---------------------------------------------------------------- rows


def _records(
    connection: Connection, kind: str, statement: Select[Any], values: Mapping[str, Any] | None = None
) -> tuple[Any, ...]:
    of_row = KINDS[kind].of_row
    return tuple(of_row(row) for row in connection.execute(statement, values).mappings())


def _head(connection: Connection, id: str) -> Workflow:
    for workflow in _records(connection, "Workflow", _NAMED, {"name": id}):
        assert isinstance(workflow, Workflow), "a row of workflows"
        return workflow
    raise NotFound(f"workflow {id!r} not found. List workflows with `runrig workflow list`")


def _sorted(connection: Connection, kind: str, statement: Select[Any], values: Mapping[str, Any]) -> tuple[Any, ...]:
    """Returns records by key in Python's order, since a database's collation may differ."""
    key = attrgetter(*(column.name for column in KINDS[kind].table.primary_key))
    return tuple(sorted(_records(connection, kind, statement, values), key=key))


def _highest(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    return {name: max(first.get(name, 0), second.get(name, 0)) for name in sorted({*first, *second})}


def _delete(connection: Connection, kind: str, keys: Sequence[tuple[str | int, ...]]) -> None:
    if kind == "Workflow":
        sums.take(connection, [str(id) for (id,) in keys])
    delete_rows(connection, KINDS[kind].table, keys)


def _write(connection: Connection, kind: str, records: Sequence[Any]) -> None:
    if not records:
        return
    entry = KINDS[kind]
    if kind == "Pool":
        records = sorted(records, key=lambda pool: pool.parent is not None)
    rows = [entry.to_row(record) for record in records]
    if kind == "Workflow":
        sums.put(connection, rows)
    else:
        put_rows(connection, entry.table, rows)


def _write_spec(connection: Connection, spec: SpecText) -> None:
    insert_new(connection, schema.specifications, (spec.hash, spec.text, spec.template, spec.spec, spec.spec.code))
