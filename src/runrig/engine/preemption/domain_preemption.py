"""Domain by domain: the cheapest set of gangs whose end makes room for one that requires a domain (laws T4, R3).

Cheapest: the fewest gangs told to stop, then the fewest pods, then the fewest GPUs, then those that come first in the order of
law R3.  Each domain has a lower bound for that, from columns; domains are searched in its order until none can be cheaper than
what has been found.  Who stops already costs nothing.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from runrig.domain.gangs import GangState, Placement
from runrig.engine.ledger.fit import CHARGED_ONLY, place_on_nodes
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.options import pod_requests
from runrig.engine.ledger.queue import Entry
from runrig.engine.nodes.topology import ROOT, Domain
from runrig.engine.placement.demand import Demand, demand_of, shapes_of
from runrig.engine.placement.trial_capacity import TrialCapacity
from runrig.engine.preemption.candidates import Candidates
from runrig.engine.preemption.held_by_domain import HeldByDomain, Holding, held_by_domain, sizes
from runrig.engine.quota.quota_node import Request, fits, headroom

STEPS = 20_000
"""Sets that are looked at, for one preemptor in one choice of flavors."""
TRIALS = 400
"""Of these, how many are tried out with a placement."""
MOST_OUTSIDE = 16
"""Candidates outside of a domain that are thought of where the quota is short."""

Cost = tuple[int, int, int, tuple[int, ...]]
"""Gangs, pods, GPUs, and places in the order of law R3, the last one first."""


class DomainTargets(NamedTuple):
    """*gone*: in the order of law R3, those that stop already first.  *domain* None: the gang requires several, side by side."""

    gone: tuple[Entry, ...]
    domain: Domain | None


class _Weight(NamedTuple):
    pods: int
    gpus: int
    order: int


class DomainPreemption:
    """Of one preemptor in one choice of flavors.  Edits the ledger on trial, and always restores it."""

    def __init__(
        self, ledger: Ledger, entry: Entry, choice: Placement, request: Request, candidates: Candidates
    ) -> None:
        self._ledger = ledger
        self._entry = entry
        self._choice = choice
        self._request = request
        self._candidates = candidates
        self._steps = STEPS
        self._trials = TRIALS

    def cheapest(self) -> DomainTargets | None:
        """None: it requires no domain, or nothing was found (which proves nothing)."""
        constraints = self._ledger.constraints(self._entry, tuple(each.count for each in self._choice))
        if not self._ledger.place or constraints is None or not constraints.asks:
            return None
        asks = pod_requests(self._entry, self._choice)
        shapes = shapes_of(asks)
        root = demand_of(constraints.root, asks, shapes)
        top = _top(root)
        if top is None:
            return None
        drawn = list(self._candidates.in_order())
        if not drawn:
            return None
        stopping = [each for each in drawn if each.state is GangState.STOPPING]
        for each in stopping:
            self._ledger.uncharge(each)
        try:
            self._told = [each for each in drawn if each.state is not GangState.STOPPING]
            capacity = TrialCapacity(self._ledger.nodes, constraints.labels, shapes, CHARGED_ONLY)
            held = sizes(capacity.topology, self._told)
            self._weights = [_Weight(pods, gpus, order) for order, (pods, gpus) in enumerate(held)]
            found = self._over_domains(capacity, top, capacity.topology.whole(labelled=True))
        finally:
            for each in stopping:
                self._ledger.charge(each)
        if found is None:
            return None
        return DomainTargets((*stopping, *(self._told[at] for at in found[0])), found[1] if top.level > ROOT else None)

    # ------------------------------------------------------------ over all domains

    def _over_domains(self, capacity: TrialCapacity, top: Demand, whole: Domain) -> tuple[Sequence[int], Domain] | None:
        prints = held_by_domain(capacity, self._told, top.demand, top.level, whole)
        self._short = {
            index: amount - headroom(self._ledger.leaf(self._entry), index)
            for index, amount in self._request
            if amount > headroom(self._ledger.leaf(self._entry), index)
        }
        by_quota = self._least_for_quota()
        if by_quota is None:
            return None
        first = capacity.topology.inside(whole, top.level)[0] if top.level > ROOT else 0
        best: tuple[Cost, Sequence[int], Domain] | None = None
        for bound, at in sorted(self._bounds(prints, top, by_quota)):
            if best is not None and bound >= best[0]:
                break
            domain = whole if top.level == ROOT else capacity.topology.domain(top.level, first + at)
            search = _Search(self, prints, top, at, domain, bound[0])
            found = search.run(None if best is None else best[0])
            if found is not None:
                best = (*found, domain)
        return None if best is None else best[1:]

    def _least_for_quota(self) -> int | None:
        """How many gangs have to stop for the quota alone, at least; None: all of them are not enough."""
        least = 0
        for index, short in self._short.items():
            amounts = sorted((self.amount(at, index) for at in range(len(self._told))), reverse=True)
            count = _least_count(amounts, short)
            if count is None:
                return None
            least = max(least, count)
        return least

    def amount(self, candidate: int, index: int) -> int:
        return next((amount for each, amount in self._told[candidate].request if each == index), 0)

    def _bounds(self, prints: HeldByDomain, top: Demand, by_quota: int) -> Iterator[tuple[Cost, int]]:
        """Of each domain that would be large enough with all candidates gone: no set there costs less."""
        overall = sorted(self._weights)[:by_quota]
        for at in range(len(prints.now[0])):
            if any(most[at] < pods for most, (_, pods) in zip(prints.most, top.demand, strict=True)):
                continue
            held = prints.held.get(at, [])
            least = 0
            for shape, (_, pods) in enumerate(top.demand):
                missing = pods - int(prints.now[shape][at])
                if missing > 0:
                    count = _least_count(sorted((each.gains[shape] for each in held), reverse=True), missing)
                    least = max(least, len(held) if count is None else count)
            yield self._cost_at_least(held, least, max(least, by_quota), overall), at

    def _cost_at_least(self, held: Sequence[Holding], inside: int, count: int, overall: Sequence[_Weight]) -> Cost:
        here = [self._weights[each.candidate] for each in held]
        pods = sum(sorted(each.pods for each in here)[:inside]) + sum(each.pods for each in overall[: count - inside])
        if count > inside:
            return count, pods, 0, ()
        orders = sorted(each.order for each in here)[:inside]
        return count, pods, sum(sorted(each.gpus for each in here)[:inside]), tuple(reversed(orders))

    # ------------------------------------------------------------ for the search in one domain

    @property
    def short(self) -> dict[int, int]:
        """Index → how much the quota lacks."""
        return self._short

    def cost(self, chosen: Sequence[int]) -> Cost:
        weights = [self._weights[at] for at in chosen]
        orders = tuple(sorted((each.order for each in weights), reverse=True))
        return len(chosen), sum(each.pods for each in weights), sum(each.gpus for each in weights), orders

    def pool(self, held: Sequence[Holding]) -> list[int]:
        """Who may be chosen for a domain: those in it, and where the quota is short some others; the cheapest first."""
        inside = [each.candidate for each in held]
        if self._short:
            known = set(inside)
            others = (at for at in range(len(self._told)) if at not in known)
            useful = [at for at in others if any(self.amount(at, index) for index in self._short)]
            inside += useful[:MOST_OUTSIDE]
        return sorted(inside, key=lambda at: self._weights[at])

    def step(self) -> bool:
        """One more set may be looked at."""
        self._steps -= 1
        return self._steps >= 0

    def works(self, chosen: Sequence[int], domain: Domain) -> bool:
        """With *chosen* gone, in the order of law R3 and each of them not protected then, the preemptor has quota and room."""
        self._trials -= 1
        if self._trials < 0:
            self._steps = 0
            return False
        gone: list[Entry] = []
        try:
            for at in sorted(chosen):
                if not self._candidates.may_take(self._told[at]):
                    return False
                self._ledger.uncharge(self._told[at])
                gone.append(self._told[at])
            if not fits(self._ledger.leaf(self._entry), self._request):
                return False
            within = domain if domain.level > ROOT else None
            return place_on_nodes(self._ledger, self._entry, self._choice, within=within) is not None
        finally:
            for each in reversed(gone):
                self._ledger.charge(each)


class _Search:
    """The cheapest set for one domain: all sets of the least size first, then one more, branch and bound."""

    def __init__(
        self, clearing: DomainPreemption, prints: HeldByDomain, top: Demand, at: int, domain: Domain, least: int
    ) -> None:
        self._clearing = clearing
        self._domain = domain
        self._least = least
        gains = {each.candidate: each.gains for each in prints.held.get(at, [])}
        self._pool = clearing.pool(prints.held.get(at, []))
        nothing = (0,) * len(top.demand)
        missing = [pods - int(now[at]) for now, (_, pods) in zip(prints.now, top.demand, strict=True)]
        self._asks = (*missing, *clearing.short.values())
        self._gives = [
            (*gains.get(each, nothing), *(clearing.amount(each, index) for index in clearing.short))
            for each in self._pool
        ]
        self._later = self._most_later()
        self._best: tuple[Cost, Sequence[int]] | None = None

    def _most_later(self) -> list[tuple[int, ...]]:
        """From each place on, the most that one candidate gives of each."""
        most = [(0,) * len(self._asks)]
        for gives in reversed(self._gives):
            most.append(tuple(map(max, gives, most[-1])))
        return most[::-1]

    def run(self, limit: Cost | None) -> tuple[Cost, Sequence[int]] | None:
        """None: nothing that costs less than *limit*."""
        for size in range(self._least, len(self._pool) + 1):
            if limit is not None and size > limit[0]:
                break
            self._choose(size, 0, [], self._asks, limit)
            if self._best is not None:
                return self._best
        return None

    def _choose(self, size: int, start: int, chosen: list[int], asks: tuple[int, ...], limit: Cost | None) -> None:
        left = size - len(chosen)
        if not left:
            cost = self._clearing.cost([self._pool[at] for at in chosen])
            bar = self._best[0] if self._best is not None else limit
            if (bar is None or cost < bar) and self._clearing.works([self._pool[at] for at in chosen], self._domain):
                self._best = cost, [self._pool[at] for at in chosen]
            return
        for at in range(start, len(self._pool) - left + 1):
            if any(ask > left * most for ask, most in zip(asks, self._later[at], strict=True)):
                return
            if not self._clearing.step() or self._dearer(chosen, at, left, limit):
                return
            rest = tuple(ask - give for ask, give in zip(asks, self._gives[at], strict=True))
            self._choose(size, at + 1, [*chosen, at], rest, limit)

    def _dearer(self, chosen: Sequence[int], at: int, left: int, limit: Cost | None) -> bool:
        """With whoever comes at place *at* or later it costs no less than what is known: the pool has the cheaper ones first."""
        bar = self._best[0] if self._best is not None else limit
        if bar is None:
            return False
        return self._clearing.cost([self._pool[each] for each in (*chosen, *range(at, at + left))]) >= bar


def _top(root: Demand) -> Demand | None:
    """The one required group that has all pods inside; the root if there are several; None if none is required."""
    need = root
    while not need.required:
        if len(need.parts) != 1:
            return root if any(each.required for each in _below(root)) else None
        need = need.parts[0]
    return need


def _below(need: Demand) -> Iterator[Demand]:
    for part in need.parts:
        yield part
        yield from _below(part)


def _least_count(amounts: Sequence[int], needed: int) -> int | None:
    """How many of *amounts*, the largest first, it takes."""
    for count, amount in enumerate(amounts, start=1):
        needed -= amount
        if needed <= 0:
            return count
    return None
