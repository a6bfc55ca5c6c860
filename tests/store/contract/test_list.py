"""The list of workflows: newest first, page by page, filtered."""

from dataclasses import replace
from typing import Any

import pytest

from runrig.domain.workflows import WorkflowStatus
from runrig.ports.store import Store, WorkflowQuery

from ..values import T0, fill, put, workflow
from ..values import commit as make_commit

# eval-2 and train-2 were submitted at once and have one number: the id decides.
NEWEST_FIRST = ["train-4", "train-3", "eval-2", "train-2", "train-1", "eval-1"]


def listed(store: Store, **filters: Any) -> tuple[list[str], bool]:
    page, more = store.workflows(replace(WorkflowQuery(), **filters))
    return [workflow.id for workflow in page], more


def filled(store: Store) -> Store:
    """The history, with eval-1 submitted a second before train-1."""
    fill(store)
    early = replace(workflow("eval", 1, pool="team--a", submitted_by="bob"), submit_time=T0)
    make_commit(6, (), put(early)).to(store)
    return store


@pytest.mark.parametrize(
    ("limit", "offset", "ids", "more"),
    [
        (20, 0, NEWEST_FIRST, False),
        (6, 0, NEWEST_FIRST, False),
        (5, 0, NEWEST_FIRST[:5], True),
        (2, 2, NEWEST_FIRST[2:4], True),
        (2, 4, NEWEST_FIRST[4:], False),
        (2, 6, [], False),
        (0, 0, [], True),
    ],
)
def test_pages_are_newest_first_and_say_whether_there_is_more(
    store: Store, limit: int, offset: int, ids: list[str], more: bool
) -> None:
    assert listed(filled(store), limit=limit, offset=offset) == (ids, more)


@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        ({"pools": ("team--a",)}, {"train-3", "eval-1"}),
        ({"pools": ("team--a", "team--b")}, {"train-3", "train-4", "eval-1"}),
        ({"users": ("bob",)}, {"eval-1", "eval-2"}),
        ({"statuses": ("PENDING", "FAILED_CANCELED")}, {"train-3", "eval-1", "eval-2"}),
        ({"statuses": ("NO_SUCH_STATUS",)}, set()),
        ({"priorities": ("HIGH", "LOW")}, {"train-3", "train-4"}),
        ({"name": "RAI"}, {"train-1", "train-2", "train-3", "train-4"}),
        ({"name": "n-2"}, {"train-2"}),
        ({"name": "%"}, set()),
        ({"name": "e_al"}, set()),
        ({"submitted_after": T0 + 3}, {"train-3", "train-4"}),
        ({"submitted_before": T0 + 1}, {"train-1", "eval-1"}),
        ({"pools": ("team",), "users": ("alice",), "statuses": ("RUNNING",), "name": "train"}, {"train-2"}),
    ],
)
def test_each_filter_narrows_the_list(store: Store, filters: dict[str, object], ids: set[str]) -> None:
    assert set(listed(filled(store), **filters)[0]) == ids


def test_the_list_has_whole_workflows(store: Store) -> None:
    fill(store)
    page, _ = store.workflows(WorkflowQuery(users=("bob",), statuses=(WorkflowStatus.PENDING.value,)))
    assert page == (workflow("eval", 1, pool="team--a", submitted_by="bob"),)
