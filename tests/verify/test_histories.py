"""Random histories of a server, made over HTTP: every decision in them is lawful."""

import pytest

from tests.verify.histories import judged


def check(count: int, first: int, decisions: int) -> None:
    made = 0
    for seed in range(first, first + count):
        totals, reports = judged(seed, decisions)
        assert reports == [], f"python -m tests.verify.histories 1 {seed}"
        made += totals["decisions"]
    assert made > count * decisions // 2


@pytest.mark.slow
def test_each_decision_of_a_few_random_histories_is_lawful() -> None:
    check(4, first=1_000, decisions=500)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_each_of_two_hundred_thousand_decisions_is_lawful() -> None:
    check(200, first=0, decisions=1_100)
