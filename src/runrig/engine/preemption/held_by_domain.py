"""What candidates hold in each domain, as columns: how much room every one of them could make for a gang (law T4)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from runrig.domain.quantities import GPU, UNLISTED_IS_UNCOUNTED
from runrig.engine.ledger.queue import Entry, Holdings
from runrig.engine.nodes.fit_counts import MOST_PER_NODE, UNLISTED
from runrig.engine.nodes.topology import Domain, Ints, TopologyIndex
from runrig.engine.placement.demand import ShapeCounts
from runrig.engine.placement.trial_capacity import TrialCapacity


class Holding(NamedTuple):
    """What one candidate holds inside one domain.  *gains*: per shape, pods for which it makes room at most."""

    candidate: int
    gains: tuple[int, ...]


@dataclass(slots=True)
class HeldByDomain:
    """*held*: per domain, by its place in the level.  *most*: per shape and domain, the pods that fit if all candidates are gone."""

    held: dict[int, list[Holding]]
    now: list[Ints]
    most: list[Ints]


class _Rows(NamedTuple):
    """One row per candidate and node: who, where, and how much of each resource."""

    who: Ints
    node: Ints
    amounts: dict[str, Ints]


def held_by_domain(
    capacity: TrialCapacity, candidates: Sequence[Entry], demand: ShapeCounts, level: int, whole: Domain
) -> HeldByDomain:
    """Of the domains of *level* inside *whole*; of *whole* itself if it is of that level.  O(nodes that candidates hold)."""
    topology = capacity.topology
    resources = sorted({resource for shape, _ in demand for resource, _ in capacity.shapes[shape].requests})
    rows = _rows(topology, candidates, resources, whole)
    touched = np.flatnonzero(np.bincount(rows.node, minlength=len(topology.nodes)))
    domains = _domains(topology, level, whole)
    now, most, gains = [], [], []
    for shape, _ in demand:
        counts = capacity.counts(shape)
        fitting = counts.levels[-1][whole.first : whole.last]
        size = int(domains[-1]) + 1 if len(domains) else 0
        sums = np.bincount(domains, weights=fitting, minlength=size).astype(np.int64)
        gain = np.zeros(len(topology.nodes), dtype=np.int64)
        gain[touched] = _all_gone(capacity, shape, rows, touched) - counts.levels[-1][touched]
        gain[~counts.takes] = 0
        more = np.bincount(domains, weights=gain[whole.first : whole.last], minlength=size).astype(np.int64)
        now.append(sums)
        most.append(sums + more)
        gains.append(gain)
    return HeldByDomain(_held(rows, domains, whole, gains, len(candidates)), now, most)


def _domains(topology: TopologyIndex, level: int, whole: Domain) -> Ints:
    """Per node of *whole*, its domain, counted from the first one inside."""
    if level <= whole.level:
        return np.zeros(whole.last - whole.first, dtype=np.int64)
    of = topology.of[level][whole.first : whole.last]
    return of - of[0] if len(of) else of


def sizes(topology: TopologyIndex, candidates: Sequence[Entry]) -> list[tuple[int, int]]:
    """Pods and GPUs that each holds."""
    return [_holdings(topology, each).size for each in candidates]


def _rows(topology: TopologyIndex, candidates: Sequence[Entry], resources: Sequence[str], whole: Domain) -> _Rows:
    owns = [_holdings(topology, each) for each in candidates]
    if not owns:
        return _Rows(_ints([]), _ints([]), {resource: _ints([]) for resource in resources})
    node = np.concatenate([own.node for own in owns])
    who = np.repeat(np.arange(len(owns)), [len(own.node) for own in owns])
    amounts = {
        resource: np.concatenate([own.amounts[resource] if resource in own.amounts else own.node * 0 for own in owns])
        for resource in resources
    }
    inside = (node >= whole.first) & (node < whole.last)
    if not inside.all():
        node, who = node[inside], who[inside]
        amounts = {resource: column[inside] for resource, column in amounts.items()}
    return _Rows(who, node, amounts)


def _holdings(topology: TopologyIndex, entry: Entry) -> Holdings:
    known = entry.holdings
    if known is not None and known.topology is topology and known.placement is entry.placement:
        return known
    node: list[int] = []
    amounts: dict[str, list[int]] = {resource: [] for each in entry.gang.pod_sets for resource, _ in each.requests}
    for assignment, pod_set in zip(entry.placement, entry.gang.pod_sets, strict=True):
        requests = dict(pod_set.requests)
        for share in assignment.shares:
            node.append(topology.index.get(share.node, -1))
            for resource, column in amounts.items():
                column.append(requests.get(resource, 0) * share.count)
    columns = {each: _ints(column) for each, column in amounts.items()}
    entry.holdings = Holdings(topology, entry.placement, _ints(node), columns, _size(entry))
    return entry.holdings


def _size(entry: Entry) -> tuple[int, int]:
    pods = gpus = 0
    for each, pod_set in zip(entry.placement, entry.gang.pod_sets, strict=True):
        pods += each.count
        gpus += each.count * dict(pod_set.requests).get(GPU, 0)
    return pods, gpus


def _ints(values: Sequence[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def _all_gone(capacity: TrialCapacity, shape: int, rows: _Rows, touched: Ints) -> Ints:
    """Per touched node, the pods of *shape* that fit if every candidate is gone."""
    most = np.full(len(touched), MOST_PER_NODE, dtype=np.int64)
    at = np.searchsorted(touched, rows.node)
    for resource, amount in capacity.shapes[shape].requests:
        free = capacity.column(resource)[touched]
        freed = np.zeros(len(touched), dtype=np.int64)
        np.add.at(freed, at, rows.amounts[resource])
        listed = free != UNLISTED
        fitting = np.maximum(np.where(listed, free, 0) + freed, 0) // amount
        fitting[~listed] = MOST_PER_NODE if resource in UNLISTED_IS_UNCOUNTED else 0
        np.minimum(most, fitting, out=most)
    return most


def _held(
    rows: _Rows, domains: Ints, whole: Domain, gains: Sequence[Ints], candidates: int
) -> dict[int, list[Holding]]:
    """By domain; within one in the order of the candidates."""
    found: dict[int, list[Holding]] = {}
    if not len(rows.who):
        return found
    pairs, inverse = np.unique(domains[rows.node - whole.first] * candidates + rows.who, return_inverse=True)
    columns = [_per_pair(inverse, gain[rows.node], len(pairs)) for gain in gains]
    for pair, *sums in zip(pairs.tolist(), *(column.tolist() for column in columns), strict=True):
        found.setdefault(pair // candidates, []).append(Holding(pair % candidates, tuple(sums)))
    return found


def _per_pair(inverse: NDArray[np.intp], gains: Ints, pairs: int) -> Ints:
    sums = np.zeros(pairs, dtype=np.int64)
    np.add.at(sums, inverse, gains)
    return sums
