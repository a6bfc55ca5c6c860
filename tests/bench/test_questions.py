"""What the benchmarks of questions and starts measure is what they say; each checks its own answers."""

import pytest

from bench import questions

pytestmark = pytest.mark.slow


def test_every_query_runs_on_a_small_cluster() -> None:
    found = list(questions.questions(1, sizes=(200,), pools=10, lines=(100,), logs=(20,)))
    assert [(each.what, each.at) for each in found] == [
        ("resources, all at once", "200 nodes and tasks"),
        ("nodes, reading a page of 100", "200 nodes and tasks"),
        ("counting GPUs", "200 nodes and tasks"),
        ("desired, with queues", "4 pools, 200 nodes"),
        ("pool_quota", "10 pools, 100 waiting"),
        ("apply --prune", "20 events"),
    ]
    assert all(each.goal is not None for each in found)
    assert all(each.times.least > 0 for each in found)
    assert all(each.locked is None or 0 < each.locked < each.times.least for each in found)


def test_start_finds_all_waiting_work() -> None:
    (start,) = questions.starts(1, sizes=(2_000,))
    assert (start.waiting, 0.5e3 < start.memory < 2.5e3) == (2_000, True)
