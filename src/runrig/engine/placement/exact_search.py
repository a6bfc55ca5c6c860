"""The exact search: chooses a domain for each required group, then packs the pods (rule T1).

It ignores preferences. Groups are tried in tree order, hardest first. A domain is skipped if what it would hold exceeds its
free amount, by shape or by resource, or if an identical domain has failed. Identical groups use domains in ascending order, so
that no two attempts differ only by a swap.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from runrig.domain.quantities import totals
from runrig.engine.nodes.topology import Domain
from runrig.engine.placement.demand import Demand, PodPlacement, ShapeCounts
from runrig.engine.placement.packing import pack
from runrig.engine.placement.trial_capacity import TrialCapacity

BUDGET = 20_000
"""Maximum number of steps of one search. A step tries one domain for one group, or one mix of pods on one node."""

SMALL = 64
"""Largest domain, in nodes, that is compared with others as a whole."""


class RequiredGroup(NamedTuple):
    """A required group, or the whole gang (group 0, *parent* -1).

    *own*: its demand without the required groups inside it; *leaves*: the leaves of that demand. *same_as*: the closest earlier
    group below the same parent with an identical tree, or None.
    """

    level: int
    parent: int
    demand: ShapeCounts
    own: ShapeCounts
    leaves: tuple[Demand, ...]
    same_as: int | None


class SearchResult(NamedTuple):
    """*placements*: None if none was found.

    *domains*: id(required need) → its domain. *proven* False: the step limit was reached first.
    """

    placements: list[PodPlacement] | None
    domains: dict[int, Domain]
    proven: bool


def _add(need: Demand, parent: int, groups: list[RequiredGroup], needs: list[Demand]) -> None:
    """Adds the required groups of *need*, parents before children and hardest first, and the need of each group."""
    leaves, inner = _split(need)
    own = totals(each for leaf in leaves for each in leaf.demand)
    index = len(groups)
    siblings = (earlier for earlier in range(index - 1, -1, -1) if groups[earlier].parent == parent)
    twin = next((earlier for earlier in siblings if _alike(needs[earlier], need)), None)
    groups.append(RequiredGroup(need.level, parent, need.demand, tuple(sorted(own.items())), tuple(leaves), twin))
    needs.append(need)
    for part in sorted(inner, key=lambda part: (part.level, part.size, _form(part))):
        _add(part, index, groups, needs)


def _split(need: Demand) -> tuple[list[Demand], list[Demand]]:
    """The leaves of *need* outside its required groups, and the outermost required groups inside it."""
    if not need.parts:
        return [need], []
    leaves: list[Demand] = []
    inner: list[Demand] = []
    for part in need.parts:
        if part.required:
            inner.append(part)
        else:
            more, deeper = _split(part)
            leaves += more
            inner += deeper
    return leaves, inner


def _form(need: Demand) -> str:
    """A string that is equal for equivalent needs."""
    return repr((need.level, need.required, need.demand, sorted(_form(part) for part in need.parts)))


def _alike(one: Demand, other: Demand) -> bool:
    return one.level == other.level and one.demand == other.demand and _form(one) == _form(other)


@dataclass(slots=True)
class _Choice:
    """One group's choice: the remaining domains, the current one, and the profiles that have been tried."""

    domains: Iterator[Domain]
    domain: Domain | None = None
    tried: set[object] = field(default_factory=set)


