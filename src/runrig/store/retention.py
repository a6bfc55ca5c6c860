"""Deletes expired workflows in small steps, so that no commit waits long.

The order: first a workflow's tasks and groups; then, together, its row, its specification unless it is shared, and its
number moves to `past_numbers`, so that it is never reused. From then on its events no longer count (`pruned` names it);
they are deleted last. A server that dies in between resumes where it stopped.

Without a finished workflow the log still gives the same live state, because the workflow released everything.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from sqlalchemy import CTE, Connection, Table, Text, and_, cast, delete, exists, func, or_, select, tuple_

from runrig.domain.workflow_status import WorkflowStatus
from runrig.ports.store import Pruned
from runrig.store import chain, checkpoints, schema, snapshots, sums
from runrig.store.dialect import insert_rows, put_rows
from runrig.store.transactions import Tables, in_parts

_FINISHED = tuple(status for status in WorkflowStatus if status.finished)
_WORKFLOW = schema.workflows.c
_EVENT = schema.events.c
_SPEC = schema.specifications.c
_PAST = schema.past_numbers.c
_PRUNED = schema.pruned.c


class SqlRetention(Tables):
    """`ports.store.RetentionStore`."""

    def expired(self, before: float, limit: int) -> tuple[str, ...]:
        needed = _restarted_by_the_living()
        with self._transactions.reading() as connection:
            awaited = _awaited(connection)
        oldest = (
            select(_WORKFLOW.id)
            .where(
                _WORKFLOW.end_time < before,
                _WORKFLOW.status.in_(_FINISHED),
                _WORKFLOW.id.not_in(select(needed.c.id)),
            )
            .order_by(_WORKFLOW.end_time, _WORKFLOW.id)
            .limit(limit + len(awaited))
        )
        return tuple(id for (id,) in self._rows(oldest) if id not in awaited)[:limit]

    def prune(self, ids: Sequence[str], rows: int) -> Pruned:
        with self._transactions.writing() as connection:
            # Never concurrent with another commit, which might use a specification again.
            connection.execute(select(schema.meta.c.revision).with_for_update())
            tables = (schema.tasks, schema.groups)
            chosen = _affordable(connection, tables, ids, rows)
            if not chosen:  # Even the first workflow alone has more rows than allowed.
                first = _first(connection, schema.tasks, ids[0], rows)
                return Pruned(rows=connection.execute(delete(schema.tasks).where(first)).rowcount)
            deletions = (delete(table).where(table.c.workflow.in_(chosen)) for table in tables)
            deleted = sum(connection.execute(deletion).rowcount for deletion in deletions)
            _forget(connection, chosen)
            return Pruned(len(chosen), deleted + len(chosen))

    def prune_events(self, rows: int) -> Pruned:
        with self._transactions.writing() as connection:
            gone = connection.execute(select(_PRUNED.workflow).order_by(_PRUNED.workflow).limit(rows)).scalars().all()
            if not gone:
                return Pruned()
            chosen = _affordable(connection, (schema.events,), gone, rows)
            if not chosen:
                return Pruned(rows=chain.keep_leaves(connection, _first(connection, schema.events, gone[0], rows)))
            deleted = chain.keep_leaves(connection, _EVENT.workflow.in_(chosen))
            connection.execute(delete(schema.pruned).where(_PRUNED.workflow.in_(chosen)))
            return Pruned(rows=deleted + len(chosen))

    def past_numbers(self) -> Mapping[str, int]:
        """Returns the highest number of each workflow name among the deleted ones."""
        with self._transactions.reading() as connection:
            return past_numbers(connection)


def _restarted_by_the_living() -> CTE:
    """The ids of workflows that an unfinished one restarts, over any number of restarts: it may read their outputs."""
    parents = select(_WORKFLOW.parent.label("id")).where(
        _WORKFLOW.parent.is_not(None), _WORKFLOW.status.not_in(_FINISHED)
    )
    needed = parents.cte("needed", recursive=True)
    above = select(_WORKFLOW.parent).where(_WORKFLOW.id == needed.c.id, _WORKFLOW.parent.is_not(None))
    return needed.union(above)


def _awaited(connection: Connection) -> set[str]:
    """The ids of the workflows that unfinished ones name in `after`, and of those that they restart.

    Without their events, the log would not show that the wait is over (rule W5). O(dependents that have not finished).
    """
    waits = cast(_WORKFLOW.after, Text) != "[]"
    waiting = select(_WORKFLOW.after).where(waits, _WORKFLOW.status.not_in(_FINISHED))
    found: set[str] = set()
    more = {each.workflow for after in connection.execute(waiting).scalars() for each in after}
    while more:
        found |= more
        ids, parents = sorted(more), set[str]()
        for some in in_parts(ids):
            above = select(_WORKFLOW.parent).where(_WORKFLOW.id.in_(some))
            parents.update(each for each in connection.execute(above).scalars() if each is not None)
        more = parents - found
    return found


def past_numbers(connection: Connection, *where: Any) -> dict[str, int]:
    """Returns the highest number of each workflow name among the deleted ones."""
    return {row[0]: row[1] for row in connection.execute(select(_PAST.name, _PAST.number).where(*where))}


def counts() -> Any:
    """Returns a condition on events: the workflow, if any, is not deleted."""
    return or_(_EVENT.workflow.is_(None), _EVENT.workflow.not_in(select(_PRUNED.workflow)))


def _affordable(connection: Connection, tables: Sequence[Table], ids: Sequence[str], rows: int) -> list[str]:
    """Returns the first of *ids* that together have up to *rows* rows in *tables*, including their own."""
    sizes = dict.fromkeys(ids[:rows], 1)
    for table in tables:
        column = table.c.workflow
        counted = select(column, func.count()).where(column.in_(sizes)).group_by(column)
        for id, count in connection.execute(counted):
            sizes[id] += count
    total = accumulate(sizes.values())
    return [id for id, so_far in zip(sizes, total, strict=True) if so_far <= rows]


def _first(connection: Connection, table: Table, id: str, rows: int) -> Any:
    """Returns a condition: one of the first rows of workflow *id* by key."""
    which = table.c.workflow == id
    key = [column for column in table.primary_key if column.name != "workflow"]
    last = connection.execute(select(*key).where(which).order_by(*key).offset(rows - 1).limit(1)).one_or_none()
    if last is not None:
        return and_(which, tuple_(*key) <= tuple_(*last))
    return which


def _forget(connection: Connection, ids: Sequence[str]) -> None:
    """Deletes the rows of the workflows *ids*, whose tasks and groups are already deleted."""
    if not ids:
        return
    chosen = _WORKFLOW.id.in_(ids)
    numbers = select(_WORKFLOW.name, func.max(_WORKFLOW.number)).where(chosen).group_by(_WORKFLOW.name)
    highest = {row[0]: row[1] for row in connection.execute(numbers)}
    known = past_numbers(connection, _PAST.name.in_(highest))
    last_end = connection.execute(select(func.max(_WORKFLOW.end_time)).where(chosen)).scalar_one()
    if last_end is not None:
        checkpoints.forget(connection, last_end)
        snapshots.forget(connection, last_end)
    rows = [(name, max(number, known.get(name, 0))) for name, number in sorted(highest.items())]
    put_rows(connection, schema.past_numbers, rows)
    specs = sorted(set(connection.execute(select(_WORKFLOW.spec_hash).where(chosen)).scalars()))
    connection.execute(delete(schema.workflow_tags).where(schema.workflow_tags.c.workflow.in_(ids)))
    sums.take(connection, ids)
    connection.execute(delete(schema.workflows).where(chosen))
    used = exists().where(_WORKFLOW.spec_hash == _SPEC.hash)
    connection.execute(delete(schema.specifications).where(_SPEC.hash.in_(specs), ~used))
    insert_rows(connection, schema.pruned, [(id,) for id in ids])
