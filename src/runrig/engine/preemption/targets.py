"""Preemption: which running gangs stop so that another may start (scheduling.md; laws R1-R5).

For a gang that requires a domain, the cheapest set over all domains (law T4).  Otherwise candidates are taken away one by one, in
one total order, until the preemptor fits.  Then each that is not needed is put back (`fill_back`), so the rest is irreducible
(law R3).
Pure: edits the ledger on trial and always restores it.  Preemption ends (law R5): only gangs that may not borrow preempt, they
are never preempted themselves, and each nomination holds its place until it is admitted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import NamedTuple

from runrig.domain.gangs import GangState, Law, Placement
from runrig.engine.ledger.fit import would_start
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.options import options
from runrig.engine.ledger.queue import Entry
from runrig.engine.nodes.topology import Domain
from runrig.engine.preemption.candidates import Candidates
from runrig.engine.preemption.domain_preemption import DomainPreemption
from runrig.engine.preemption.fill_back import fill_back, take_until_fits
from runrig.engine.preemption.trial import Trial
from runrig.engine.quota.quota_node import Request, within_promise

MOST_COUNTED_ON = 8
"""How many gangs that stop for others and lie on other nodes a preemptor waits for: each would do as well as the next."""

MANY = 128
"""After so many candidates the search asks whether all of them together would be enough.  That costs about as much as they did."""


class Target(NamedTuple):
    """A gang that has to stop.  *spared*: see `Preempt`."""

    gang: str
    law: Law
    spared: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Targets:
    """*placement*: where the preemptor goes once all of *gangs* are gone.  *targets*: those of them that do not stop already."""

    placement: Placement
    gangs: tuple[str, ...]
    targets: tuple[Target, ...]


def find_targets(ledger: Ledger, entry: Entry, counts: tuple[int, ...]) -> Targets | None:
    """The gangs that have to stop so that *entry* can start with *counts* pods; None if no legal set exists.

    Tries flavors in the order of the pool, but prefers one in which it need only wait for gangs that stop already.
    O(candidates x (depth + nodes)) per choice of flavors.
    """
    leaf = ledger.leaf(entry)
    if not entry.bucket.firm or not leaf.active:
        return None
    first: Targets | None = None
    for choice, request in options(ledger, entry, counts, mixed=True):
        if within_promise(leaf, request):
            targets = _TargetSearch(ledger, entry, choice, request).run()
            if targets is not None and (not targets.targets or not ledger.unclaimed):
                return first or targets if targets.targets else targets
            first = first or targets
    return first


class _TargetSearch:
    """The search in one choice of flavors."""

    def __init__(self, ledger: Ledger, entry: Entry, choice: Placement, request: Request) -> None:
        self._ledger = ledger
        self._entry = entry
        self._choice = choice
        self._request = request
        self._candidates = Candidates(ledger, entry, choice, request)
        self._trial = Trial(ledger, entry, choice, request)

    def run(self) -> Targets | None:
        try:
            return self._by_domain() or self._one_by_one()
        finally:
            self._trial.all_back()

    def _by_domain(self) -> Targets | None:
        """The cheapest set over all domains, for a gang that requires one (law T4)."""
        search = DomainPreemption(self._ledger, self._entry, self._choice, self._request, self._candidates)
        cheapest = search.cheapest()
        if cheapest is None:
            return None
        if cheapest.irreducible:
            return self._with_laws(cheapest.gone, cheapest.placement)
        for candidate in cheapest.gone:
            self._trial.take(candidate)
        if not self._trial.fits(cheapest.domain):
            return None
        # These were chosen together, not one by one: the last one may be as superfluous as any.
        return self._targets(cheapest.gone, cheapest.domain, last_is_needed=False)

    def _one_by_one(self) -> Targets | None:
        """Takes candidates in the order of law R3 until there is room."""
        self._trial.all_back()
        # The search by domain has drawn candidates too: a new order, so that it names only those that this one spares.
        self._candidates = Candidates(self._ledger, self._entry, self._choice, self._request)
        if self._trial.fits():
            return self._targets((), None, last_is_needed=False)
        order = self._candidates.in_order()
        trial = self._trial
        taken = take_until_fits(self._while_hopeful(order), trial.take, trial.put_back, trial.fits)
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
        """Whether it fits with all remaining candidates gone, law R2 or not.  If not, no part of them is enough."""
        others = Candidates(self._ledger, self._entry, self._choice, self._request).everybody()
        return self._trial.would_fit_without(others.entries())

    def _targets(self, taken: Sequence[Entry], domain: Domain | None, *, last_is_needed: bool) -> Targets:
        """The minimal subset of *taken*: putting any of them back would lose the placement (law R3)."""
        needed = fill_back(
            taken,
            self._trial.take,
            self._trial.put_back,
            lambda: self._trial.fits(domain),
            last_is_needed=last_is_needed,
        )
        placement = self._trial.place(domain)
        assert placement is not None, "putting back must keep the fit"
        return self._with_laws(needed, placement)

    def _with_laws(self, needed: Sequence[Entry], placement: Placement) -> Targets:
        """*needed* have to be gone before the preemptor goes to *placement*."""
        own = self._entry.gang.pool
        spared = self._candidates.spared_before(needed)
        targets = tuple(
            Target(each.gang.id, Law.PRIORITY if each.gang.pool == own else Law.RECLAIM, spared[each.gang.id])
            for each in needed
            if each.state is GangState.ADMITTED
        )
        leaving = tuple(each.gang.id for each in needed)
        return Targets(placement, (*leaving, *self._counted_on(placement, needed)), targets)

    def _counted_on(self, placement: Placement, gone: Sequence[Entry]) -> tuple[str, ...]:
        """Gangs that stop for others and free what the preemptor needs beside *gone*, by id: it waits for them too.

        All that hold anything on its nodes, and of those that only hold the same quota the first few.
        """
        ledger = self._ledger
        if not ledger.skewed:
            return ()
        with ledger.as_if_gone(gone):
            if would_start(ledger, self._entry, placement, self._request):
                return ()
        indices = {index for index, _ in self._request}
        by_quota = (
            each.gang.id
            for each in (ledger.stopping[name] for name in ledger.stopping_ids)
            if not each.charged and each not in gone and any(index in indices for index, _ in each.request)
        )
        nodes = {share.node for each in placement for share in each.shares}
        on_nodes = {
            each.gang.id
            for each in chain.from_iterable(ledger.on_node[name].values() for name in nodes if name in ledger.on_node)
            if each.state is GangState.STOPPING and not each.charged and each not in gone
        }
        return tuple(sorted(on_nodes.union(islice(by_quota, MOST_COUNTED_ON))))