class ExactSearch:
    """Searches for a placement of all of *root* inside *whole*."""

    def __init__(self, capacity: TrialCapacity, root: Demand, whole: Domain) -> None:
        self._capacity = capacity
        self._topology = capacity.topology
        self._whole = whole
        self._budget = BUDGET
        self._groups, self._needs = list[RequiredGroup](), list[Demand]()
        _add(root, -1, self._groups, self._needs)
        self._load: dict[tuple[int, int], dict[int, int]] = {}
        self._sums: dict[tuple[int, int], dict[str, int]] = {}
        self._proven = True

    def run(self) -> SearchResult:
        """Runs the search, in at most BUDGET steps; O(1) if *whole* does not have enough room for some shape."""
        chosen: list[_Choice] = [
            _Choice(iter((self._whole,) if self._may_hold(self._whole, self._groups[0].demand) else ()))
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
            placements = self._packed([choice.domain for choice in chosen if choice.domain is not None])
            if placements is not None:
                domains = {
                    id(need): choice.domain for need, choice in zip(self._needs, chosen, strict=True) if choice.domain
                }
                return SearchResult(placements, domains, True)
        return SearchResult(None, {}, self._proven and not chosen)

    # ------------------------------------------------------------ domains for groups

    def _candidates(self, chosen: Sequence[_Choice]) -> Iterator[Domain]:
        """The domains to try for the next group, inside its parent's domain, tightest first."""
        group = self._groups[len(chosen)]
        outer = chosen[group.parent].domain
        assert outer is not None, "a parent gets its domain before its children"
        if group.level <= outer.level:
            return iter((outer,))
        first, last = self._topology.inside(outer, group.level)
        twin = chosen[group.same_as].domain if group.same_as is not None else None
        if twin is not None:
            first = max(first, twin.at)
        domains = [self._topology.domain(group.level, index) for index in range(first, last)]
        shape = group.demand[0][0] if group.demand else 0
        return iter(sorted(domains, key=lambda domain: (self._capacity.holds(shape, domain), domain.at)))

    def _take(self, chosen: Sequence[_Choice], domain: Domain) -> bool:
        """Assigns *domain* to the last group. Returns False and changes nothing if that cannot work."""
        index = len(chosen) - 1
        group = self._groups[index]
        if index == 0:
            chosen[0].domain = domain
            return True
        outer = chosen[group.parent].domain
        assert outer is not None
        path = self._path(outer, domain)
        if not path:
            chosen[-1].domain = domain
            return True
        if not all(self._may_hold(level_domain, group.demand) for level_domain in path):
            return False
        likeness = self._likeness(path)
        if likeness is not None:
            if likeness in chosen[-1].tried:
                return False
            chosen[-1].tried.add(likeness)
        for level_domain in path:
            self._add_load(level_domain, group.demand, 1)
        chosen[-1].domain = domain
        return True

    def _release(self, chosen: Sequence[_Choice]) -> None:
        """Undoes the choice of the last group."""
        index, choice = len(chosen) - 1, chosen[-1]
        if choice.domain is None or index == 0:
            choice.domain = None
            return
        group = self._groups[index]
        outer = chosen[group.parent].domain
        assert outer is not None
        for domain in self._path(outer, choice.domain):
            self._add_load(domain, group.demand, -1)
        choice.domain = None

    def _path(self, outer: Domain, domain: Domain) -> list[Domain]:
        """The domains inside *outer* that contain *domain*, itself the last."""
        return [self._topology.around(domain.first, level) for level in range(outer.level + 1, domain.level + 1)]

    def _add_load(self, domain: Domain, demand: ShapeCounts, sign: int) -> None:
        load = self._load.setdefault(domain[:2], {})
        for shape, pods in demand:
            load[shape] = load.get(shape, 0) + sign * pods

    def _may_hold(self, domain: Domain, demand: ShapeCounts) -> bool:
        """False if the sums show that *domain* cannot hold *demand* in addition to its current groups."""
        load = dict(self._load.get(domain[:2], {}))
        for shape, pods in demand:
            load[shape] = load.get(shape, 0) + pods
        if any(pods > self._capacity.holds(shape, domain) for shape, pods in load.items()):
            return False
        if len(load) < 2:
            return True
        free, total = self._sum(domain), self._capacity.asked(load.items())
        return all(amount <= free.get(resource, amount) for resource, amount in total.items())

    def _sum(self, domain: Domain) -> dict[str, int]:
        """Resource → amount free in *domain* on nodes that can run some shape; only resources that all of these nodes list."""
        total = self._sums.get(domain[:2])
        if total is None:
            total = {}
            counts = [self._capacity.counts(shape).levels[-1] for shape in range(len(self._capacity.shapes))]
            nodes = [node for node in range(domain.first, domain.last) if any(fitting[node] for fitting in counts)]
            listed = [set(self._capacity.free(node)) for node in nodes]
            for resource in set.intersection(*listed) if listed else ():
                total[resource] = sum(max(0, self._capacity.free(node)[resource]) for node in nodes)
            self._sums[domain[:2]] = total
        return total

    def _likeness(self, path: Sequence[Domain]) -> object | None:
        """A key that is equal for interchangeable domains; None if the domain has load or is too large to compare."""
        domain = path[-1]
        if domain.last - domain.first > SMALL or any(
            any(load.values()) and self._overlap(key, domain) for key, load in self._load.items()
        ):
            return None
        nodes = sorted(self._profile(node, domain.level) for node in range(domain.first, domain.last))
        return (tuple(outer[:2] for outer in path[:-1]), tuple(nodes))

    def _overlap(self, key: tuple[int, int], domain: Domain) -> bool:
        """Whether the domain of *key*, (level, index), is *domain* or inside it."""
        level, index = key
        if level < domain.level:
            return False
        other = self._topology.domain(level, index)
        return domain.first <= other.first < domain.last

    def _profile(self, node: int, level: int) -> str:
        """The capacity of a node, and the domains below *level* that it shares with its neighbours."""
        takes = [bool(self._capacity.counts(shape).takes[node]) for shape in range(len(self._capacity.shapes))]
        inner = [
            int(self._topology.of[finer][node]) - self._topology.inside(self._topology.around(node, level), finer)[0]
            for finer in range(level + 1, self._topology.node_level)
        ]
        return repr((inner, sorted(self._capacity.free(node).items()), takes))

    # ------------------------------------------------------------ pods on nodes

    def _packed(self, domains: Sequence[Domain]) -> list[PodPlacement] | None:
        """Packs the pods of all groups. Finer domains come first, so that pods without a requirement use what is left.

        None if they do not fit or the step limit was reached (then `self._proven` is False).
        """
        owners = [
            (domain, shape, pods, group)
            for group, domain in sorted(zip(self._groups, domains, strict=True), key=lambda pair: -pair[1].level)
            for shape, pods in group.own
        ]
        merged: dict[tuple[int, int, int], list[int]] = {}
        for index, (domain, shape, _, _) in enumerate(owners):
            merged.setdefault((domain.level, domain.at, shape), []).append(index)
        items = [
            (owners[indices[0]][1], owners[indices[0]][0], sum(owners[index][2] for index in indices))
            for indices in merged.values()
        ]
        packed = pack(self._capacity, items, max(1, self._budget))
        self._budget -= packed.steps
        self._proven = self._proven and packed.proven
        if packed.placements is None:
            return None
        queues = [
            [(leaf, pods) for index in indices for leaf, pods in _pods_by_leaf(owners[index][3], owners[index][1])]
            for indices in merged.values()
        ]
        return [
            placement
            for item, node, pods in packed.placements
            for placement in _assign(queues[item], items[item][0], node, pods)
        ]


def _pods_by_leaf(group: RequiredGroup, shape: int) -> Iterator[tuple[Demand, int]]:
    for leaf in group.leaves:
        pods = dict(leaf.demand).get(shape, 0)
        if pods:
            yield leaf, pods


def _assign(queue: list[tuple[Demand, int]], shape: int, node: int, pods: int) -> Iterator[PodPlacement]:
    """Assigns *pods* pods on *node* to the first leaves of *queue*, (leaf, pods still to assign), and removes them from it."""
    while pods:
        leaf, left = queue[0]
        part = min(pods, left)
        yield PodPlacement(leaf, shape, (node,), (part,))
        pods -= part
        if part == left:
            del queue[0]
        else:
            queue[0] = (leaf, left - part)
