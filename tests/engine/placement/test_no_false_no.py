"""On random small clusters the engine finds a placement exactly if there is one, and a compact one (rules T1, T2).
docs/placement.md explains the numbers; ``python -m tests.engine.placement.report`` prints the rates.
"""

from collections.abc import Iterator

import pytest

from runrig.engine.ledger.options import flavor_choices
from runrig.engine.placement.place import may_hold, place
from runrig.engine.quota.quota_node import CHARGED
from tests.engine.placement.comparison import TARGET, Verdict, judge, rates_of
from tests.engine.placement.engine_answers import ledger_of, queued
from tests.engine.placement.instances import instance

AT_ONCE = 50
USUAL = 300


@pytest.mark.parametrize("first", range(0, USUAL, AT_ONCE))
def test_the_engine_finds_a_placement_exactly_if_there_is_one(first: int) -> None:
    assert [sentence for seed in range(first, first + AT_ONCE) for sentence in judge(seed).wrong] == []


def test_placements_are_as_compact_as_expected_and_half_of_the_instances_have_one() -> None:
    _check_rates([judge(seed) for seed in range(USUAL)])


def test_feasibility_is_known_without_the_placement() -> None:
    answers = [pair for seed in range(USUAL) for pair in _room_and_place(seed)]
    assert [room for room, _ in answers] == [found for _, found in answers]
    assert {room for room, _ in answers} == {True, False}


def _room_and_place(seed: int) -> Iterator[tuple[bool, bool]]:
    """For each choice of flavors: may the nodes hold the gang, and is there a placement, or provably none?"""
    problem = instance(seed).problem
    ledger = ledger_of(problem)
    entry = queued(ledger, problem)
    for choice in flavor_choices(ledger, entry, problem.counts, mixed=True):
        asked = ledger.asked_of_nodes(entry, choice)
        assert asked is not None
        layout = place(ledger.nodes, asked, (CHARGED,))
        room = may_hold(ledger.nodes, asked, (CHARGED,))
        yield room, layout.shares is not None or not layout.proven


@pytest.mark.soak
def test_5000_more_instances() -> None:
    verdicts = [judge(seed) for seed in range(1_000, 6_000)]
    assert [sentence for each in verdicts for sentence in each.wrong] == []
    _check_rates(verdicts)


def _check_rates(verdicts: list[Verdict]) -> None:
    rates = rates_of(verdicts)
    assert 0.45 <= rates.feasible / rates.of <= 0.6, rates
    assert rates.rate(rates.few) >= TARGET, rates
