"""Tasks of many workflows at once: pages, filters, and how many there are of each kind."""

from collections import Counter
from dataclasses import replace

import pytest

from runrig.domain.workflows import Status
from runrig.ports.store import Store, TaskQuery, WorkflowQuery

from ..values import fill

EVERY = TaskQuery(limit=1000)
FIRST = (Status.SCHEDULING, Status.INITIALIZING, Status.RUNNING)


def names(store: Store, query: TaskQuery) -> list[str]:
    return [str(task.key) for task, _ in store.tasks.page(query)]


def test_pages_together_contain_all_attempts_in_one_order(store: Store) -> None:
    fill(store)
    everything = store.tasks.page(EVERY)
    stored = {task.key: task for id in {whose.id for _, whose in everything} for task in store.workflow(id).tasks}
    assert {task.key: task for task, _ in everything} == stored
    assert len(everything) == len(stored) > 4
    ranks = [FIRST.index(task.status) if task.status in FIRST else len(FIRST) for task, _ in everything]
    assert ranks == sorted(ranks)
    pages = [names(store, replace(EVERY, limit=2, offset=at)) for at in range(0, len(everything), 2)]
    assert [name for page in pages for name in page] == names(store, EVERY)


@pytest.mark.parametrize(
    "query",
    [
        EVERY,
        replace(EVERY, statuses=("RUNNING",)),
        replace(EVERY, statuses=("RUNNING", "COMPLETED")),
        replace(EVERY, statuses=("NO_SUCH_STATUS",)),
        replace(EVERY, nodes=("n0",)),
        replace(EVERY, started_after=0.0),
        replace(EVERY, started_before=0.0),
        replace(EVERY, workflows=WorkflowQuery(name="TRAIN-1")),
        replace(EVERY, workflows=WorkflowQuery(pools=("team--a",))),
        replace(EVERY, workflows=WorkflowQuery(below=("team",), users=("bob",), priorities=("NORMAL",))),
    ],
)
def test_filter_excludes_the_same_tasks_from_lists_and_counts(store: Store, query: TaskQuery) -> None:
    fill(store)
    whose = {id.id for id in store.workflows(replace(query.workflows, limit=100))[0]}
    wanted = [
        (task, workflow)
        for task, workflow in store.tasks.page(EVERY)
        if workflow.id in whose
        and (not query.statuses or task.status.value in query.statuses)
        and (not query.nodes or task.node in query.nodes)
        and (query.started_after is None or (task.start_time is not None and task.start_time >= query.started_after))
        and (query.started_before is None or (task.start_time is not None and task.start_time < query.started_before))
    ]
    assert list(store.tasks.page(query)) == wanted
    kinds = Counter((of.submitted_by, of.pool, of.priority, of.spec_hash, task.spec, of.id) for task, of in wanted)
    found = store.tasks.counts_by_workflow(query)
    assert {(c.user, c.pool, c.priority, c.spec_hash, c.task, c.workflow): c.pods for c in found} == kinds
    together: Counter[tuple[object, ...]] = Counter()
    for (*kind, _), pods in kinds.items():
        together[tuple(kind)] += pods
    assert {(c.user, c.pool, c.priority, c.spec_hash, c.task): c.pods for c in store.tasks.counts(query)} == together


def test_counts_by_workflow_cover_one_page_of_workflows(store: Store) -> None:
    fill(store)
    order = [each.id for each in store.workflows(WorkflowQuery(limit=100))[0]]
    everything = [count.workflow for count in store.tasks.counts_by_workflow(EVERY)]
    assert list(dict.fromkeys(everything)) == [id for id in order if id in everything]
    page = [count.workflow for count in store.tasks.counts_by_workflow(replace(EVERY, limit=2, offset=1))]
    assert set(page) == set(list(dict.fromkeys(everything))[1:3])
