"""The engine for imported queues compared with the model, on random systems like those that Kueue decided itself."""

from collections import Counter

import pytest

from runrig.kueue.engine.simulator import Simulator
from tests.kueue.engine import drawn
from tests.kueue.engine.model import Model
from tests.kueue.engine.test_second_opinion import same_cycle, waits_for_evicted

IN_MAKE_TEST = 100
IN_SOAK = 5_000
MOST_CYCLES = 5
BATCH = 25


def decided_alike(number: int) -> str:
    """Compares all cycles up to the first that preempts. Returns the decisions of the cycles as a string."""
    system, settings = drawn.case(number)
    world, model = Simulator(system, settings), Model(system, settings)
    admitted = 0
    for at in range(1, MOST_CYCLES + 1):
        report = same_cycle(world, model, system.now + at)
        admitted += len(report.admitted)
        if report.preempted or waits_for_evicted(model):
            return "preempts"
    return "admits" if admitted else "nothing"


def check(numbers: range) -> Counter[str]:
    done: Counter[str] = Counter()
    for number in numbers:
        try:
            done[decided_alike(number)] += 1
        except AssertionError as error:
            error.add_note(f"system {number}")
            raise
    return done


@pytest.mark.parametrize("first", range(0, IN_MAKE_TEST, BATCH))
def test_engine_and_model_agree_on_random_systems(first: int) -> None:
    done = check(range(first, first + BATCH))
    assert min(done["preempts"], done["admits"]) > 0, f"systems in which nothing happens prove little: {done}"


@pytest.mark.soak
def test_engine_and_model_agree_on_many_random_systems() -> None:
    print(check(range(IN_MAKE_TEST, IN_SOAK)))
