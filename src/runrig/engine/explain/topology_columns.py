"""The columns behind a topology report: what each node has, summed by domain (laws T1, T5).

A row for each node in topology order, so that a domain is a range of rows.
"""

from collections.abc import Collection, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from runrig.domain.gangs import GangState
from runrig.domain.quantities import GPU
from runrig.engine.explain.topology_values import DomainGpus, DomainReport, GangsThatFit, Holder, TopologyQuestion
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.queue import Entry
from runrig.engine.nodes.fit_counts import PodShape
from runrig.engine.nodes.node_capacity import EMPTY, NodeCapacity
from runrig.engine.nodes.topology import Ints, TopologyIndex
from runrig.engine.quota.quota_node import CHARGED, LAYERS, REAL

NOW = LAYERS
"""What starts at once has room in both: in what is decided, and in what is still there (law R4)."""

NODES, CORDONED_NODES, _TOTAL, _FREE, _FIRM, _LOW, _CHANGING, _CORDONED = range(8)


class NodeColumns:
    """What is declared and what is free.  *mine*: whether a node is of one of the flavors; *flavors*: those that have nodes."""

    def __init__(self, ledger: Ledger, topology: TopologyIndex, flavors: Collection[str]) -> None:
        rooms, wanted = topology.nodes, set(flavors)
        self.topology = topology
        self.mine = [room.node.flavor in wanted for room in rooms]
        self.flavor = [room.node.flavor for room in rooms]
        self.flavors = sorted({room.node.flavor for room in rooms} & wanted)
        self.open = np.array([ledger.nodes.takes(room.node.name, room.node.flavor) for room in rooms], dtype=np.bool_)
        self.decided = self._gpus(rooms, CHARGED)
        self.free = np.maximum(0, np.minimum(self.decided, self._gpus(rooms, REAL)))
        self.total = self._gpus(rooms, EMPTY)

    def _gpus(self, rooms: Sequence[NodeCapacity], layer: int) -> Ints:
        """Below zero on a node that was given fewer than are held."""
        found = [room.free[layer].get(GPU, 0) if mine else 0 for room, mine in zip(rooms, self.mine, strict=True)]
        return np.array(found, dtype=np.int64)


