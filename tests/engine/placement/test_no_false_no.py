"""The engine finds a place if and only if there is one, and a near one (laws T1 and T2), on random small clusters.

docs/placement.md says what is counted; ``python -m tests.engine.placement.report`` prints the rates.
"""

import pytest

from tests.engine.placement.comparison import TARGET, Verdict, judge, rates_of

AT_ONCE = 50
USUAL = 300


@pytest.mark.parametrize("first", range(0, USUAL, AT_ONCE))
def test_the_engine_finds_a_place_if_and_only_if_there_is_one(first: int) -> None:
    assert [sentence for seed in range(first, first + AT_ONCE) for sentence in judge(seed).wrong] == []


def test_places_are_as_near_as_can_be_and_half_of_the_instances_have_one() -> None:
    _check_rates([judge(seed) for seed in range(USUAL)])


@pytest.mark.soak
def test_5000_more_instances() -> None:
    verdicts = [judge(seed) for seed in range(1_000, 6_000)]
    assert [sentence for each in verdicts for sentence in each.wrong] == []
    _check_rates(verdicts)


def _check_rates(verdicts: list[Verdict]) -> None:
    rates = rates_of(verdicts)
    assert 0.45 <= rates.feasible / rates.of <= 0.6, rates
    assert rates.rate(rates.few) >= TARGET, rates
