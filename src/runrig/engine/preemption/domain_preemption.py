"""Preemption for a gang that requires a domain: the set of gangs with the lowest cost over all domains (rules T4, R3).

Cost: number of gangs to stop, then pods, then GPUs, then the order of rule R3. Each domain has a lower bound of the cost,
computed with columns. Domains are searched in the order of their bounds until none can have a lower cost than the best set so
far. Gangs that are already stopping cost nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np

from runrig.domain.gangs import Placement
from runrig.engine.ledger.fit import CHARGED_ONLY, with_nodes
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.queue import Entry
from runrig.engine.nodes.topology import ROOT, Domain, Ints
from runrig.engine.placement.demand import Demand
from runrig.engine.placement.place import Asked, needs_of, place_in
from runrig.engine.placement.trial_capacity import TrialCapacity
from runrig.engine.preemption.candidates import Candidates, Drawn
from runrig.engine.preemption.held_by_domain import HeldByDomain, held_by_domain, without
from runrig.engine.preemption.quota_lacks import QuotaLacks
from runrig.engine.preemption.trial import PER_TRIAL
from runrig.engine.quota.quota_node import CHARGED, Request, add_on_trial, fits, take_on_trial

STEPS = 20_000
"""Maximum number of sets that one search examines."""
TRIALS = 400
"""Maximum number of sets that it tries with a placement."""
MOST_OUTSIDE = 16
"""Maximum number of candidates outside a domain that are considered if quota is short."""

Cost = tuple[int, int, int, tuple[int, ...]]
"""Gangs, pods, GPUs, and positions in the order of rule R3, last one first."""


class DomainTargets(NamedTuple):
    """*gone*: in the order of rule R3, those already stopping first. *domain* None: the gang requires several domains.

    *placement*: of the preemptor, with all of *gone* stopped. *irreducible*: no subset of *gone* is enough.
    """

    gone: tuple[Entry, ...]
    domain: Domain | None
    placement: Placement
    irreducible: bool


class _Found(NamedTuple):
    """*chosen*: candidates by number. *placement*: of the preemptor in *domain* without them."""

    cost: Cost
    chosen: Sequence[int]
    domain: Domain
    placement: Placement


@dataclass(eq=False, repr=False)
class DomainPreemption:
    """The search for one preemptor and one choice of flavors. Edits the ledger temporarily and always restores it."""

    _ledger: Ledger
    _entry: Entry
    _choice: Placement
    _request: Request
    _candidates: Candidates

    def cheapest(self) -> DomainTargets | None:
        """The set with the lowest cost. None: no domain is required, or none was found, which does not prove that none exists."""
        asked = self._ledger.asked_of_nodes(self._entry, self._choice)
        if not self._ledger.place or asked is None or not asked.constraints.asks:
            return None
        shapes, root = needs_of(asked)
        required = _outermost_required(root)
        if required is None:
            return None
        drawn = self._candidates.everybody()
        stopping = drawn.stopping
        if not stopping and not len(drawn.running):
            return None
        for each in stopping:
            self._ledger.uncharge(each)
        try:
            capacity = TrialCapacity(self._ledger.nodes, asked.constraints.labels, shapes, CHARGED_ONLY)
            over = _OverDomains(self, drawn, asked, capacity, root, required)
            best = over.cheapest()
            self._ledger.searches.domains += over.domains
            self._ledger.searches.limits += over.reached_limit
        finally:
            for each in stopping:
                self._ledger.charge(each)
        if best is None:
            return None
        found, irreducible = best
        return DomainTargets(
            (*stopping, *(drawn.at(each) for each in found.chosen)),
            found.domain if required.level > ROOT else None,
            found.placement,
            irreducible and not stopping,
        )

    def lacks(self, running: Ints) -> QuotaLacks:
        """The missing quota, and how much of it *running*, slots of candidates, could free."""
        return QuotaLacks(self._ledger, self._entry, self._request, running)

    def place_in(self, capacity: TrialCapacity, root: Demand, asked: Asked, domain: Domain) -> Placement | None:
        """A placement of the preemptor inside *domain* with the room in *capacity*, or None. Ignores quota."""
        self._ledger.effort += PER_TRIAL
        self._ledger.searches.sets += 1
        return with_nodes(self._choice, place_in(capacity, root, asked.requests, domain))

    def quota_without(self, chosen: Sequence[Entry]) -> bool:
        """Whether each of *chosen* can be preempted after those before it, and quota is then enough. Does not touch nodes."""
        self._ledger.effort += 1
        gone: list[Entry] = []
        try:
            for candidate in chosen:
                if not self._candidates.may_take(candidate):
                    return False
                take_on_trial(self._ledger.leaf(candidate), candidate.request, CHARGED)
                gone.append(candidate)
            return fits(self._ledger.leaf(self._entry), self._request)
        finally:
            for candidate in reversed(gone):
                add_on_trial(self._ledger.leaf(candidate), candidate.request, CHARGED)


@dataclass(eq=False, repr=False)
class _OverDomains:
    """The search over all domains of one level. Candidates are numbers: positions among those running, in the order of rule R3."""

    _preemption: DomainPreemption
    _drawn: Drawn
    _asked: Asked
    _capacity: TrialCapacity
    _root: Demand
    _required: Demand
    domains: int = 0

    def __post_init__(self) -> None:
        drawn, required = self._drawn, self._required
        self._topology = self._capacity.topology
        self._whole = self._topology.whole(labelled=True)
        self._held = held_by_domain(self._capacity, drawn, required.demand, required.level, self._whole)
        pods, gpus = drawn.columns.pods[drawn.running], drawn.columns.gpus[drawn.running]
        self._pods: list[int] = pods.tolist()
        self._gpus: list[int] = gpus.tolist()
        lightest = np.lexsort((gpus, pods))
        self._standing = np.empty_like(lightest)
        self._standing[lightest] = np.arange(len(lightest))
        self._lightest: list[int] = lightest.tolist()
        self.lacks = self._preemption.lacks(drawn.running)
        self._useful = self.lacks.useful(self._standing)
        self._enough_quota = self.lacks.enough()
        self._enough: dict[tuple[int, ...], bool] = {}
        self._steps_left = STEPS
        self._trials_left = TRIALS

    @property
    def reached_limit(self) -> bool:
        return self._steps_left < 0 or self._trials_left < 0

    def cheapest(self) -> tuple[_Found, bool] | None:
        """The best set, and whether its size equals the lower bound of its domain."""
        by_quota = self.lacks.least()
        if by_quota is None:
            return None
        level = self._required.level
        first = self._topology.inside(self._whole, level)[0] if level > ROOT else 0
        best: tuple[_Found, bool] | None = None
        for bound, place in self._bounds(by_quota):
            if self._steps_left < 0 or (best is not None and bound >= best[0].cost):
                break
            self.domains += 1
            domain = self._whole if level == ROOT else self._topology.domain(level, first + place)
            search = _Search(self, self._held, self._required, place, domain, bound[0])
            cheaper = search.run(None if best is None else best[0].cost)
            if cheaper is not None:
                best = cheaper, len(cheaper.chosen) == bound[0]
        return best

    def _bounds(self, by_quota: int) -> Iterator[tuple[Cost, int]]:
        """Yields (lower bound of the cost, index) of each domain that would be large enough without all candidates, in order."""
        overall = [self._pods[candidate] for candidate in self._lightest[:by_quota]]
        held, demand = self._held, self._required.demand
        large = np.logical_and.reduce([most >= pods for most, (_, pods) in zip(held.most, demand, strict=True)])
        inside = held.least(demand)
        count = np.maximum(inside, by_quota)
        alone = np.where(inside == 0, self._cheapest_for_quota(), self._cheapest_inside())
        count[(count == 1) & (alone == len(self._lightest))] = 2
        for size in sorted(set(count[large].tolist())):
            places = np.flatnonzero(large & (count == size))
            if size == 1:
                order = places[alone[places].argsort(kind="stable")]
                yield from ((self.cost([self._lightest[alone[place]]]), place) for place in order.tolist())
                continue
            yield from sorted((self._cost_at_least(at, int(inside[at]), size, overall), at) for at in places.tolist())

    def _cheapest_for_quota(self) -> int:
        """The cheapest candidate that may be enough for the quota, as an index into `_lightest`; its length if there is none."""
        first = self._useful[:1]
        return int(self._standing[first[0]]) if first and self._enough_quota[first[0]] else len(self._lightest)

    def _cheapest_inside(self) -> Ints:
        """Per domain, the cheapest candidate inside that may be enough alone, as in `_cheapest_for_quota`."""
        held, nobody = self._held, len(self._lightest)
        alone = np.full(len(held.starts) - 1, nobody, dtype=np.int64)
        able = self._enough_quota[held.who]
        for gain, now, (_, pods) in zip(held.gains, held.now, self._required.demand, strict=True):
            able &= gain >= (pods - now)[held.domain]
        np.minimum.at(alone, held.domain[able], self._standing[held.who[able]])
        return alone

    def _cost_at_least(self, place: int, inside: int, count: int, overall: Sequence[int]) -> Cost:
        here = self._held.candidates(place)
        pods = sum(sorted([self._pods[each] for each in here])[:inside]) + sum(overall[: count - inside])
        if count > inside:
            return count, pods, 0, ()
        gpus = sum(sorted([self._gpus[each] for each in here])[:inside])
        return count, pods, gpus, tuple(reversed(here[:inside]))

    # ------------------------------------------------------------ for the search in one domain

    def cost(self, chosen: Sequence[int]) -> Cost:
        pods = sum([self._pods[each] for each in chosen])
        gpus = sum([self._gpus[each] for each in chosen])
        return len(chosen), pods, gpus, tuple(sorted(chosen, reverse=True))

    def choices(self, inside: Iterable[int]) -> list[int]:
        """The candidates for a domain, cheapest first: those *inside* and, if quota is short, some others."""
        found = [*inside]
        if self._useful:
            known = set(found)
            found += islice((each for each in self._useful if each not in known), MOST_OUTSIDE)
        return sorted(found, key=self._standing.item)

    def step(self) -> bool:
        """Counts one more set. Returns False if the limit is reached."""
        self._steps_left -= 1
        return self._steps_left >= 0

    def place_without(self, chosen: Sequence[int], domain: Domain) -> Placement | None:
        """A placement of the preemptor in *domain* without *chosen*; None if there is none or no trials are left."""
        self._trials_left -= 1
        if self._trials_left < 0:
            self._steps_left = 0
            return None
        known = tuple(chosen)
        if known not in self._enough:
            self._enough[known] = self._preemption.quota_without([self._drawn.at(each) for each in chosen])
        if not self._enough[known]:
            return None
        capacity = without(self._capacity, self._drawn.columns, self._drawn.running[list(chosen)])
        return self._preemption.place_in(capacity, self._root, self._asked, domain)


class _Search:
    """The cheapest set for one domain: branch and bound over sets of increasing size."""

    def __init__(
        self, over: _OverDomains, held: HeldByDomain, required: Demand, place: int, domain: Domain, least: int
    ) -> None:
        self._over = over
        self._domain = domain
        self._least = least
        gains = held.gains_of(place)
        self._choices = over.choices(gains)
        nothing = (0,) * len(required.demand)
        missing = [pods - int(now[place]) for now, (_, pods) in zip(held.now, required.demand, strict=True)]
        self._asks = (*missing, *over.lacks.amounts)
        self._gives = [(*gains.get(each, nothing), *over.lacks.given[each].tolist()) for each in self._choices]
        self._later = self._most_later()
        self._best: _Found | None = None

    def _most_later(self) -> list[tuple[int, ...]]:
        """For each position, the most that any one later candidate frees, per amount."""
        most = [(0,) * len(self._asks)]
        for gives in reversed(self._gives):
            most.append(tuple(map(max, gives, most[-1])))
        return most[::-1]

    def run(self, limit: Cost | None) -> _Found | None:
        """The cheapest set; None if none costs less than *limit*."""
        for size in range(self._least, len(self._choices) + 1):
            if limit is not None and size > limit[0]:
                break
            self._choose(size, 0, [], self._asks, limit)
            if self._best is not None:
                return self._best
        return None

    def _choose(self, size: int, start: int, chosen: list[int], asks: tuple[int, ...], limit: Cost | None) -> None:
        left = size - len(chosen)
        bar = self._best.cost if self._best is not None else limit
        if not left:
            if any(ask > 0 for ask in asks):
                return
            cost = self._over.cost(chosen)
            if bar is None or cost < bar:
                placement = self._over.place_without(sorted(chosen), self._domain)
                if placement is not None:
                    self._best = _Found(cost, chosen, self._domain, placement)
            return
        for index in range(start, len(self._choices) - left + 1):
            if any(ask > left * most for ask, most in zip(asks, self._later[index], strict=True)):
                return
            if not self._over.step() or self._too_expensive(chosen, index, left, limit):
                return
            rest = tuple(ask - give for ask, give in zip(asks, self._gives[index], strict=True))
            self._choose(size, index + 1, [*chosen, self._choices[index]], rest, limit)

    def _too_expensive(self, chosen: Sequence[int], index: int, left: int, limit: Cost | None) -> bool:
        """Whether no completion from *index* on can cost less than the best so far. Candidates are sorted by cost."""
        bar = self._best.cost if self._best is not None else limit
        return bar is not None and self._over.cost([*chosen, *self._choices[index : index + left]]) >= bar


def _outermost_required(root: Demand) -> Demand | None:
    """The one required group that contains all pods; the root if there are several, or None."""
    demand = root
    while not demand.required:
        if len(demand.parts) != 1:
            return root if any(each.required for each in _below(root)) else None
        demand = demand.parts[0]
    return demand


def _below(demand: Demand) -> Iterator[Demand]:
    for part in demand.parts:
        yield part
        yield from _below(part)
