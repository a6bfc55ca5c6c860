"""Cases with answers worked out by hand, for the engine and the solver (rules T1, T2, T3)."""

import pytest

from tests.engine.placement.engine_answers import ask
from tests.engine.placement.hand_made import CASES, Case
from tests.engine.placement.solver import solve
from tests.engine.placement.yardstick import faults, measure, nodes_of

NAMED = [pytest.param(case, id=case.name.replace(" ", "-")) for case in CASES]


@pytest.mark.parametrize("case", NAMED)
def test_the_solver_gives_the_expected_answer(case: Case) -> None:
    solution = solve(case.problem)
    assert (solution and solution.best) == case.best


@pytest.mark.parametrize("case", NAMED)
def test_the_engine_gives_the_expected_answer(case: Case) -> None:
    placement = ask(case.problem)
    assert placement is None or faults(case.problem, placement) == []
    assert (placement and measure(case.problem, nodes_of(placement))) == case.best
