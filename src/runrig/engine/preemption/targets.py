"""Preemption: which running gangs stop so that another may start (scheduling.md; laws R1-R5).

Of a gang that requires a domain the cheapest set over all domains is looked for (law T4).  Otherwise candidates are taken as gone
one by one, in one total order, until the preemptor fits.  Then, from the last but one back to the first, each is put back if it
fits all the same: what remains is irreducible (law R3).
Pure: edits the ledger on trial and always restores it.  Why it ends (law R5): only gangs that may not borrow preempt, they
are never preempted themselves, and each nomination holds its place until it is admitted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from runrig.domain.gangs import GangState, Law, Placement
from runrig.engine.ledger.fit import place_on_nodes, would_start
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.options import options
from runrig.engine.ledger.queue import Entry
from runrig.engine.nodes.topology import Domain
from runrig.engine.preemption.candidates import Candidates
from runrig.engine.preemption.domain_preemption import DomainPreemption
from runrig.engine.preemption.fill_back import fill_back, take_until_fits
from runrig.engine.quota.quota_node import CHARGED, QuotaLeaf, Request, fits

MANY = 16
"""Candidates that are taken before it is asked whether all of them would be enough."""


class Target(NamedTuple):
    """A gang that has to stop.  *spared*: see `Preempt`."""

    gang: str
    law: Law
    spared: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Targets:
    """*placement*: where the preemptor goes once all of *gangs* are gone.  *told*: those of them that do not stop already."""

    placement: Placement
    gangs: tuple[str, ...]
    told: tuple[Target, ...]


def find_targets(ledger: Ledger, entry: Entry, counts: tuple[int, ...]) -> Targets | None:
    """The gangs whose stop lets *entry* start with *counts* pods; None if no legal set does.

    Flavors in the order of the pool, but first one in which only those have to be waited for that stop already.  Within one,
    O(candidates x (depth + nodes)).
    """
    leaf = ledger.leaf(entry)
    if not entry.bucket.firm or not leaf.active:
        return None
    first: Targets | None = None
    for choice, request in options(ledger, entry, counts, mixed=True):
        if _guaranteed(leaf, request):
            found = _Trial(ledger, entry, choice, request).run()
            if found is not None and (not found.told or not ledger.unclaimed):
                return first or found if found.told else found
            first = first or found
    return first


def _guaranteed(leaf: QuotaLeaf, request: Request) -> bool:
    """Law P2 without Q3: the request is within what the pool was promised, here and in every pool above."""
    usage = leaf.usage[CHARGED]
    for index, amount in request:
        if usage[index] + amount > leaf.subtree[index]:
            return False
    return all(
        pool.used[CHARGED][index] + amount <= pool.nominal[index]
        for pool in leaf.pools_above
        for index, amount in request
    )


class _Trial:
    """One search in one choice of flavors."""

    def __init__(self, ledger: Ledger, entry: Entry, choice: Placement, request: Request) -> None:
        self._ledger = ledger
        self._entry = entry
        self._choice = choice
        self._request = request
        self._leaf = ledger.leaf(entry)
        self._candidates = Candidates(ledger, entry, choice, request)
        self._gone: list[Entry] = []

    def run(self) -> Targets | None:
        try:
            return self._by_domain() or self._one_by_one()
        finally:
            self._all_back()

    def _by_domain(self) -> Targets | None:
        """Law T4, of a gang that requires a domain."""
        search = DomainPreemption(self._ledger, self._entry, self._choice, self._request, self._candidates)
        cheapest = search.cheapest()
        if cheapest is None:
            return None
        for candidate in cheapest.gone:
            self._take(candidate)
        if self._fit(cheapest.domain) is None:
            return None
        # These were chosen together, not one by one: the last one may be as superfluous as any.
        return self._targets(cheapest.gone, cheapest.domain, last_is_needed=False)

    def _one_by_one(self) -> Targets | None:
        """In the order of law R3, until there is room."""
        self._all_back()
        # The search by domain has drawn candidates too: a new order, so that it names only those that this one spares.
        self._candidates = Candidates(self._ledger, self._entry, self._choice, self._request)
        if self._fits():
            return self._targets((), None, last_is_needed=False)
        order = self._candidates.in_order()
        taken = take_until_fits(self._while_hopeful(order), self._take, self._ledger.charge, self._fits)
        if taken is None:
            return None
        next(order, None)  # whoever would have been next goes on by law R3
        return self._targets(taken, None, last_is_needed=True)

    def _while_hopeful(self, order: Iterator[Entry]) -> Iterator[Entry]:
        """*order* to its end, or as far as `MANY` if even all of them together would not do."""
        for taken, candidate in enumerate(order):
            if taken == MANY and not self._would_fit():
                return
            yield candidate

    def _would_fit(self) -> bool:
        """With all that are left gone at once, law R2 or not: where that is not enough, no part of them is."""
        others = list(Candidates(self._ledger, self._entry, self._choice, self._request).in_order())
        for each in others:
            self._ledger.uncharge(each)
        enough = self._fit() is not None
        for each in others:
            self._ledger.charge(each)
        return enough

    def _take(self, candidate: Entry) -> None:
        self._ledger.uncharge(candidate)
        self._gone.append(candidate)

    def _all_back(self) -> None:
        for each in self._gone:
            if not each.charged:
                self._ledger.charge(each)
        self._gone = []

    def _fit(self, domain: Domain | None = None) -> Placement | None:
        """Where the preemptor goes as things stand on trial."""
        if not fits(self._leaf, self._request):
            return None
        return place_on_nodes(self._ledger, self._entry, self._choice, within=domain)

    def _fits(self) -> bool:
        return self._fit() is not None

    def _targets(self, taken: Sequence[Entry], domain: Domain | None, *, last_is_needed: bool) -> Targets:
        """The minimal subset of *taken*: putting any of them back would lose the placement (law R3)."""
        ledger = self._ledger
        needed = fill_back(
            taken,
            ledger.uncharge,
            ledger.charge,
            lambda: self._fit(domain) is not None,
            last_is_needed=last_is_needed,
        )
        placement = self._fit(domain)
        assert placement is not None, "putting back must keep the fit"
        own = self._entry.gang.pool
        spared = self._candidates.spared_before(needed)
        told = tuple(
            Target(each.gang.id, Law.PRIORITY if each.gang.pool == own else Law.RECLAIM, spared[each.gang.id])
            for each in needed
            if each.state is GangState.ADMITTED
        )
        leaving = tuple(each.gang.id for each in needed)
        return Targets(placement, (*leaving, *self._counted_on(placement, needed)), told)

    def _counted_on(self, placement: Placement, gone: Sequence[Entry]) -> tuple[str, ...]:
        """Who stops for others and frees what the preemptor needs beside *gone*: it keeps its place until they are gone too."""
        ledger = self._ledger
        if not ledger.skewed:
            return ()
        with ledger.as_if_gone(gone):
            if would_start(ledger, self._entry, placement, self._request):
                return ()
        nodes = {share.node for each in placement for share in each.shares}
        indices = {index for index, _ in self._request}
        return tuple(
            name
            for name, each in sorted(ledger.stopping.items())
            if not each.charged
            and each not in gone
            and (indices.intersection(index for index, _ in each.request) or nodes.intersection(_nodes_of(each)))
        )


def _nodes_of(entry: Entry) -> Iterator[str]:
    return (share.node for each in entry.placement for share in each.shares)
