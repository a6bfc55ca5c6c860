"""The arithmetic on work that ends never refutes what the engine would start: compared with a cycle on a ledger loaded from rows."""

import random

import pytest

from runrig.domain.changes import Ended
from runrig.engine.foresight.dials import Reach, holders
from runrig.engine.foresight.ended_work import EndedWork
from tests.engine.foresight.test_counterfactual import decided, waiting, world
from tests.exploring import tries

pytestmark = pytest.mark.explored

SETS = 6


def compared(seed: int) -> tuple[int, int]:
    """(how many sets of workflows were refuted, how many start it)."""
    ledger, mix = world(seed), random.Random(seed)
    refuted = started = 0
    for entry in waiting(ledger, 4):
        found = holders(ledger, entry, Reach())
        work, names = EndedWork(ledger, entry, found), [ledger.holdings.names[number] for number in found]
        sets = [[number] for number in range(len(names))]
        sets += [sorted(mix.sample(range(len(names)), mix.randrange(len(names) + 1))) for _ in range(SETS)]
        alone = work.alone()
        for numbers in sets:
            may = work.may_start_with(numbers)
            assert len(numbers) != 1 or may == alone[numbers[0]]
            starts = decided(ledger, entry.gang.id, (Ended(tuple(names[at] for at in numbers)),))[0].starts
            assert may or not starts, (entry.gang, numbers)
            refuted, started = refuted + (not may), started + starts
        least = work.least_set()
        if least is None:
            assert not work.may_start_with(range(len(names)))
        else:
            assert work.may_start_with(least)
            assert not any(work.may_start_with([each for each in least if each != out]) for out in least)
    return refuted, started


@pytest.mark.parametrize("seed", range(tries(30)))
def test_what_is_refuted_does_not_start(seed: int) -> None:
    compared(seed)


def test_much_is_refuted_and_some_starts() -> None:
    refuted, started = map(sum, zip(*(compared(seed) for seed in range(20)), strict=True))
    assert refuted > 100
    assert started > 10
