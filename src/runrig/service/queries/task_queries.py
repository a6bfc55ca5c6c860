"""Queries about the tasks of many workflows, and the sums of their requests."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from runrig.domain.gangs import Priority
from runrig.domain.quantities import Requests
from runrig.domain.workflows import Task, Workflow, WorkflowSpec
from runrig.ports.store import Store, TaskCount, TaskQuery
from runrig.service.queries.lookup import within
from runrig.service.queries.of_specs import OfSpecs
from runrig.service.queries.visibility import ALL, Visibility

Amounts = Mapping[str, int]
"""Resource → amount, in the unit of the resource."""


@dataclass(frozen=True, slots=True)
class ListedTask:
    """One attempt. *asks*: empty if its specification was deleted by retention."""

    task: Task
    workflow: Workflow
    asks: Amounts


@dataclass(frozen=True, slots=True)
class TaskSum:
    """The sum of the requests of one user, pool and priority; of one *workflow*, unless that is None."""

    user: str
    pool: str
    priority: Priority
    asks: Amounts
    workflow: str | None = None


class TaskQueries:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._asked = OfSpecs(store.specs, _requests)

    def tasks(self, query: TaskQuery, visibility: Visibility = ALL) -> tuple[ListedTask, ...]:
        """Returns a page: waiting, starting and running tasks first, then by start time, newest first."""
        page = self._store.tasks.page(_seen(query, visibility))
        asked = self._asked.by_hash({workflow.spec_hash for _, workflow in page})
        return tuple(
            ListedTask(task, whose, dict(asked.get(whose.spec_hash, {}).get(task.spec, ()))) for task, whose in page
        )

    def task(self, task: Task, workflow: Workflow) -> ListedTask:
        asked = self._asked.by_hash({workflow.spec_hash}).get(workflow.spec_hash, {})
        return ListedTask(task, workflow, dict(asked.get(task.spec, ())))

    def sums(self, query: TaskQuery, *, by_workflow: bool = False, visibility: Visibility = ALL) -> tuple[TaskSum, ...]:
        """Returns a page of sums by user, pool and priority; or of each workflow, newest first. O(distinct
        specifications).
        """
        seen = _seen(query, visibility)
        if by_workflow:
            return tuple(self._summed(self._store.tasks.counts_by_workflow(seen)))
        found = sorted(
            self._summed(self._store.tasks.counts(seen)), key=lambda each: (each.user, each.pool, each.priority.value)
        )
        return tuple(found[seen.offset : seen.offset + seen.limit])

    def _summed(self, counts: Iterable[TaskCount]) -> Iterator[TaskSum]:
        """In the order in which *counts* first names users, pools, priorities and workflows."""
        counts = tuple(counts)
        asked = self._asked.by_hash({count.spec_hash for count in counts})
        sums: dict[tuple[str, str, Priority, str | None], Counter[str]] = {}
        for each in counts:
            amounts = sums.setdefault((each.user, each.pool, each.priority, each.workflow), Counter())
            for resource, amount in asked.get(each.spec_hash, {}).get(each.task, ()):
                amounts[resource] += amount * each.pods
        for (user, pool, priority, workflow), amounts in sums.items():
            yield TaskSum(user, pool, priority, amounts, workflow)


def _requests(spec: WorkflowSpec) -> Mapping[str, Requests]:
    return {task.name: task.requests for group in spec.groups for task in group.tasks}


def _seen(query: TaskQuery, visibility: Visibility) -> TaskQuery:
    return replace(query, workflows=within(query.workflows, visibility))
