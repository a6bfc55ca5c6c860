"""Many people at once, a store with a long past, and a cluster of ten thousand nodes with a long queue."""

from functools import partial
from pathlib import Path

import pytest

from tests.load import crowd, open_loop
from tests.load.field import house, measure
from tests.load.metropolis import SHAPES, Size, metropolis

P99_S = 0.25
MOST_GROWTH = 30 * 1024 * 1024
MANY = {"submit": 100.0, "cancel": 100.0, "resize": 1.0, "why": 5.0, "pools": 1.0, "resources": 5.0}
FEW = {"submit": 10.0, "cancel": 10.0, "resize": 2.0, "why": 5.0, "pools": 2.0, "resources": 2.0}


@pytest.mark.soak
def test_two_hundred_clients_for_ten_minutes(tmp_path: Path) -> None:
    with house(tmp_path, past=100_000) as target:
        found = measure(target, partial(crowd.run, clients=200, seconds=600, think_s=5.0))
    print("\n".join(found.lines()))
    assert found.figures.errors == []
    assert len(found.figures.seconds["submit"]) > 200 * 600 / 20, "the clients hardly asked"
    assert found.figures.percentile("submit", 99) < P99_S, found.lines()
    assert found.growth() < MOST_GROWTH, found.lines()


def test_a_few_clients_for_a_few_seconds(tmp_path: Path) -> None:
    """Shows that the measurement itself works; its times are for `make soak`."""
    with house(tmp_path, past=1000) as target:
        found = measure(target, partial(crowd.run, clients=5, seconds=3, think_s=0.5))
        listed = target.ok("GET", "/api/workflow?all_users=true&name=past-&limit=1000")
        assert (len(listed["workflows"]), listed["more_entries"]) == (1000, False)
    assert found.figures.errors == []
    assert set(found.figures.seconds) >= {"submit", "wait", "query", "list"}


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_submissions_and_cancellations_at_fixed_moments_in_a_large_cluster(tmp_path: Path) -> None:
    with metropolis(tmp_path) as target:
        plan = open_loop.Plan(MANY, 600, Size())
        found = measure(target, partial(open_loop.run, plan=plan, clients=200))
    print("\n".join(found.lines()))
    assert found.figures.errors == []
    assert found.figures.percentile("submit", 99) < P99_S, found.lines()
    assert found.growth(settled=2) < MOST_GROWTH, found.lines()


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_submissions_while_ten_users_keep_requesting_why_in_a_large_cluster(tmp_path: Path) -> None:
    """No answer may hold the server up: half of the load, and beside it questions without a pause."""
    half = {"submit": 50.0, "cancel": 50.0}
    with metropolis(tmp_path) as target:
        quiet = measure(target, partial(open_loop.run, plan=open_loop.Plan(half, 60, Size()), clients=100))
        found = measure(target, partial(open_loop.run, plan=open_loop.Plan(half, 120, Size(), askers=10), clients=100))
    print("\n".join(["while nobody asks", *quiet.lines(), "while ten people keep asking", *found.lines()]))
    assert found.figures.errors == []
    assert len(found.figures.seconds["why"]) > 100, "they hardly asked"
    assert found.figures.percentile("submit", 99) < P99_S, found.lines()


def test_questions_are_timed_on_a_small_cluster_of_the_same_kind(tmp_path: Path) -> None:
    """Shows that this measurement works too."""
    size = Size(nodes=240, pools=120, waiting=400)
    with metropolis(tmp_path, size) as target:
        before = len(target.portrait()["gangs"])
        found = measure(target, partial(open_loop.run, plan=open_loop.Plan(FEW, 3, size, askers=2), clients=10))
        assert before >= size.waiting + len(SHAPES)
    assert found.figures.errors == []
    assert set(found.figures.seconds) - {"would start: 503"} == {*FEW, "would start"}
