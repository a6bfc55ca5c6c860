"""What candidates hold in each domain, as columns: how many pods each of them could make room for (law T4)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from runrig.domain.quantities import GPU, UNLISTED_IS_UNCOUNTED
from runrig.engine.ledger.queue import Entry, Holdings
from runrig.engine.nodes.fit_counts import MOST_PER_NODE, UNLISTED
from runrig.engine.nodes.topology import Domain, Ints, TopologyIndex
from runrig.engine.placement.demand import ShapeCounts
from runrig.engine.placement.trial_capacity import TrialCapacity


@dataclass(slots=True)
class HeldByDomain:
    """*now*, *most*: pods that fit, per shape and domain, now and with all candidates gone; a domain is its place in its level.

    The rest has a row for each candidate in a domain, by domain, then in the order of the candidates.  *starts*: the first row
    of each domain, and the end.  *domain*, *who*: the numbers of the domain and of the candidate.  *gains*: per shape, the most
    pods that it could make room for there.
    *sizes*: pods and GPUs that each candidate holds anywhere.
    """

    now: list[Ints]
    most: list[Ints]
    starts: Ints
    domain: Ints
    who: Ints
    gains: list[Ints]
    sizes: list[tuple[int, int]]

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
        """Per domain, how many of its candidates have to go at least, so that each shape of *demand* fits; all, if that is not enough."""
        domain = self.domain
        least = np.zeros(len(self.starts) - 1, dtype=np.int64)
        for gain, now, (_, pods) in zip(self.gains, self.now, demand, strict=True):
            largest_first = gain[np.lexsort((-gain, domain))]
            before = largest_first.cumsum() - largest_first
            before -= before[self.starts[domain]]
            needed = domain[before < (pods - now)[domain]]
            np.maximum(least, np.bincount(needed, minlength=len(least)), out=least)
        return least


class _Rows(NamedTuple):
    """One row per candidate and node.  *who*: the candidate's number; *node*: its place in topology order."""

    who: Ints
    node: Ints
    amounts: dict[str, Ints]


def held_by_domain(
    capacity: TrialCapacity, candidates: Sequence[Entry], demand: ShapeCounts, level: int, whole: Domain
) -> HeldByDomain:
    """For the domains of *level* inside *whole*, or *whole* itself if it is of that level.  O(nodes that candidates hold)."""
    topology = capacity.topology
    resources = sorted({resource for shape, _ in demand for resource, _ in capacity.shapes[shape].requests})
    holdings = [
        known
        if (known := each.holdings) is not None and known.topology is topology and known.placement is each.placement
        else _holdings(topology, each)
        for each in candidates
    ]
    rows = _rows(holdings, resources, whole)
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
    return HeldByDomain(now, most, starts, domain, who, per_pair, [each.size for each in holdings])


def without(capacity: TrialCapacity, gone: Sequence[Entry]) -> TrialCapacity:
    """*capacity* with what *gone* hold given back; they were among the candidates of `held_by_domain`.  O(nodes of *gone*)."""
    holdings = [each.holdings for each in gone if each.holdings is not None]
    assert len(holdings) == len(gone), "each candidate has its columns"
    resources = sorted({resource for shape in capacity.shapes for resource, _ in shape.requests})
    rows = _rows(holdings, resources, capacity.topology.whole(labelled=False))
    touched, among = np.unique(rows.node, return_inverse=True)
    freed = {resource: _freed(amounts, among, len(touched)) for resource, amounts in rows.amounts.items()}
    fitting = [_all_gone(capacity, shape, rows, touched, among) for shape in range(len(capacity.shapes))]
    return capacity.with_more(touched, freed, fitting)


def _freed(amounts: Ints, among: Ints, nodes: int) -> Ints:
    """The sum of *amounts* per node."""
    freed = np.zeros(nodes, dtype=np.int64)
    np.add.at(freed, among, amounts)
    return freed


def _domains(topology: TopologyIndex, level: int, whole: Domain) -> Ints:
    """Per node of *whole*, the place of its domain among those inside."""
    if level <= whole.level:
        return np.zeros(whole.last - whole.first, dtype=np.int64)
    domains = topology.of[level][whole.first : whole.last]
    return domains - domains[0] if len(domains) else domains


def _rows(holdings: Sequence[Holdings], resources: Sequence[str], whole: Domain) -> _Rows:
    asked = tuple(resources)
    every = [each.columns if each.resources == asked else _only(asked, each) for each in holdings]
    columns = np.concatenate(every, axis=1) if every else np.zeros((1 + len(asked), 0), dtype=np.int64)
    who = np.arange(len(every)).repeat([each.shape[1] for each in every])
    inside = (columns[0] >= whole.first) & (columns[0] < whole.last)
    if not inside.all():
        columns, who = columns[:, inside], who[inside]
    return _Rows(who, columns[0], dict(zip(asked, columns[1:], strict=True)))


def _only(resources: Sequence[str], held: Holdings) -> Ints:
    """The columns of *held* for *resources*; 0 where it holds none."""
    columns = np.zeros((1 + len(resources), held.columns.shape[1]), dtype=np.int64)
    columns[0] = held.columns[0]
    for at, resource in enumerate(resources, start=1):
        if resource in held.resources:
            columns[at] = held.columns[1 + held.resources.index(resource)]
    return columns


def _holdings(topology: TopologyIndex, entry: Entry) -> Holdings:
    resources = tuple(sorted({resource for each in entry.gang.pod_sets for resource, _ in each.requests}))
    columns: list[list[int]] = [[] for _ in range(1 + len(resources))]
    for assignment, pod_set in zip(entry.placement, entry.gang.pod_sets, strict=True):
        requests = dict(pod_set.requests)
        counts = [share.count for share in assignment.shares]
        columns[0] += [topology.index.get(share.node, -1) for share in assignment.shares]
        for column, resource in zip(columns[1:], resources, strict=True):
            amount = requests.get(resource, 0)
            column += [amount * count for count in counts]
    held = np.array(columns, dtype=np.int64)
    entry.holdings = Holdings(topology, entry.placement, resources, held, _size(entry))
    return entry.holdings


def _size(entry: Entry) -> tuple[int, int]:
    pods = gpus = 0
    for each, pod_set in zip(entry.placement, entry.gang.pod_sets, strict=True):
        pods += each.count
        gpus += each.count * dict(pod_set.requests).get(GPU, 0)
    return pods, gpus


def _all_gone(capacity: TrialCapacity, shape: int, rows: _Rows, touched: Ints, among: Ints) -> Ints:
    """Per touched node, the pods of *shape* that fit if every candidate is gone.  *among*: of each row, the place of its node there."""
    most = np.full(len(touched), MOST_PER_NODE, dtype=np.int64)
    for resource, amount in capacity.shapes[shape].requests:
        free = capacity.column(resource)[touched]
        freed = _freed(rows.amounts[resource], among, len(touched))
        listed = free != UNLISTED
        fitting = np.maximum(np.where(listed, free, 0) + freed, 0) // amount
        fitting[~listed] = MOST_PER_NODE if resource in UNLISTED_IS_UNCOUNTED else 0
        np.minimum(most, fitting, out=most)
    return most
