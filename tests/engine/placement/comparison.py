"""Engine and independent solver compared over many instances."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from runrig.domain.gangs import Placement
from tests.engine.placement.engine_answers import ask, is_unproven
from tests.engine.placement.instances import Instance, instance
from tests.engine.placement.solver import solve
from tests.engine.placement.yardstick import Yardstick, faults, measure, nodes_of

TARGET = 0.95
"""This share of placements is as near as the optimum, and in as few domains."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """*best* None: there is no valid placement. *found* None: the engine has none. *wrong*: sentences; empty if all is
    right. *best* is the optimum for the flavors that the engine chose, because their order is the order of preference.
    """

    instance: Instance
    best: Yardstick | None
    found: Yardstick | None
    wrong: tuple[str, ...]


def judge(seed: int) -> Verdict:
    given = instance(seed)
    problem = given.problem
    placement = ask(problem)
    flavors = None if placement is None else [each.flavor for each in placement]
    solution = solve(problem, flavors)
    best = solution.best if solution else None
    wrong = _wrong(given, placement, best)
    found = None if placement is None or wrong else measure(problem, nodes_of(placement))
    return Verdict(given, best, found, tuple(f"seed {seed}: {sentence}" for sentence in wrong))


def _wrong(given: Instance, placement: Placement | None, best: Yardstick | None) -> list[str]:
    if placement is None:
        found = [] if best is None else [f"no place was found, and there is one: {best}"]
        return [*found, "ended unproven"] if is_unproven(given.problem) else found
    found = faults(given.problem, placement)
    if best is None and not found:
        return ["a place was found where the solver knows none"]
    return found


@dataclass(frozen=True, slots=True)
class Rates:
    """In how many of the *feasible* instances the engine reaches the optimum: *near* in levels, *few* in levels and
    domains, *same* also in nodes. *of*: all instances tried.
    """

    of: int
    feasible: int
    near: int
    few: int
    same: int

    def rate(self, count: int) -> float:
        return count / self.feasible if self.feasible else 1.0


def rates_of(verdicts: Iterable[Verdict]) -> Rates:
    counted: Counter[str] = Counter()
    for each in verdicts:
        best, found = each.best, each.found
        counted.update({"of": 1, "feasible": best is not None})
        if best is not None and found is not None:
            near = found.lost == best.lost
            few = near and found.domains == best.domains
            counted.update({"near": near, "few": few, "same": found == best})
    return Rates(*(counted[name] for name in ("of", "feasible", "near", "few", "same")))
