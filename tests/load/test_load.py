"""Many people at once, and a store with a long past."""

from pathlib import Path

import pytest

from tests.load.field import house, measure

P99_S = 0.25
MOST_GROWTH = 30 * 1024 * 1024


@pytest.mark.soak
def test_two_hundred_clients_for_ten_minutes(tmp_path: Path) -> None:
    with house(tmp_path, past=100_000) as target:
        found = measure(target, clients=200, seconds=600)
    print("\n".join(found.lines()))
    assert found.figures.errors == []
    assert len(found.figures.seconds["submit"]) > 200 * 600 / 20, "the clients hardly asked"
    assert found.figures.percentile("submit", 99) < P99_S, found.lines()
    assert found.growth() < MOST_GROWTH, found.lines()


def test_a_few_clients_for_a_few_seconds(tmp_path: Path) -> None:
    """That the measurement itself works; its times are for `make soak`."""
    with house(tmp_path, past=1000) as target:
        found = measure(target, clients=5, seconds=3, think_s=0.5)
        listed = target.ok("GET", "/api/workflow?all_users=true&name=past-&limit=1000")
        assert (len(listed["workflows"]), listed["more_entries"]) == (1000, False)
    assert found.figures.errors == []
    assert set(found.figures.seconds) >= {"submit", "wait", "query", "list"}