class WorkColumns:
    """All columns together: *sums* per node, *by_flavor* the same of each flavor, *pods* how many of the size fit, per flavor."""

    def __init__(self, ledger: Ledger, nodes: NodeColumns, asked: TopologyQuestion) -> None:
        self.most = asked.holders
        self.gangs = sorted((each for each in ledger.entries.values() if each.placement), key=lambda each: each.gang.id)
        self.firm = [each.bucket.firm for each in self.gangs]
        self.who, self.node, self.held_pods, self.held_gpus = self._held(nodes)
        self.sums = self._sums(nodes)
        self.by_flavor: dict[str, Ints] = {}
        if len(nodes.flavors) > 1:
            own = {name: np.array([each == name for each in nodes.flavor], dtype=np.bool_) for name in nodes.flavors}
            self.by_flavor = {name: np.where(own[name][:, None], self.sums, 0) for name in nodes.flavors}
        self.size = asked.size
        self.pods = [] if asked.size is None else [self._fitting(ledger, nodes, name) for name in nodes.flavors]

    def _held(self, nodes: NodeColumns) -> tuple[Ints, Ints, Ints, Ints]:
        """A row for each node of each pod set: the place of the gang among *gangs*, the node, pods, GPUs."""
        who, node, pods, held = columns = [list[int]() for _ in range(4)]
        for place, entry in enumerate(self.gangs):
            for each, pod_set in zip(entry.placement, entry.gang.pod_sets, strict=True):
                gpus = dict(pod_set.requests).get(GPU, 0)
                for share in each.shares:
                    at = nodes.topology.index.get(share.node)
                    if at is not None and nodes.mine[at]:
                        who.append(place)
                        node.append(at)
                        pods.append(share.count)
                        held.append(gpus * share.count)
        first, second, third, fourth = (np.array(each, dtype=np.int64) for each in columns)
        return first, second, third, fourth

    def _on_nodes(self, chosen: Sequence[bool], count: int) -> Ints:
        """GPUs per node of the gangs that are *chosen*."""
        rows = np.array(chosen, dtype=np.bool_)[self.who]
        held = np.zeros(count, dtype=np.int64)
        np.add.at(held, self.node[rows], self.held_gpus[rows])
        return held

    def _sums(self, nodes: NodeColumns) -> Ints:
        count = len(nodes.topology.nodes)
        mine = np.array(nodes.mine, dtype=np.bool_)
        runs = [each.held and each.state is GangState.ADMITTED for each in self.gangs]
        firm = self._on_nodes([each and kind for each, kind in zip(runs, self.firm, strict=True)], count)
        low = self._on_nodes([each and not kind for each, kind in zip(runs, self.firm, strict=True)], count)
        sums = np.zeros((count, 8), dtype=np.int64)
        sums[:, NODES] = mine
        sums[:, CORDONED_NODES] = mine & ~nodes.open
        sums[:, _TOTAL] = nodes.total
        sums[:, _FREE] = np.where(nodes.open, nodes.free, 0)
        sums[:, _FIRM] = firm
        sums[:, _LOW] = low
        # A nominated gang is promised what its targets still hold: what is left of the total counts it once.
        sums[:, _CHANGING] = np.maximum(0, nodes.total - firm - low - nodes.free)
        sums[:, _CORDONED] = np.where(nodes.open, 0, nodes.free)
        return sums

    def _fitting(self, ledger: Ledger, nodes: NodeColumns, flavor: str) -> Ints:
        """Pods of the size on nodes of *flavor*: now, after LOW, ever."""
        assert self.size is not None
        shape = PodShape(((GPU, self.size.gpus),), flavor)
        labels, gpus = nodes.topology.labels, self.size.gpus
        now = ledger.nodes.counts(labels, shape, NOW)
        ever = ledger.nodes.counts(labels, shape, (EMPTY,))
        goes = [
            each.charged and (not firm or each.state is GangState.STOPPING)
            for each, firm in zip(self.gangs, self.firm, strict=True)
        ]
        room = nodes.decided + self._on_nodes(goes, len(nodes.topology.nodes))
        after = np.where(now.takes, np.clip(room, 0, nodes.total) // gpus, 0)
        return np.stack([now.levels[-1], after, ever.levels[-1]], axis=1)


# ---------------------------------------------------------------- the same per domain of one level


class DomainTable:
    """What *work* has per node, summed per domain; *of*: the domain of each node, *starts*: where each begins."""

    def __init__(self, work: WorkColumns, of: Ints, starts: Ints) -> None:
        self._work = work
        self.sums = _summed(work.sums, starts)
        self._by_flavor = {name: _summed(sums, starts) for name, sums in work.by_flavor.items()}
        self.gangs: Ints | None = None
        if work.size is not None:
            # A gang takes one flavor: what is left over in one does not fill up another.
            whole = (_summed(pods, starts) // work.size.pods for pods in work.pods)
            self.gangs = sum(whole, np.zeros((len(starts) - 1, 3), dtype=np.int64))
        self._of = of

    @cached_property
    def _ranked(self) -> "_Ranked":
        """What each gang holds in each domain, the largest first, then by id."""
        work, of = self._work, self._of
        count = max(1, len(work.gangs))
        pairs, place = np.unique(of[work.node] * count + work.who, return_inverse=True)
        pods, gpus = np.zeros(len(pairs), dtype=np.int64), np.zeros(len(pairs), dtype=np.int64)
        np.add.at(pods, place, work.held_pods)
        np.add.at(gpus, place, work.held_gpus)
        domains, who = pairs // count, pairs % count
        order = np.lexsort((who, -pods, -gpus, domains))
        bounds = np.searchsorted(domains, np.arange(len(self.sums) + 1))
        return _Ranked(who[order].tolist(), pods[order].tolist(), gpus[order].tolist(), bounds.tolist())

    def holders(self, at: int) -> tuple[tuple[Holder, ...], tuple[int, int]]:
        """Those of domain *at*, and how many others there are with how many GPUs."""
        ranked, gangs = self._ranked, self._work.gangs
        first, last = ranked.bounds[at : at + 2]
        named = min(last, first + self._work.most)
        rows = zip(ranked.who[first:named], ranked.pods[first:named], ranked.gpus[first:named], strict=True)
        return tuple(_holder(gangs[who], pods, gpus) for who, pods, gpus in rows), (
            last - named,
            sum(ranked.gpus[named:last]),
        )

    def view(self, at: int, key: str | None, path: tuple[str, ...], state: str | None = None) -> DomainReport:
        sums = self.sums[at].tolist()
        holders, others = self.holders(at)
        return DomainReport(
            key=key,
            path=path,
            state=state,
            nodes=sums[NODES],
            cordoned=sums[CORDONED_NODES],
            gpus=DomainGpus(*sums[_TOTAL:]),
            flavors={
                name: DomainGpus(*each[at].tolist()[_TOTAL:])
                for name, each in self._by_flavor.items()
                if each[at, NODES]
            },
            gangs=None if self.gangs is None else GangsThatFit(*self.gangs[at].tolist()),
            holders=holders,
            others=others,
        )


class _Ranked(NamedTuple):
    """Rows by domain, and where those of each domain begin."""

    who: list[int]
    pods: list[int]
    gpus: list[int]
    bounds: list[int]


def _holder(entry: Entry, pods: int, gpus: int) -> Holder:
    gang = entry.gang
    return Holder(gang.id, gang.pool, gang.priority.value, entry.state, pods, gpus)


def _summed(columns: Ints, starts: Ints) -> Ints:
    if not len(columns):
        return np.zeros((len(starts) - 1, columns.shape[1]), dtype=np.int64)
    found: NDArray[np.int64] = np.add.reduceat(columns, starts[:-1], axis=0)
    return found
