"""The exact search: which domain each required group takes, then whether the pods can be packed (law T1).

Preferences do not count here.  Groups are taken in the order of the tree, the hardest first; a domain is left out where the sum
of what it would have to hold exceeds what it has, shape by shape and resource by resource, and where it is like one that has
failed.  Groups that are alike take their domains in order.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from runrig.engine.nodes.topology import Domain
from runrig.engine.placement.demand import Demand, PodPlacement, ShapeCounts
from runrig.engine.placement.packing import pack
from runrig.engine.placement.trial_capacity import TrialCapacity

BUDGET = 20_000
"""Steps: one step tries one domain for one group, or one mix of pods on one node."""

SMALL = 64
"""Nodes of domains that are compared with each other as a whole."""


class RequiredGroup(NamedTuple):
    """A required group, or the gang: *own* is its demand outside of the required groups inside it, *leaves* those of it."""

    level: int
    parent: int
    demand: ShapeCounts
    own: ShapeCounts
    leaves: tuple[Demand, ...]
    same_as: int | None
    """The group before it under the same parent that asks for the same all the way down."""


class SearchResult(NamedTuple):
    """*puts*: None if there is no placement.  *domains*: per required need, by its identity.  *proven* False: the budget ended it."""

    puts: list[PodPlacement] | None
    domains: dict[int, Domain]
    proven: bool


def required_groups(root: Demand) -> tuple[list[RequiredGroup], list[Demand]]:
    """Parents before what is inside them, the hardest first; and the need that each stands for."""
    groups: list[RequiredGroup] = []
    needs: list[Demand] = []
    _add(root, -1, groups, needs)
    return groups, needs


def _add(need: Demand, parent: int, groups: list[RequiredGroup], needs: list[Demand]) -> None:
    leaves, inside = _split(need)
    own: dict[int, int] = {}
    for leaf in leaves:
        for shape, pods in leaf.demand:
            own[shape] = own.get(shape, 0) + pods
    at = len(groups)
    twin = next(
        (each for each in range(at - 1, -1, -1) if groups[each].parent == parent and _alike(needs[each], need)), None
    )
    groups.append(RequiredGroup(need.level, parent, need.demand, tuple(sorted(own.items())), tuple(leaves), twin))
    needs.append(need)
    for each in sorted(inside, key=lambda each: (each.level, each.size, _form(each))):
        _add(each, at, groups, needs)


def _split(need: Demand) -> tuple[list[Demand], list[Demand]]:
    """Its leaves outside of required groups, and the required groups next inside it."""
    if not need.parts:
        return [need], []
    leaves: list[Demand] = []
    inside: list[Demand] = []
    for part in need.parts:
        if part.required:
            inside.append(part)
        else:
            more, deeper = _split(part)
            leaves += more
            inside += deeper
    return leaves, inside


def _form(need: Demand) -> str:
    """Equal of needs that ask for the same."""
    return repr((need.level, need.required, need.demand, sorted(_form(part) for part in need.parts)))


def _alike(one: Demand, other: Demand) -> bool:
    return one.level == other.level and one.demand == other.demand and _form(one) == _form(other)


class _Choice:
    """The domains that are still to be tried for one group, and the one that it has."""

    __slots__ = ("domain", "domains", "tried")

    def __init__(self, domains: Iterator[Domain]) -> None:
        self.domains = domains
        self.domain: Domain | None = None
        self.tried: set[object] = set()


class ExactSearch:
    """*root*: what the gang needs inside *whole*."""

    def __init__(self, capacity: TrialCapacity, root: Demand, whole: Domain) -> None:
        self._capacity = capacity
        self._topology = capacity.topology
        self._whole = whole
        self._budget = BUDGET
        self._groups, self._needs = required_groups(root)
        self._load: dict[tuple[int, int], dict[int, int]] = {}
        self._sums: dict[tuple[int, int], dict[str, int]] = {}
        self._proven = True

    def run(self) -> SearchResult:
        """O(1) where a single shape has no room in any domain that would have to hold it."""
        chosen: list[_Choice] = [
            _Choice(iter((self._whole,) if self._bears(self._whole, self._groups[0].demand) else ()))
        ]
        while chosen and self._budget > 0:
            choice = chosen[-1]
            self._release(chosen)
            domain = next(choice.domains, None)
            if domain is None:
                chosen.pop()
                continue
            self._budget -= 1
            if not self._take(chosen, domain):
                continue
            if len(chosen) < len(self._groups):
                chosen.append(_Choice(self._candidates(chosen)))
                continue
            puts = self._packed([each.domain for each in chosen if each.domain is not None])
            if puts is not None:
                domains = {id(need): each.domain for need, each in zip(self._needs, chosen, strict=True) if each.domain}
                return SearchResult(puts, domains, True)
        return SearchResult(None, {}, self._proven and not chosen)

    # ------------------------------------------------------------ domains for groups

    def _candidates(self, chosen: Sequence[_Choice]) -> Iterator[Domain]:
        """Inside the parent's domain; the tightest first."""
        group = self._groups[len(chosen)]
        around = chosen[group.parent].domain
        assert around is not None, "parents have theirs first"
        if group.level <= around.level:
            return iter((around,))
        first, last = self._topology.inside(around, group.level)
        twin = chosen[group.same_as].domain if group.same_as is not None else None
        if twin is not None:
            first = max(first, twin.at)
        domains = [self._topology.domain(group.level, at) for at in range(first, last)]
        shape = group.demand[0][0] if group.demand else 0
        return iter(sorted(domains, key=lambda each: (self._capacity.holds(shape, each), each.at)))

    def _take(self, chosen: Sequence[_Choice], domain: Domain) -> bool:
        at = len(chosen) - 1
        group = self._groups[at]
        if at == 0:
            chosen[0].domain = domain
            return True
        around = chosen[group.parent].domain
        assert around is not None
        path = [self._around(domain, level) for level in range(around.level + 1, domain.level + 1)]
        if not path:
            chosen[-1].domain = domain
            return True
        if not all(self._bears(each, group.demand) for each in path):
            return False
        likeness = self._likeness(path)
        if likeness is not None:
            if likeness in chosen[-1].tried:
                return False
            chosen[-1].tried.add(likeness)
        for each in path:
            self._add_load(each, group.demand, 1)
        chosen[-1].domain = domain
        return True

    def _release(self, chosen: Sequence[_Choice]) -> None:
        """The last group gives its domain back."""
        at, choice = len(chosen) - 1, chosen[-1]
        if choice.domain is None or at == 0:
            choice.domain = None
            return
        group = self._groups[at]
        around = chosen[group.parent].domain
        assert around is not None
        for level in range(around.level + 1, choice.domain.level + 1):
            self._add_load(self._around(choice.domain, level), group.demand, -1)
        choice.domain = None

    def _around(self, domain: Domain, level: int) -> Domain:
        return (
            domain
            if level == domain.level
            else self._topology.domain(level, int(self._topology.of[level][domain.first]))
        )

    def _add_load(self, domain: Domain, demand: ShapeCounts, sign: int) -> None:
        load = self._load.setdefault(domain[:2], {})
        for shape, pods in demand:
            load[shape] = load.get(shape, 0) + sign * pods

    def _bears(self, domain: Domain, demand: ShapeCounts) -> bool:
        """*demand* on top of what *domain* has to hold already may have room, as far as sums can tell."""
        load = dict(self._load.get(domain[:2], {}))
        for shape, pods in demand:
            load[shape] = load.get(shape, 0) + pods
        if any(pods > self._capacity.holds(shape, domain) for shape, pods in load.items()):
            return False
        if len(load) < 2:
            return True
        total: dict[str, int] = {}
        for shape, pods in load.items():
            for resource, amount in self._capacity.shapes[shape].requests:
                total[resource] = total.get(resource, 0) + amount * pods
        free = self._sum(domain)
        return all(amount <= free.get(resource, amount) for resource, amount in total.items())

    def _sum(self, domain: Domain) -> dict[str, int]:
        """What is free of each resource that all its nodes list, on nodes that take some shape of the gang."""
        found = self._sums.get(domain[:2])
        if found is None:
            found = {}
            counts = [self._capacity.counts(shape).levels[-1] for shape in range(len(self._capacity.shapes))]
            nodes = [node for node in range(domain.first, domain.last) if any(each[node] for each in counts)]
            listed = [set(self._capacity.free(node)) for node in nodes]
            for resource in set.intersection(*listed) if listed else ():
                found[resource] = sum(max(0, self._capacity.free(node)[resource]) for node in nodes)
            self._sums[domain[:2]] = found
        return found

    def _likeness(self, path: Sequence[Domain]) -> object | None:
        """Equal of domains that nothing tells apart; None of one that is told apart, or too large to compare."""
        domain = path[-1]
        if domain.last - domain.first > SMALL or any(
            any(load.values()) and self._overlap(key, domain) for key, load in self._load.items()
        ):
            return None
        nodes = sorted(self._profile(node, domain.level) for node in range(domain.first, domain.last))
        return (tuple(each[:2] for each in path[:-1]), tuple(nodes))

    def _overlap(self, key: tuple[int, int], domain: Domain) -> bool:
        """Some load stands on *domain* or inside it."""
        level, at = key
        if level < domain.level:
            return False
        other = self._topology.domain(level, at)
        return domain.first <= other.first < domain.last

    def _profile(self, node: int, level: int) -> str:
        """What a node offers, and how it hangs together with its neighbours below *level*."""
        takes = [bool(self._capacity.counts(shape).takes[node]) for shape in range(len(self._capacity.shapes))]
        inner = [
            int(self._topology.of[each][node]) - int(self._topology.inside(self._around_node(node, level), each)[0])
            for each in range(level + 1, self._topology.node_level)
        ]
        return repr((inner, sorted(self._capacity.free(node).items()), takes))

    def _around_node(self, node: int, level: int) -> Domain:
        return self._topology.domain(level, int(self._topology.of[level][node]))

    # ------------------------------------------------------------ pods on nodes

    def _packed(self, domains: Sequence[Domain]) -> list[PodPlacement] | None:
        """Finer domains first, so that what may stand anywhere takes what is left."""
        owners = [
            (domain, shape, pods, group)
            for group, domain in sorted(zip(self._groups, domains, strict=True), key=lambda each: -each[1].level)
            for shape, pods in group.own
        ]
        merged: dict[tuple[int, int, int], list[int]] = {}
        for at, (domain, shape, _, _) in enumerate(owners):
            merged.setdefault((domain.level, domain.at, shape), []).append(at)
        items = [(owners[ats[0]][1], owners[ats[0]][0], sum(owners[at][2] for at in ats)) for ats in merged.values()]
        packed = pack(self._capacity, items, max(1, self._budget))
        self._budget -= packed.steps
        self._proven = self._proven and packed.proven
        if packed.puts is None:
            return None
        queues = [
            [(leaf, pods) for at in ats for leaf, pods in _of_leaves(owners[at][3], owners[at][1])]
            for ats in merged.values()
        ]
        return [
            put for item, node, pods in packed.puts for put in _handed_out(queues[item], items[item][0], node, pods)
        ]


def _of_leaves(group: RequiredGroup, shape: int) -> Iterator[tuple[Demand, int]]:
    for leaf in group.leaves:
        pods = dict(leaf.demand).get(shape, 0)
        if pods:
            yield leaf, pods


def _handed_out(queue: list[tuple[Demand, int]], shape: int, node: int, pods: int) -> Iterator[PodPlacement]:
    """*pods* on *node* for whoever is first in *queue*."""
    while pods:
        leaf, left = queue[0]
        part = min(pods, left)
        yield PodPlacement(leaf, shape, node, part)
        pods -= part
        if part == left:
            del queue[0]
        else:
            queue[0] = (leaf, left - part)
