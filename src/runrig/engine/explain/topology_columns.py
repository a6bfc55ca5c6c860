"""The columns of a topology report: what each node has and what is in use, summed by domain (rules T1, T5).

There is one row per node, in topology order, so a domain is a range of rows.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from runrig.domain.gangs import GangState
from runrig.domain.quantities import GPU, gpus_in
from runrig.domain.shown.topology import DomainGpus, DomainReport, GangSize, GangsThatFit, Holder, Others
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.queue import Entry
from runrig.engine.nodes.fit_counts import PodShape
from runrig.engine.nodes.node_capacity import EMPTY, NodeCapacity
from runrig.engine.nodes.topology import Ints, TopologyIndex, added_up, distinct
from runrig.engine.quota.quota_node import CHARGED, LAYERS, REAL

NOW = LAYERS
"""A gang that starts immediately needs room in both layers: CHARGED is what is decided, REAL what is still running (rule R4)."""

MOST_HOLDERS = 5
"""Default for the maximum number of gangs named per domain."""
NODES, CORDONED_NODES, _TOTAL, _FREE, _FIRM, _LOW, _CHANGING, _CORDONED = range(8)


@dataclass(frozen=True, slots=True)
class TopologyQuestion:
    """The extent of a report. *size* None: do not count gangs. *depth*: number of levels shown; None: all.

    *nodes*: True to show the nodes below the finest level. *holders*: maximum number of gangs named per domain.
    """

    size: GangSize | None = None
    depth: int | None = None
    nodes: bool = False
    holders: int = MOST_HOLDERS


class NodeColumns:
    """Total and free GPUs per node. *mine*: True for nodes of the requested flavors. *flavors*: those with nodes, sorted."""

    def __init__(self, ledger: Ledger, topology: TopologyIndex, flavors: Collection[str]) -> None:
        capacities, requested = topology.nodes, set(flavors)
        self.topology = topology
        self.mine = [capacity.node.flavor in requested for capacity in capacities]
        self.flavor = [capacity.node.flavor for capacity in capacities]
        self.flavors = sorted(set(self.flavor) & requested)
        self.open = np.array(
            [ledger.nodes.takes(capacity.node.name, capacity.node.flavor) for capacity in capacities], dtype=np.bool_
        )
        self.decided = self._gpus(capacities, CHARGED)
        self.free = np.maximum(0, np.minimum(self.decided, self._gpus(capacities, REAL)))
        self.total = self._gpus(capacities, EMPTY)

    def _gpus(self, capacities: Sequence[NodeCapacity], layer: int) -> Ints:
        """GPUs free per node in *layer*; negative if the node has fewer than are in use."""
        gpus = [
            capacity.free[layer].get(GPU, 0) if mine else 0
            for capacity, mine in zip(capacities, self.mine, strict=True)
        ]
        return np.array(gpus, dtype=np.int64)


class WorkColumns:
    """All columns. *sums*: per node. *by_flavor*: flavor → the same for its nodes only. *pods*: per flavor, pods of the size that fit."""

    def __init__(self, ledger: Ledger, nodes: NodeColumns, asked: TopologyQuestion) -> None:
        self.most = asked.holders
        self.gangs = sorted(ledger.placed.values(), key=lambda entry: entry.gang.id)
        self.firm = [entry.bucket.firm for entry in self.gangs]
        self.who, self.node, self.held_pods, self.held_gpus = self._held(nodes)
        self.sums = self._sums(nodes)
        self.by_flavor: dict[str, Ints] = {}
        if len(nodes.flavors) > 1:
            own = {
                name: np.array([flavor == name for flavor in nodes.flavor], dtype=np.bool_) for name in nodes.flavors
            }
            self.by_flavor = {name: np.where(own[name][:, None], self.sums, 0) for name in nodes.flavors}
        self.size = asked.size
        self.pods = [] if asked.size is None else [self._fitting(ledger, nodes, name) for name in nodes.flavors]

    def _held(self, nodes: NodeColumns) -> tuple[Ints, Ints, Ints, Ints]:
        """One row per node of each pod set: index into *gangs*, index of the node, pods, GPUs."""
        who, node, pods, held = columns = [list[int]() for _ in range(4)]
        for gang_index, entry in enumerate(self.gangs):
            for assignment, pod_set in zip(entry.placement, entry.gang.pod_sets, strict=True):
                gpus = gpus_in(pod_set.requests)
                for share in assignment.shares:
                    index = nodes.topology.index.get(share.node)
                    if index is not None and nodes.mine[index]:
                        who.append(gang_index)
                        node.append(index)
                        pods.append(share.count)
                        held.append(gpus * share.count)
        first, second, third, fourth = (np.array(column, dtype=np.int64) for column in columns)
        return first, second, third, fourth

    def _on_nodes(self, chosen: Sequence[bool], count: int) -> Ints:
        """GPUs per node that the *chosen* gangs use. *chosen*: parallel to `gangs`. *count*: number of nodes."""
        rows = np.array(chosen, dtype=np.bool_)[self.who]
        return added_up(self.node[rows], self.held_gpus[rows], count)

    def _sums(self, nodes: NodeColumns) -> Ints:
        count = len(nodes.topology.nodes)
        mine = np.array(nodes.mine, dtype=np.bool_)
        running = [entry.held and entry.state is GangState.ADMITTED for entry in self.gangs]
        firm = self._on_nodes([runs and is_firm for runs, is_firm in zip(running, self.firm, strict=True)], count)
        low = self._on_nodes([runs and not is_firm for runs, is_firm in zip(running, self.firm, strict=True)], count)
        sums = np.zeros((count, 8), dtype=np.int64)
        sums[:, NODES] = mine
        sums[:, CORDONED_NODES] = mine & ~nodes.open
        sums[:, _TOTAL] = nodes.total
        sums[:, _FREE] = np.where(nodes.open, nodes.free, 0)
        sums[:, _FIRM] = firm
        sums[:, _LOW] = low
        # GPUs reserved for a nominated gang may still be used by its targets; the remainder counts them only once.
        sums[:, _CHANGING] = np.maximum(0, nodes.total - firm - low - nodes.free)
        sums[:, _CORDONED] = np.where(nodes.open, 0, nodes.free)
        return sums

    def _fitting(self, ledger: Ledger, nodes: NodeColumns, flavor: str) -> Ints:
        """Pods of the size that fit per node of *flavor*; columns: now, without LOW work, on empty nodes."""
        assert self.size is not None
        shape = PodShape(((GPU, self.size.gpus),), flavor)
        labels, gpus = nodes.topology.labels, self.size.gpus
        now = ledger.nodes.counts(labels, shape, NOW)
        ever = ledger.nodes.counts(labels, shape, (EMPTY,))
        leaving = [
            entry.charged and (not firm or entry.state is GangState.STOPPING)
            for entry, firm in zip(self.gangs, self.firm, strict=True)
        ]
        room = nodes.decided + self._on_nodes(leaving, len(nodes.topology.nodes))
        after = np.where(now.takes, np.clip(room, 0, nodes.total) // gpus, 0)
        return np.stack([now.levels[-1], after, ever.levels[-1]], axis=1)


# ---------------------------------------------------------------- sums by domain of one level


class DomainTable:
    """The columns of *work* summed by domain. *domain_of*: index of each node's domain. *starts*: first node of each domain."""

    def __init__(self, work: WorkColumns, domain_of: Ints, starts: Ints) -> None:
        self._work = work
        self.sums = _summed(work.sums, starts)
        self._by_flavor = {name: _summed(sums, starts) for name, sums in work.by_flavor.items()}
        self.gangs: Ints | None = None
        if work.size is not None:
            # A gang uses one flavor, so what is left of one flavor cannot complete a gang of another.
            whole = (_summed(pods, starts) // work.size.pods for pods in work.pods)
            self.gangs = sum(whole, np.zeros((len(starts) - 1, 3), dtype=np.int64))
        self._domain_of = domain_of

    @cached_property
    def _ranked(self) -> "_Ranked":
        """The usage of each gang in each domain: most GPUs first, then most pods, then by id."""
        work, domain_of = self._work, self._domain_of
        count = max(1, len(work.gangs))
        pairs, pair_index = distinct(domain_of[work.node] * count + work.who)
        pods, gpus = (added_up(pair_index, held, len(pairs)) for held in (work.held_pods, work.held_gpus))
        domains, who = pairs // count, pairs % count
        order = np.lexsort((who, -pods, -gpus, domains))
        bounds = np.searchsorted(domains, np.arange(len(self.sums) + 1))
        return _Ranked(who[order].tolist(), pods[order].tolist(), gpus[order].tolist(), bounds.tolist())

    def holders(self, index: int) -> tuple[tuple[Holder, ...], Others]:
        """The gangs named for domain *index*, and the sum of the others."""
        ranked, gangs = self._ranked, self._work.gangs
        first, last = ranked.bounds[index : index + 2]
        named = min(last, first + self._work.most)
        rows = zip(*(column[first:named] for column in ranked[:3]), strict=True)
        others = Others(last - named, sum(ranked.held_gpus[named:last]))
        return tuple(_holder(gangs[who], pods, gpus) for who, pods, gpus in rows), others

    def view(self, index: int, level: str | None, path: tuple[str, ...], state: str | None = None) -> DomainReport:
        """The report on domain *index*, without the domains inside it."""
        sums = self.sums[index].tolist()
        holders, others = self.holders(index)
        return DomainReport(
            level=level,
            path=path,
            state=state,
            nodes=sums[NODES],
            cordoned_nodes=sums[CORDONED_NODES],
            gpus=DomainGpus(*sums[_TOTAL:]),
            flavors={
                name: DomainGpus(*flavor_sums[index].tolist()[_TOTAL:])
                for name, flavor_sums in self._by_flavor.items()
                if flavor_sums[index, NODES]
            },
            gangs=None if self.gangs is None else GangsThatFit(*self.gangs[index].tolist()),
            holders=holders,
            others=others,
        )


class _Ranked(NamedTuple):
    """Rows sorted by domain. *bounds*: the first row of each domain, and the end."""

    who: list[int]
    held_pods: list[int]
    held_gpus: list[int]
    bounds: list[int]


def _holder(entry: Entry, pods: int, gpus: int) -> Holder:
    gang = entry.gang
    return Holder(gang.id, gang.pool, gang.priority.value, entry.state, pods, gpus)


def _summed(columns: Ints, starts: Ints) -> Ints:
    if not len(columns):
        return np.zeros((len(starts) - 1, columns.shape[1]), dtype=np.int64)
    sums: NDArray[np.int64] = np.add.reduceat(columns, starts[:-1], axis=0)
    return sums
