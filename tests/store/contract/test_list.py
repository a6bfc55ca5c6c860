"""The list of workflows: newest first, page by page, filtered."""

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import literal_column, update

from runrig.domain.gangs import Priority
from runrig.domain.records import RowChange
from runrig.domain.times import Moment, Times
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Group, LabelSelector, Status, Task, Workflow, left_out
from runrig.ports.places import TIMED, moment_of, place_of, spent_on
from runrig.ports.store import ORDERS, Store, WorkflowQuery
from runrig.store import SqlStore, ordering, schema
from tests.worlds.sums import check_sums

from ..values import T0, fill, put, workflow
from ..values import commit as make_commit

# eval-2 and train-2 were submitted together and have the same number: the id decides.
NEWEST_FIRST = ["train-4", "train-3", "eval-2", "train-2", "train-1", "eval-1"]


def listed(store: Store, **filters: Any) -> tuple[list[str], bool]:
    page, more = store.workflows(replace(WorkflowQuery(), **filters))
    return [workflow.id for workflow in page], more


def filled(store: Store) -> Store:
    """The history, with eval-1 submitted a second before train-1."""
    fill(store)
    other = replace(workflow("eval", 1, pool="team--a", submitted_by="bob"), labels={"example.com/Team": "Vision.1"})
    make_commit(6, (), put(other)).to(store)
    assert isinstance(store, SqlStore)
    with store.transactions.writing() as connection:  # No commit changes when a workflow was submitted.
        connection.execute(update(schema.workflows).values(submit_time=T0).where(schema.workflows.c.id == other.id))
    store.tags.change("train-4", {"paper", "best"}, (), 2)
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
        ({"labels": (LabelSelector("example.com/Team", ("Vision.1",)),)}, {"eval-1"}),
        ({"labels": (LabelSelector("example.com/Team", ("vision.1", "V*n.1")),)}, {"eval-1"}),
        ({"labels": (LabelSelector("example.com/Team", ("v*", "*s", "i*1", "Visionx1")),)}, set()),
        ({"labels": (LabelSelector("example", ("*",)),)}, set()),
        ({"no_labels": ("example.com/Team",)}, set(NEWEST_FIRST) - {"eval-1"}),
        ({"tags": ("paper", "other")}, {"train-4"}),
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


def test_pods_are_those_of_the_latest_attempt_of_their_group(store: Store) -> None:
    """Law A3: what a group was not admitted with has attempts of earlier times only, and of a first attempt no row."""
    fill(store)
    it = workflow("train", 9, pool="team--a")
    again = Group(it.id, "again", Status.RUNNING, attempt=1, queued_time=T0 + 5)
    first = Group(it.id, "first", Status.COMPLETED, queued_time=T0 + 5)

    def task(group: str, spec: str, index: int, retry: int, end_time: float | None) -> Task:
        return Task(it.id, f"{spec}-{index}", retry, group, spec, index, False, Status.RUNNING, end_time=end_time)

    tasks = (
        task("again", "a", 0, 0, T0 + 4),
        task("again", "a", 0, 1, None),
        task("again", "a", 1, 0, T0 + 4),
        task("again", "a", 1, 1, T0 + 6),
        task("again", "a", 1, 2, None),
        task("again", "a", 2, 0, T0 + 5),
        task("again", "b", 0, 0, T0 + 4),
        task("again", "b", 0, 1, T0 + 7),
        task("first", "c", 0, 0, T0 + 1),
        task("first", "c", 1, 0, None),
    )
    make_commit(6, (), put(it), put(again), put(first), *(put(each) for each in tasks)).to(store)
    assert store.pods([it.id, "nothing-1"]) == {it.id: {"a": 2, "b": 1, "c": 2}}
    latest = {each.name: each for each in sorted(tasks, key=lambda each: each.retry_id) if each.group == "again"}
    assert [name for name, each in latest.items() if left_out(again, each)] == ["a-2"]
    assert store.pods(()) == {}


def test_nodes_are_those_of_attempts_that_have_not_ended(store: Store) -> None:
    fill(store)
    it = workflow("train", 9, pool="team--a")
    tasks = tuple(
        Task(it.id, f"a-{index}", retry, "g", "a", index, False, Status.RUNNING, end_time=end_time, node=node)
        for index, retry, end_time, node in (
            (0, 0, T0 + 4, "n0"),
            (0, 1, None, "n3"),
            (1, 0, None, "n2"),
            (2, 0, None, "n2"),
            (3, 0, None, None),
        )
    )
    group = Group(it.id, "g", Status.RUNNING, queued_time=T0)
    make_commit(6, (), put(it), put(group), *(put(each) for each in tasks)).to(store)
    assert store.nodes([it.id, "nothing-1"]) == {it.id: ("n2", 2)}
    assert store.nodes(()) == {}


def test_workflows_counted_as_overtaking_are_in_its_pool_behind_it_and_started_later(store: Store) -> None:
    """Ended ones count too; who is before it by submission, by priority or in another pool does not, nor who started before *since*."""
    fill(store)
    mine = workflow("train", 50, pool="team--a")
    since = T0 + 60

    def other(name: str, number: int, start: float | None, **fields: Any) -> list[RowChange]:
        status = WorkflowStatus.RUNNING if start else WorkflowStatus.PENDING
        it = workflow(name, number, **{"pool": "team--a", "status": status, "spec_hash": mine.spec_hash, **fields})
        return [put(it), put(Group(it.id, "g", Status.RUNNING if start else Status.SCHEDULING, start_time=start))]

    rows = [
        *other("counts", 51, since),
        *other("ended", 52, since + 1, status=WorkflowStatus.COMPLETED),
        *other("low", 53, since + 2, priority=Priority.LOW),
        *other("early", 54, since - 1),
        *other("waits", 55, None),
        *other("high", 56, since + 2, priority=Priority.HIGH),
        *other("before", 49, since + 2),
        *other("elsewhere", 57, since + 2, pool="team--b"),
    ]
    make_commit(6, (), put(mine), *rows).to(store)
    assert store.started_later(mine, since, 100) == 3
    assert store.started_later(mine, since, 2) == 2
    assert store.started_later(replace(mine, priority=Priority.LOW), since, 100) == 1
    assert store.started_later(replace(mine, priority=Priority.HIGH), since, 100) == 4


