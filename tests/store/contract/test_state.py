"""What is committed is what is loaded: all of it, equal, and nothing of a commit that was refused."""

import dataclasses
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runrig.domain.budgets import Owner, Spent
from runrig.domain.errors import InvalidInput, NotFound, ServerFault, Unavailable
from runrig.domain.limits import Limits
from runrig.domain.nodes import Flavor, Node
from runrig.domain.plan import PutNode
from runrig.domain.pools import BudgetReached, Cohort, Pool
from runrig.domain.records import GangRow, Loaded, RowChange
from runrig.domain.workflows import Group, Task, Workflow
from runrig.ports.store import SpecText, Store, StoredWorkflow

from ..strategies import values_of
from ..values import (
    CANCELLED,
    DONE,
    DONE_GROUPS,
    DONE_TASKS,
    EVAL,
    FLAVORS,
    HISTORY,
    LOADED,
    NODES,
    QUEUED,
    TEAM,
    TRAIN,
    Commit,
    commit,
    drop,
    fill,
    put,
)
from .conftest import Open

# The fixture's store exists for the whole test: each example adds a commit to it.
ONE_MORE_COMMIT = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def test_new_store_is_empty_and_at_revision_0(store: Store) -> None:
    assert store.load() == Loaded(0, (), (), (), (), (), (), (), (), {}, {})
    assert store.log.events() == ()


def test_complete_state_is_read_back_unchanged_by_another_process(open_store: Open) -> None:
    first = open_store()
    fill(first)
    first.close()
    assert open_store().load() == LOADED


def test_flavors_are_ordered_by_position(store: Store) -> None:
    fill(store)
    h100, b200 = FLAVORS
    turned = (Flavor("a100"), dataclasses.replace(b200, position=1), dataclasses.replace(h100, position=2))
    commit(6, (), *(put(flavor) for flavor in turned)).to(store)
    assert store.load().flavors == turned


def test_rewritten_row_is_replaced_completely(store: Store) -> None:
    fill(store)
    plain = Pool("team")
    commit(6, (), put(plain)).to(store)
    assert store.load() == dataclasses.replace(LOADED, revision=6, pools=(LOADED.pools[0], plain, *LOADED.pools[2:]))


def test_last_of_two_changes_of_one_row_counts(store: Store) -> None:
    there = Node("n0", {"gpu": 1})
    commit(1, (), drop(there), put(there)).to(store)
    assert store.load().nodes == (there,)
    commit(2, (), put(there), drop(there)).to(store)
    assert store.load().nodes == ()


def test_workflow_can_be_dropped_with_all_rows_in_one_commit(store: Store) -> None:
    fill(store)
    commit(6, (), drop(DONE), *(drop(row) for row in (*DONE_GROUPS, *DONE_TASKS))).to(store)
    with pytest.raises(NotFound):
        store.workflow("train-1")
    assert store.load() == dataclasses.replace(LOADED, revision=6)


@pytest.mark.parametrize("revision", [0, 4, 5, 7])
def test_revision_that_is_not_the_next_one_is_refused_and_writes_nothing(store: Store, revision: int) -> None:
    fill(store)
    other = SpecText("hash-of-other", "", "", EVAL.spec)
    stale = commit(revision, (PutNode(Node("n9", {})),), put(Node("n9", {})), drop(NODES[0]), spec=other)
    with pytest.raises(
        Unavailable, match=f"^cannot store revision {revision}: .* is at 5, because another server wrote"
    ):
        stale.to(store)
    assert (store.load(), len(store.log.events(after=4))) == (LOADED, len(HISTORY[4].events))
    with pytest.raises(NotFound):
        store.spec("hash-of-other")


def test_overtaken_server_on_a_shared_database_writes_nothing(open_store: Open) -> None:
    one, other = open_store(), open_store()
    fill(one)
    commit(6, (), put(Cohort("late"))).to(other)
    with pytest.raises(Unavailable):
        commit(6, (), put(Cohort("never"))).to(one)
    assert one.load() == other.load()
    assert [cohort.name for cohort in one.load().cohorts] == ["late", "org", "research"]


def test_commit_refused_by_the_database_leaves_the_previous_state(store: Store) -> None:
    fill(store)
    twin = dataclasses.replace(QUEUED, id="other-1", name="other")
    with pytest.raises(ServerFault, match=r"(?i)rejected the write \(.*unique constraint.*workflows.uuid"):
        commit(6, (), put(Cohort("never")), put(twin)).to(store)
    assert store.load() == LOADED


@pytest.mark.parametrize(
    "pool",
    [
        Pool("team--d", parent="team"),
        Pool("d", parent="team", subpool_name="d"),
        Pool("team--d--e", parent="team", subpool_name="d--e"),
    ],
)
def test_subpool_with_inconsistent_names_cannot_be_stored(store: Store, pool: Pool) -> None:
    fill(store)
    with pytest.raises(ServerFault, match=r"(?i)rejected the write \(.*check constraint.*ck_pools_"):
        commit(6, (), put(pool)).to(store)
    assert store.load() == LOADED


def test_text_that_is_not_unicode_is_refused(store: Store) -> None:
    with pytest.raises(InvalidInput, match="not valid Unicode"):
        commit(1, (), put(Pool("p", description="\ud800"))).to(store)
    assert store.load().pools == ()


def test_finished_workflows_are_found_by_id_and_by_uuid(store: Store) -> None:
    fill(store)
    stored = StoredWorkflow(DONE, DONE_GROUPS, DONE_TASKS)
    assert (store.workflow("train-1"), store.workflow("uuid-of-train-1")) == (stored, stored)
    assert store.workflow("eval-2").workflow == CANCELLED
    assert store.workflow("train-4").preemptors == ("train-3/fit",)
    with pytest.raises(NotFound, match="workflow 'train-9' not found"):
        store.workflow("train-9")


