"""A fixed set of work that never ends comes to rest: in listed systems where it once did not, and in random small ones."""

from collections import Counter

import pytest

from tests.conformance import chance, rest
from tests.conformance.cases import Case, parameters
from tests.conformance.systems import settings, system

BOUND = 1_000
ORDINARY, MANY = 2_000, 100_000


@pytest.mark.parametrize("patient", [True, False], ids=["patient", "hasty"])
@pytest.mark.parametrize("case", parameters("rest"))
def test_work_that_could_loop_settles(case: Case, patient: bool) -> None:
    assert rest.run(system(case), settings(case), patient=patient, bound=BOUND).cycles is not None


def test_random_small_systems_settle() -> None:
    assert _restless(range(ORDINARY)) == []


@pytest.mark.soak
@pytest.mark.parametrize("part", range(20))
def test_many_random_small_systems_settle(part: int) -> None:
    size = MANY // 20
    assert _restless(range(part * size, (part + 1) * size)) == []


def test_random_systems_differ() -> None:
    found = Counter[str]()
    for number in range(200):
        made, how = chance.case(number)
        found[f"{'fair' if how.strategies else 'classical'}, {'deep' if made.cohorts else 'flat'}"] += 1
        found["preempts"] += _random(number).preemptions > 0
    assert {key: found[key] for key in ("classical, flat", "classical, deep", "fair, flat", "fair, deep")} == {
        "classical, flat": 25,
        "classical, deep": 25,
        "fair, flat": 75,
        "fair, deep": 75,
    }
    assert found["preempts"] >= 30, "too few of them test anything"


def _restless(numbers: range) -> list[int]:
    """The numbers of systems that do not come to rest within the bound."""
    return [number for number in numbers if _random(number).cycles is None]


def _random(number: int) -> rest.Rest:
    """The system of *number*; how work comes and when it is woken take turns too."""
    made, how = chance.case(number)
    return rest.run(made, how, patient=number // 32 % 2 == 0, one_by_one=number // 64 % 2 == 0, bound=BOUND)
