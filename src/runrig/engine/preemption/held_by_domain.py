"""The usage of candidates in each domain, as columns: how many pods each could make room for (rule T4)."""

from dataclasses import dataclass

import numpy as np

from runrig.engine.ledger.candidate_columns import CandidateColumns
from runrig.engine.ledger.gang_columns import HeldRows
from runrig.engine.nodes.fit_counts import pods_per_node, with_more
from runrig.engine.nodes.topology import Domain, Ints, TopologyIndex, added_up, distinct
from runrig.engine.placement.demand import ShapeCounts
from runrig.engine.placement.trial_capacity import TrialCapacity
from runrig.engine.preemption.candidates import Drawn


@dataclass(slots=True)
class HeldByDomain:
    """Pods that fit, and what candidates could free. Domains are identified by their index in the level.

    *now*, *most*: pods that fit per shape and domain, now and without all candidates.
    The other fields have a row per candidate and domain, sorted by domain, then candidate. *starts*: the first row of each
    domain, and the end. *domain*, *who*: numbers of the domain and the candidate. *gains*: per shape, the most pods that the
    candidate could make room for.
    """

    now: list[Ints]
    most: list[Ints]
    starts: Ints
    domain: Ints
    who: Ints
    gains: list[Ints]

    def candidates(self, place: int) -> list[int]:
        who: list[int] = self.who[self.starts[place] : self.starts[place + 1]].tolist()
        return who

    def gains_of(self, place: int) -> dict[int, tuple[int, ...]]:
        """Candidate → pods per shape."""
        rows = slice(self.starts[place], self.starts[place + 1])
        return dict(
            zip(self.who[rows].tolist(), zip(*(gain[rows].tolist() for gain in self.gains), strict=True), strict=True)
        )

    def least(self, demand: ShapeCounts) -> Ints:
        """Per domain, a lower bound of the candidates that must stop so that each shape of *demand* fits; all if that is not enough."""
        domain = self.domain
        least = np.zeros(len(self.starts) - 1, dtype=np.int64)
        for gain, now, (_, pods) in zip(self.gains, self.now, demand, strict=True):
            largest_first = gain[np.lexsort((-gain, domain))]
            before = largest_first.cumsum() - largest_first
            before -= before[self.starts[domain]]
            needed = domain[before < (pods - now)[domain]]
            np.maximum(least, np.bincount(needed, minlength=len(least)), out=least)
        return least


def held_by_domain(
    capacity: TrialCapacity, drawn: Drawn, demand: ShapeCounts, level: int, whole: Domain
) -> HeldByDomain:
    """Counts for the domains of *level* inside *whole*, or for *whole* itself. O(nodes that candidates use)."""
    topology, candidates = capacity.topology, drawn.running
    resources = sorted({resource for shape, _ in demand for resource, _ in capacity.shapes[shape].requests})
    rows = drawn.columns.held(candidates, resources, topology, whole)
    touched = np.flatnonzero(np.bincount(rows.node, minlength=len(topology.nodes)))
    place = np.zeros(len(topology.nodes), dtype=np.int64)
    place[touched] = np.arange(len(touched))
    among = place[rows.node]
    domains = _domains(topology, level, whole)
    size = int(domains[-1]) + 1 if len(domains) else 0
    now, most, gains = [], [], []
    for shape, _ in demand:
        counts = capacity.counts(shape)
        fitting = counts.levels[-1][whole.first : whole.last]
        sums = np.bincount(domains, weights=fitting, minlength=size).astype(np.int64)
        gain = _all_gone(capacity, shape, rows, touched, among) - counts.levels[-1][touched]
        gain[~counts.takes[touched]] = 0
        more = np.bincount(domains[touched - whole.first], weights=gain, minlength=size).astype(np.int64)
        now.append(sums)
        most.append(sums + more)
        gains.append(gain[among])
    every = domains[rows.node - whole.first] * len(candidates) + rows.who
    order = np.argsort(every, kind="stable")
    firsts = np.flatnonzero(np.diff(every[order], prepend=-1))
    pairs = every[order][firsts]
    starts = np.searchsorted(pairs, np.arange(size + 1) * len(candidates))
    per_pair = [np.add.reduceat(gain[order], firsts) if len(firsts) else gain for gain in gains]
    domain, who = np.divmod(pairs, max(1, len(candidates)))
    return HeldByDomain(now, most, starts, domain, who, per_pair)


def without(capacity: TrialCapacity, columns: CandidateColumns, gone: Ints) -> TrialCapacity:
    """*capacity* without the gangs of the slots *gone*. O(their nodes)."""
    topology = capacity.topology
    resources = sorted({resource for shape in capacity.shapes for resource, _ in shape.requests})
    rows = columns.held(gone, resources, topology, topology.whole(labelled=False))
    touched, among = distinct(rows.node)
    freed = {resource: added_up(among, amounts, len(touched)) for resource, amounts in rows.amounts.items()}
    fitting = [_all_gone(capacity, shape, rows, touched, among) for shape in range(len(capacity.shapes))]
    return capacity.with_more(touched, freed, fitting)


def _domains(topology: TopologyIndex, level: int, whole: Domain) -> Ints:
    """Per node of *whole*, the index of its domain among those inside."""
    if level <= whole.level:
        return np.zeros(whole.last - whole.first, dtype=np.int64)
    domains = topology.of[level][whole.first : whole.last]
    return domains - domains[0] if len(domains) else domains


def _all_gone(capacity: TrialCapacity, shape: int, rows: HeldRows, touched: Ints, among: Ints) -> Ints:
    """Per touched node, how many pods of *shape* would fit without any candidate. *among*: per row, the index of its node in *touched*."""
    requests = capacity.shapes[shape].requests
    columns = (
        with_more(capacity.column(resource)[touched], added_up(among, rows.amounts[resource], len(touched)))
        for resource, _ in requests
    )
    return pods_per_node(len(touched), requests, columns)
