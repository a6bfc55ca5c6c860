"""Preemption: which running gangs stop so that another can start (rules R1–R5).

For a gang that requires a domain: the cheapest set over all domains (rule T4). Otherwise candidates are taken one by
one, in one total order, until the preemptor fits; then those that are not needed are kept running (`fill_back`), so the
rest is irreducible (rule R3).

Edits the ledger temporarily and always restores it. Preemption ends (rule R5): only gangs that cannot borrow preempt,
they are never preempted themselves, and each nomination keeps its reservation until it is admitted.
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
"""Maximum number of gangs on other nodes, stopping for others, that a preemptor waits for. They are interchangeable."""

MANY = 128
"""After this many candidates, the search checks whether all of them together would be enough. The check costs about as much."""


class Target(NamedTuple):
    """A gang that must stop. `spared`: see `Preempt`."""

    gang: str
    law: Law
    spared: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Targets:
    """*placement*: of the preemptor once *gangs* have stopped. *targets*: those of them that are not already stopping."""

    placement: Placement
    gangs: tuple[str, ...]
    targets: tuple[Target, ...]


def find_targets(ledger: Ledger, entry: Entry, counts: tuple[int, ...]) -> Targets | None:
    """The gangs that must stop so that *entry* can start with *counts* pods; None if there is no allowed set.

    Tries flavors in the order of the pool, but prefers one for which it only waits for gangs that are already stopping.
    O(candidates × (depth + nodes)) per choice of flavors.
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
    """The search for one choice of flavors."""

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
        """The cheapest set over all domains, for a gang that requires one (rule T4)."""
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
        # They were chosen together, so the last one may be unnecessary too.
        return self._targets(cheapest.gone, cheapest.domain, last_is_needed=False)

    def _one_by_one(self) -> Targets | None:
        """Takes candidates in the order of rule R3 until it fits."""
        self._trial.all_back()
        # The search by domain has also drawn candidates. Start over, so that `spared` names only those of this search.
        self._candidates = Candidates(self._ledger, self._entry, self._choice, self._request)
        if self._trial.fits():
            return self._targets((), None, last_is_needed=False)
        order = self._candidates.in_order()
        trial = self._trial
        taken = take_until_fits(self._while_hopeful(order), trial.take, trial.put_back, trial.fits)
        if taken is None:
            return None
        next(order, None)  # the next candidate keeps running by rule R3
        return self._targets(taken, None, last_is_needed=True)

    def _while_hopeful(self, order: Iterator[Entry]) -> Iterator[Entry]:
        """Yields all of *order*, but stops after `MANY` if even all of them together would not be enough."""
        for taken, candidate in enumerate(order):
            if taken == MANY and not self._would_fit():
                return
            yield candidate

    def _would_fit(self) -> bool:
        """Whether it fits without all remaining candidates, regardless of rule R2. If not, no subset is enough."""
        others = Candidates(self._ledger, self._entry, self._choice, self._request).everybody()
        return self._trial.would_fit_without(others.entries())

    def _targets(self, taken: Sequence[Entry], domain: Domain | None, *, last_is_needed: bool) -> Targets:
        """The minimal subset of *taken*: without any one of them, the preemptor does not fit (rule R3)."""
        needed = fill_back(
            taken,
            self._trial.take,
            self._trial.put_back,
            lambda: self._trial.fits(domain),
            last_is_needed=last_is_needed,
        )
        placement = self._trial.place(domain)
        assert placement is not None, "it must still fit next to the gangs that are kept running"
        return self._with_laws(needed, placement)

    def _with_laws(self, needed: Sequence[Entry], placement: Placement) -> Targets:
        """The result, if *needed* must stop before the preemptor goes to *placement*."""
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
        """Gangs that stop for others and free what the preemptor needs in addition to *gone*, by id. It waits for them too.

        Includes all that use its nodes, and the first few of those that only use the same quota.
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
