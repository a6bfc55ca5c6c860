"""Tasks of many workflows: a page of attempts, or the number of each kind."""

from typing import Any

from sqlalchemy import Select, case, exists, func, select

from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Status, Task, Workflow
from runrig.ports.store import TaskCount, TaskQuery
from runrig.store import schema
from runrig.store.filters import filters
from runrig.store.rows import KINDS
from runrig.store.transactions import Tables

_TASK = schema.tasks.c
_WORKFLOW = schema.workflows.c
_LIVE = frozenset(status.value for status in Status if not status.finished)
_ALIVE = [status for status in WorkflowStatus if not status.finished]
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
        with self._transactions.reading() as connection:
            ids = list(connection.execute(page).scalars())
        place = {id: at for at, id in enumerate(ids)}
        found = self._counted(query, (_WORKFLOW.id.in_(ids),), by_workflow=True)
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
        with self._transactions.reading() as connection:
            return tuple(TaskCount(**row) for row in connection.execute(statement).mappings())


def _conditions(query: TaskQuery) -> list[Any]:
    found = [*filters(query.workflows), *_of_tasks(query)]
    if query.statuses and _LIVE.issuperset(query.statuses):  # Unfinished workflows have an index.
        found.append(_WORKFLOW.status.in_(_ALIVE))
    return found


def _of_tasks(query: TaskQuery) -> list[Any]:
    found: list[Any] = []
    if query.statuses:
        found.append(_TASK.status.in_(query.statuses))
    if query.nodes:
        found.append(_TASK.node.in_(query.nodes))
    if query.started_after is not None:
        found.append(_TASK.start_time >= query.started_after)
    if query.started_before is not None:
        found.append(_TASK.start_time < query.started_before)
    return found
