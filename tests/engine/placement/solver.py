"""The independent solver: the same problem as an integer program, solved exactly by OR-tools. Written from rules T1,
T2, T3 and T5 alone. Slow, for small clusters only. Pods of a pod set between two ends of slices are equal: they are one
part, and a variable is the number of pods of a part on a node.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ortools.sat.python import cp_model

from runrig.domain.nodes import Node
from tests.engine.placement.problem import Domain, Problem, Run, Together
from tests.engine.placement.yardstick import Nodes, Yardstick, measure


@dataclass(frozen=True, slots=True)
class Solution:
    """*nodes*: one of the best placements, the node of each pod."""

    best: Yardstick
    nodes: Nodes


def solve(problem: Problem, flavors: Sequence[str] | None = None) -> Solution | None:
    """The best placement by the yardstick; None if there is none. *flavors*: of the pod sets, if they are fixed."""
    model = _Model(problem, flavors)
    if not model.possible:
        return None
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    status = solver.solve(model.program)
    if status == cp_model.INFEASIBLE:
        return None
    assert status == cp_model.OPTIMAL, solver.status_name(status)
    nodes = model.read(solver)
    best = measure(problem, nodes)
    assert model.objective_of(best) == round(solver.objective_value), "the program and the yardstick differ"
    return Solution(best, nodes)


class _Model:
    def __init__(self, problem: Problem, flavors: Sequence[str] | None) -> None:
        self.problem = problem
        self.program = cp_model.CpModel()
        self.parts = _parts(problem)
        self.on = {
            (part, node.name): self.program.new_int_var(0, part.pods, "")
            for part in self.parts
            for node in problem.nodes
            if problem.takes(node, problem.pod_sets[part.index])
            and (flavors is None or flavors[part.index] == node.flavor)
        }
        self.possible = all(any(part == each for each, _ in self.on) for part in self.parts)
        if self.possible:
            self._whole()
            self._room()
            self._flavors()
            for each in problem.together:
                if each.required:
                    self._required(each)
            self._objective()

    # ------------------------------------------------------------ law T1

    def _whole(self) -> None:
        for part in self.parts:
            self.program.add(sum(self._of([part], self.problem.nodes)) == part.pods)

    def _room(self) -> None:
        for node in self.problem.nodes:
            for resource in sorted({resource for each in self.problem.pod_sets for resource, _ in each.requests}):
                room = self.problem.room(node, resource)
                asked = [
                    amount * self.on[part, node.name]
                    for part in self.parts
                    if (part, node.name) in self.on
                    for name, amount in self.problem.pod_sets[part.index].requests
                    if name == resource
                ]
                if room is not None and asked:
                    self.program.add(sum(asked) <= room)

    def _flavors(self) -> None:
        """All pods of a pod set have one flavor."""
        for index in range(len(self.problem.pod_sets)):
            mine = [part for part in self.parts if part.index == index]
            self._exactly_one(mine, _grouped(self.problem.nodes, lambda node: node.flavor))

    def _required(self, group: Together) -> None:
        domains = _grouped(self.problem.nodes, lambda node: self.problem.domain(node, group.level))
        self._exactly_one(self._parts_of(group), domains)

    def _exactly_one(self, parts: Sequence[Run], nodes_by_choice: dict[object, list[Node]]) -> None:
        if not parts or len(nodes_by_choice) == 1:
            return
        choices = {choice: self.program.new_bool_var("") for choice in nodes_by_choice}
        self.program.add_exactly_one(choices.values())
        for choice, nodes in nodes_by_choice.items():
            for part in parts:
                self.program.add(sum(self._of([part], nodes)) == part.pods * choices[choice])

    # ------------------------------------------------------------ law T2

    def _objective(self) -> None:
        """The yardstick as one number: each component outweighs all components to its right together."""
        problem, levels = self.problem, len(self.problem.keys)
        preferred = [each for each in problem.together if not each.required]
        lost: list[list[cp_model.IntVar]] = [[] for _ in range(levels)]
        domains: list[cp_model.IntVar] = []
        for each in preferred:
            for level in range(each.level + 1):
                touched = self._touched(self._parts_of(each), level)
                lost[each.level].append(self._more_than_one(touched))
                if level == each.level:
                    domains += touched
        if not preferred and levels:
            domains = self._touched(self.parts, levels - 1)
        nodes = self._touches(self.parts, _grouped(problem.nodes, lambda node: node.name))
        self.fixed_domains = 0 if domains else 1
        self.widths = [*(len(each) + 1 for each in lost), len(domains) + 2, len(nodes) + 1]
        places = [*(sum(each) for each in lost), sum(domains) + self.fixed_domains, sum(nodes)]
        self.program.minimize(self._weighed(places))

    def _weighed(self, places: Sequence[Any]) -> Any:
        total: Any = 0
        for place, width in zip(places, self.widths, strict=True):
            total = total * width + place
        return total

    def objective_of(self, yardstick: Yardstick) -> Any:
        return self._weighed([*yardstick.lost, yardstick.domains, yardstick.nodes])

    def _touched(self, parts: Sequence[Run], level: int) -> list[cp_model.IntVar]:
        return self._touches(parts, _grouped(self.problem.nodes, lambda node: self.problem.domain(node, level)))

    def _touches(self, parts: Sequence[Run], nodes_by_place: dict[object, list[Node]]) -> list[cp_model.IntVar]:
        """One variable per domain: at least 1 if it contains a pod of *parts*."""
        found = []
        for nodes in nodes_by_place.values():
            if not self._of(parts, nodes):
                continue
            touched = self.program.new_bool_var("")
            for part in parts:
                if inside := self._of([part], nodes):
                    self.program.add(sum(inside) <= part.pods * touched)
            found.append(touched)
        return found

    def _more_than_one(self, touched: Sequence[cp_model.IntVar]) -> cp_model.IntVar:
        many = self.program.new_bool_var("")
        self.program.add(sum(touched) <= 1 + (len(touched) - 1) * many)
        return many

    # ------------------------------------------------------------ helpers

    def _of(self, parts: Iterable[Run], nodes: Iterable[Node]) -> list[cp_model.IntVar]:
        found = []
        names = [node.name for node in nodes]
        for part in parts:
            found += [self.on[part, name] for name in names if (part, name) in self.on]
        return found

    def _parts_of(self, group: Together) -> list[Run]:
        return [
            part
            for part in self.parts
            if any(run.index == part.index and run.start <= part.start < run.stop for run in group.runs)
        ]

    def read(self, solver: cp_model.CpSolver) -> Nodes:
        nodes: Nodes = [[] for _ in self.problem.pod_sets]
        for part in self.parts:
            for node in self.problem.nodes:
                if (part, node.name) in self.on:
                    nodes[part.index] += [node.name] * solver.value(self.on[part, node.name])
        return nodes


def _parts(problem: Problem) -> list[Run]:
    parts = []
    for index, count in enumerate(problem.counts):
        ends = {0, count}
        for group in problem.together:
            ends.update(end for run in group.runs if run.index == index for end in (run.start, run.stop))
        cuts = sorted(ends)
        parts += [Run(index, start, stop) for start, stop in pairwise(cuts)]
    return parts


def _grouped(nodes: Iterable[Node], place_of: Callable[[Node], str | Domain]) -> dict[object, list[Node]]:
    found: dict[object, list[Node]] = {}
    for node in nodes:
        found.setdefault(place_of(node), []).append(node)
    return found
