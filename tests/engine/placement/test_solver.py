"""The solver itself, compared with a list of all placements if that is short."""

from itertools import product

import pytest

from tests.engine.placement.instances import TINY, instance
from tests.engine.placement.problem import Problem
from tests.engine.placement.solver import solve
from tests.engine.placement.yardstick import Yardstick, faults, measure, placement_of

MOST = 5_000


def best_of_all(problem: Problem) -> Yardstick | None:
    """Tries every node for every pod."""
    per_pod = [
        [node.name for node in problem.nodes if problem.takes(node, pod_set)]
        for pod_set, count in zip(problem.pod_sets, problem.counts, strict=True)
        for _ in range(count)
    ]
    best = None
    for chosen in product(*per_pod):
        left = iter(chosen)
        nodes = [[next(left) for _ in range(count)] for count in problem.counts]
        if not faults(problem, placement_of(problem, nodes)):
            found = measure(problem, nodes)
            best = found if best is None else min(best, found)
    return best


def size_of_list(problem: Problem) -> int:
    pods = sum(problem.counts)
    return int(len(problem.nodes) ** pods)


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_the_solver_finds_the_best_placement_of_tiny_problems(first: int) -> None:
    feasible = compared = 0
    for seed in range(first, first + 100):
        problem = instance(seed, TINY).problem
        if size_of_list(problem) > MOST:
            continue
        solution, expected = solve(problem), best_of_all(problem)
        assert (solution and solution.best) == expected, f"seed {seed}"
        compared += 1
        feasible += expected is not None
    assert compared >= 60
    assert compared * 0.3 <= feasible <= compared * 0.8


@pytest.mark.parametrize("first", range(0, 300, 100))
def test_solutions_are_valid(first: int) -> None:
    for seed in range(first, first + 100):
        problem = instance(seed).problem
        solution = solve(problem)
        assert solution is None or faults(problem, placement_of(problem, solution.nodes)) == [], f"seed {seed}"
