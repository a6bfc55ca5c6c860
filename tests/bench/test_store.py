"""What the benchmarks of stores measure is what they say: everything is admitted, listed and stored, on both."""

import pytest

from bench import parts, store, submits

pytestmark = pytest.mark.slow


def test_cycle_admits_and_stores_all_waiting_work() -> None:
    found = list(store.commits(1, gangs=20))
    assert [(each.store, each.admissions, each.entries) for each in found] == [
        ("sqlite", 20, 20),
        ("postgresql", 20, 20),
    ]
    assert all(0 < each.storing[0] < each.whole.least for each in found)


def test_submissions_that_share_a_commit_are_stored() -> None:
    found = list(store.groups(1, sizes=(1, 3), each=2))
    assert [(each.store, each.together) for each in found] == [
        (kind, together) for kind in ("sqlite", "postgresql") for together in (1, 3)
    ]
    assert all(each.times.least > 0 for each in found)


def test_every_submission_of_every_client_is_answered() -> None:
    found = list(store.submissions(1, {1: 2, 4: 8}))
    assert [(each.store, each.clients, each.each) for each in found] == [
        (kind, clients, each) for kind in ("sqlite", "postgresql") for clients, each in ((1, 2), (4, 8))
    ]


def test_list_has_all_pools_and_finished_work() -> None:
    found = list(store.pool_lists(1, finished=30, each=3))
    assert [(each.store, each.what) for each in found] == [
        (kind, what) for kind in ("sqlite", "postgresql") for what in ("all pools", "one parent")
    ]
    assert all(each.answer > 1000 for each in found)


def test_release_of_all_nodes_starts_the_waiting_gangs() -> None:
    first, second = parts.measured([(125, 90)])
    assert (first.what, first.actions, first.released) == ("first cycle", 0, None)
    assert second.what == "holder ends"
    assert second.actions > 125 + 10
    assert second.released is not None


def test_concurrent_clients_are_all_answered_and_timed_separately() -> None:
    row = submits._row("sqlite", waiting=2, each=20, runs=1)
    assert (row["store"], row["waiting"]) == ("sqlite", 2)
    assert 0 < float(row["clients"]) < float(row["server"])