def test_specification_is_stored_once_as_first_sent(store: Store) -> None:
    fill(store)
    commit(6, (), spec=dataclasses.replace(TRAIN, template="the same, written otherwise")).to(store)
    assert (store.spec("hash-of-train"), store.spec("hash-of-eval")) == (TRAIN, EVAL)
    assert store.specs(["hash-of-eval", "hash-of-nothing"]) == {"hash-of-eval": EVAL.spec}
    assert store.specs(()) == {}
    with pytest.raises(NotFound, match="'hash-of-nothing'"):
        store.spec("hash-of-nothing")


@ONE_MORE_COMMIT
@given(flavor=values_of(Flavor), node=values_of(Node), cohort=values_of(Cohort), pool=values_of(Pool))
def test_any_cluster_is_read_back_unchanged(
    store: Store, flavor: Flavor, node: Node, cohort: Cohort, pool: Pool
) -> None:
    before = store.load()
    top = dataclasses.replace(pool, name="top", parent=None, subpool_name=None)
    sub = dataclasses.replace(pool, name="top--a", parent="top", subpool_name="a")
    gone = [drop(row) for rows in (before.flavors, before.nodes, before.cohorts) for row in rows]
    rows = [put(row) for row in (sub, top, cohort, node, flavor)]
    Commit(before.revision + 1, (), (*gone, *rows)).to(store)
    assert store.load() == dataclasses.replace(
        before, revision=before.revision + 1, flavors=(flavor,), nodes=(node,), cohorts=(cohort,), pools=(top, sub)
    )


Rows = tuple[Workflow, Group, Task, GangRow]


def drawn(data: st.DataObject) -> Rows:
    workflow = dataclasses.replace(data.draw(values_of(Workflow)), id="w-1", uuid="u", name="w", number=1, pool="team")
    group = dataclasses.replace(data.draw(values_of(Group)), workflow="w-1")
    task = dataclasses.replace(data.draw(values_of(Task)), workflow="w-1", group=group.name)
    gang = data.draw(values_of(GangRow))
    gang = dataclasses.replace(gang, gang=dataclasses.replace(gang.gang, id="w-1/g"))
    return dataclasses.replace(workflow, spec_hash="h"), group, task, gang


def kept(record: Workflow | Task, *names: str) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


def later(data: st.DataObject, rows: Rows) -> Rows:
    """Any other rows of the same workflow. It stays who submitted it, when, and as what, and what a task is a part of."""
    workflow, group, task, _ = rows
    other, other_group, other_task, gang = drawn(data)
    stays = kept(workflow, "submitted_by", "submit_time", "parent")
    of_task = kept(task, "name", "retry_id", "group", "spec", "index", "lead")
    return (
        dataclasses.replace(other, pool="other", **stays),
        dataclasses.replace(other_group, name=group.name),
        dataclasses.replace(other_task, **of_task),
        gang,
    )


@ONE_MORE_COMMIT
@given(data=st.data())
def test_any_workflow_is_read_back_unchanged_and_overwritten(store: Store, data: st.DataObject) -> None:
    rows = drawn(data)
    revision = store.load().revision + 1
    if revision == 1:
        spec = SpecText("h", "", "", data.draw(values_of(type(TRAIN.spec))))
        Commit(revision, (), (put(TEAM), put(dataclasses.replace(TEAM, name="other"))), spec).to(store)
    else:
        old, gangs = store.workflow("w-1"), store.load().gangs
        gone = (*map(drop, gangs), *map(drop, old.tasks), *map(drop, old.groups), drop(old.workflow))
        Commit(revision, (), gone).to(store)
    for at, (workflow, group, task, gang) in enumerate((rows, later(data, rows)), revision + 1):
        Commit(at, (), tuple(put(row) for row in (gang, task, group, workflow))).to(store)
        others = tuple(sorted({each.what for each in workflow.after}))
        assert store.workflow("u") == StoredWorkflow(workflow, (group,), (task,), others)
        loaded = store.load()
        live = ((), (), ()) if workflow.status.finished else ((workflow,), (group,), (task,))
        assert (loaded.workflows, loaded.groups, loaded.tasks, loaded.gangs) == (*live, (gang,))


def test_what_is_spent_of_budgets_is_stored_replaced_and_dropped(store: Store) -> None:
    pool = Spent(Owner.POOL, "vision", 1_793_491_200.0, 2**50, 1_793_500_000.25, BudgetReached.BORROW)
    user = Spent(Owner.USER, "vision", 1_793_491_200.0, 0, 1_793_491_200.0)
    for revision, (changes, expected) in enumerate(
        (([put(user), put(pool)], (pool, user)), ([drop(pool)], (user,))), 1
    ):
        store.commit(revision, (), changes)
        assert store.load().spent == expected


def test_limits_of_users_are_stored_replaced_and_dropped(store: Store) -> None:
    first, second = Limits(user="ann", gpus=8, waiting=20), Limits(user="bob", gpus_per_workflow=3)
    steps: tuple[tuple[int, list[RowChange], tuple[Limits, ...]], ...] = (
        (1, [put(second), put(first)], (first, second)),
        (2, [put(replace(first, gpus=None)), drop(second)], (replace(first, gpus=None),)),
        (3, [drop(first)], ()),
    )
    for revision, changes, expected in steps:
        store.commit(revision, (), changes)
        assert store.load().limits == expected