# ---------------------------------------------------------------- pages after and before a place, and sums

NOW = T0 + 5_000.0
ORDERED = [f"{sign}{name}" for name in ORDERS for sign in ("", "-")]


def drawn(chance: random.Random, number: int) -> Workflow:
    """A workflow with times that others may have too."""
    waited, running = (chance.choice((0.0, 0.0015, 60.0, 60.25)) for _ in range(2))
    status = chance.choice((WorkflowStatus.PENDING, WorkflowStatus.RUNNING, WorkflowStatus.COMPLETED))
    now = None if status.finished else chance.choice([*Moment])
    times = Times(T0 + chance.randrange(4_000), now, waited=waited, running=running)
    return replace(
        workflow(chance.choice(("a", "b")), number, pool=chance.choice(("team--a", "team--b"))),
        spec_hash=workflow("train", 1).spec_hash,
        submitted_by=chance.choice(("ann", "bob")),
        submit_time=T0 + chance.randrange(20),
        status=status,
        end_time=T0 + 9_000,
        times=chance.choice((times, times, None)),
    )


def in_order(rows: Iterable[Workflow], order: str) -> list[str]:
    """Sorted by hand."""
    newest = sorted(rows, key=lambda each: (-each.submit_time, -each.number, each.id))
    name, down = order.removeprefix("-"), order.startswith("-")
    if name == "submitted":
        found = newest if down else newest[::-1]
    elif name == "workflow":
        found = sorted(newest, key=lambda each: (each.name, each.number), reverse=down)
    else:
        spent = {each.id: spent_on(each, TIMED[name], NOW) for each in newest}
        found = sorted(newest if down else newest[::-1], key=lambda each: -spent[each.id] if down else spent[each.id])
    return [each.id for each in found]


def test_pages_in_each_order_miss_and_repeat_nothing_that_stays_while_others_come_and_go(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also backwards. The sums are always those of the rows that are there."""
    monkeypatch.setattr(ordering, "FEW", 10)  # some statuses have more
    fill(store)
    chance = random.Random(1)
    there = {each.id: each for each in store.workflows(WorkflowQuery(limit=100))[0]}
    stay = {each.id: each for each in (drawn(chance, number) for number in range(100, 130))}
    revision, others = 6, list[str]()
    make_commit(revision, (), *(put(each) for each in stay.values())).to(store)
    for order in ORDERED:
        seen: list[str] = []
        query = WorkflowQuery(order=order, limit=7)
        more, number = True, 200
        while more:
            page, more = store.workflows(query, NOW if query.behind is None else NOW + number)
            seen += [each.id for each in page]
            query = replace(query, behind=place_of(page[-1], order, moment_of(query.behind, order, NOW)))
            revision, number = revision + 1, number + 1
            new, changed = drawn(chance, 1_000 + revision), replace(drawn(chance, 150), name="c", id="c-150")
            changed = replace(changed, submitted_by="ann", submit_time=T0)  # These stay.
            make_commit(revision, (), put(new), put(changed)).to(store)
            others.append(new.id)
            if len(others) > 2:
                store.retention.prune([others.pop(chance.randrange(len(others)))], 10)
        check_sums(store)
        assert [each for each in seen if each in stay] == in_order(stay.values(), order)
        back: list[str] = []
        query, more = replace(query, back=True), True
        while more:
            page, more = store.workflows(query, NOW)
            back[:0] = [each.id for each in page]
            query = replace(query, behind=place_of(page[0], order, NOW))
        assert [each for each in (*back, seen[-1]) if each in stay] == in_order(stay.values(), order)
    assert set(there) <= {each.id for each in store.workflows(WorkflowQuery(limit=1_000))[0]}
    for query in (
        WorkflowQuery(),
        WorkflowQuery(users=("bob",), statuses=("PENDING",)),
        WorkflowQuery(below=("team",)),
    ):
        kept, counted = (store.totals(each, NOW, 10_000) for each in (query, replace(query, submitted_after=0.0)))
        assert (kept.statuses, kept.oldest, kept.whole) == (counted.statuses, counted.oldest, counted.whole)
        assert [kept.waited_s, kept.ran_s] == pytest.approx([counted.waited_s, counted.ran_s], abs=0.1)


ODD = (
    '{"waited": -1e308, "running": 1e308}',
    '{"waited": "abc", "running": true}',
    '{"now": "waited", "since": null}',
    '{"now": "running", "since": {"a": 1}}',
    '{"now": 3, "since": 1e308, "waited": 1e308}',
    "[]",
)


def test_odd_times_of_workflows_stop_no_commit(store: SqlStore) -> None:
    """Sums and indexes read them in the transaction that changes them."""
    fill(store)
    rows, table = store.workflows(WorkflowQuery(limit=100))[0], schema.workflows
    for revision, odd in enumerate(ODD, store.load().revision + 1):
        with store.transactions.writing() as connection:
            connection.execute(update(table).values(times=literal_column(f"'{odd}'")))
        make_commit(revision, (), *(put(each) for each in rows)).to(store)
        assert store.workflows(WorkflowQuery(limit=100))[0] == rows
