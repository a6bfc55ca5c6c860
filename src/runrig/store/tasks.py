"""Tasks of many workflows: a page of attempts, or the number of each kind."""

from operator import ge, lt
from typing import Any

from sqlalchemy import Select, case, exists, func, select

from runrig.domain.workflows import Status, Task, Workflow
from runrig.ports.store import ALIVE, TaskCount, TaskQuery
from runrig.store import schema
from runrig.store.filters import filters, given, one_of
from runrig.store.rows import KINDS
from runrig.store.transactions import Tables

_TASK = schema.tasks.c
_WORKFLOW = schema.workflows.c
_LIVE = frozenset(status.value for status in Status if not status.finished)
_FIRST = (Status.SCHEDULING, Status.INITIALIZING, Status.RUNNING)
_NEWEST = (_WORKFLOW.submit_time.desc(), _WORKFLOW.number.desc(), _WORKFLOW.id)


class SqlTasks(Tables):
    """`ports.store.TaskStore`."""

    def page(self, query: TaskQuery) -> tuple[tuple[Task, Workflow], ...]:
        rank = case(*((_TASK.status == status, at) for at, status in enumerate(_FIRST)), else_=len(_FIRST))
        statement = (
            select(schema.tasks)
            .join(schema.workflows, _WORKFLOW.id == _TASK.workflow)
            .where(*_conditions(query))
            .order_by(rank, _TASK.start_time.is_(None).desc(), _TASK.start_time.desc(), *_NEWEST)
            .order_by(_TASK.name, _TASK.retry_id.desc())
            .limit(query.limit)
            .offset(query.offset)
        )
        with self._transactions.reading() as connection:
            tasks = [KINDS["Task"].of_row(row) for row in connection.execute(statement).mappings()]
            ids = {task.workflow for task in tasks}
            whose = select(schema.workflows).where(_WORKFLOW.id.in_(sorted(ids)))
            found = [KINDS["Workflow"].of_row(row) for row in connection.execute(whose).mappings()]
        by_id = {workflow.id: workflow for workflow in found}
        return tuple((task, by_id[task.workflow]) for task in tasks)

    def counts(self, query: TaskQuery) -> tuple[TaskCount, ...]:
        return self._counted(query, ())

    def counts_by_workflow(self, query: TaskQuery) -> tuple[TaskCount, ...]:
        page = (
            select(_WORKFLOW.id)
            .where(*filters(query.workflows), exists().where(_TASK.workflow == _WORKFLOW.id, *_of_tasks(query)))
            .order_by(*_NEWEST)
            .limit(query.limit)
            .offset(query.offset)
        )
        place = {id: at for at, (id,) in enumerate(self._rows(page))}
        found = self._counted(query, (_WORKFLOW.id.in_(place),), by_workflow=True)
        return tuple(sorted(found, key=lambda count: (place[count.workflow or ""], count.task)))

    def _counted(self, query: TaskQuery, more: tuple[Any, ...], *, by_workflow: bool = False) -> tuple[TaskCount, ...]:
        whose = [_WORKFLOW.submitted_by.label("user"), _WORKFLOW.pool, _WORKFLOW.priority, _WORKFLOW.spec_hash]
        kind = [_TASK.spec.label("task"), *([_WORKFLOW.id.label("workflow")] if by_workflow else ())]
        statement: Select[Any] = (
            select(*whose, *kind, func.count().label("pods"))
            .select_from(schema.tasks.join(schema.workflows, _WORKFLOW.id == _TASK.workflow))
            .where(*_conditions(query), *more)
            .group_by(*whose, *kind)
        )
        return self._all(lambda row: TaskCount(**row), statement)


def _conditions(query: TaskQuery) -> list[Any]:
    found = [*filters(query.workflows), *_of_tasks(query)]
    if query.statuses and _LIVE.issuperset(query.statuses):  # Unfinished workflows have an index.
        found.append(_WORKFLOW.status.in_(ALIVE))
    return found


def _of_tasks(query: TaskQuery) -> list[Any]:
    return given(
        (_TASK.status, one_of, query.statuses),
        (_TASK.node, one_of, query.nodes),
        (_TASK.start_time, ge, query.started_after),
        (_TASK.start_time, lt, query.started_before),
    )
