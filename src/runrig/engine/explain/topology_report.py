"""The survey: of every domain what is free, who holds the rest, and how many gangs of one size it takes (laws T1, T5).

Sums over the nodes in topology order, a range for each domain.  Reads the ledger and changes nothing in it.
O(levels x (nodes + what is held there)).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from runrig.domain.gangs import GangState
from runrig.domain.nodes import Node
from runrig.domain.pools import HOSTNAME, TopologyKey
from runrig.domain.quantities import GPU
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.queue import Entry
from runrig.engine.nodes.fit_counts import PodShape
from runrig.engine.nodes.node_capacity import EMPTY, NodeCapacity
from runrig.engine.nodes.topology import Domain, Ints, TopologyIndex
from runrig.engine.quota.quota_node import CHARGED, LAYERS, REAL

NOW = LAYERS
"""What starts at once has room in both: in what is decided, and in what is still there (law R4)."""

MOST_HOLDERS = 5


class Size(NamedTuple):
    """Of a gang: so many pods, each with so many GPUs and nothing else."""

    pods: int
    gpus: int


class DomainGpus(NamedTuple):
    """*total* is the sum of the others, but where a node has fewer GPUs than its gangs hold.

    *firm*: held by HIGH and NORMAL; *low*: by LOW; *changing*: held by gangs that stop, or promised to the nominated;
    *cordoned*: held by nobody, on nodes that take no new pods; *free*: held by nobody, on all others.
    """

    total: int
    free: int
    firm: int
    low: int
    changing: int
    cordoned: int


class GangsThatFit(NamedTuple):
    """How many gangs of the size asked for, all pods of each in one domain, as far as GPUs tell.

    *now*: beside all that is there; *after_low*: once all LOW, of every pool, and what stops already is gone; *ever*: on empty
    nodes that are all ready.
    """

    now: int
    after_low: int
    ever: int


@dataclass(frozen=True, slots=True)
class Holder:
    """A gang, and what it holds in the domain; if it is nominated, what it is promised there."""

    gang: str
    pool: str
    priority: str
    state: GangState
    pods: int
    gpus: int


@dataclass(frozen=True, slots=True)
class DomainReport:
    """A domain, or a node.  *key*: its level, None of a node and of the whole.  *state*: of a node: Ready, NotReady or Tainted.

    *cordoned*: how many of its nodes take no new pods.  *flavors*: the same by flavor, empty where all are of one.
    *holders*: those with most GPUs; *others*: how many more there are, and their GPUs.
    """

    key: str | None
    path: tuple[str, ...]
    state: str | None
    nodes: int
    cordoned: int
    gpus: DomainGpus
    flavors: Mapping[str, DomainGpus]
    gangs: GangsThatFit | None
    holders: tuple[Holder, ...]
    others: tuple[int, int]
    inside: tuple["DomainReport", ...] = ()


@dataclass(frozen=True, slots=True)
class LevelReport:
    """*gangs*: each inside one domain of this level, summed over its *domains*."""

    key: str
    label: str
    domains: int
    gangs: GangsThatFit | None


@dataclass(frozen=True, slots=True)
class UnlabelledNode:
    """A node that lacks labels: gangs with requirements do not go there (law T1)."""

    lacks: tuple[str, ...]
    node: DomainReport


@dataclass(frozen=True, slots=True)
class TopologyReport:
    """*whole*: all nodes, those *apart* too, though they are not inside it; its gangs may lie anywhere."""

    keys: tuple[TopologyKey, ...]
    flavors: tuple[str, ...]
    levels: tuple[LevelReport, ...]
    whole: DomainReport
    apart: tuple[UnlabelledNode, ...]


@dataclass(frozen=True, slots=True)
class TopologyQuestion:
    """*depth*: how many levels are shown, None: all.  *nodes*: as domains of their own below the finest level.

    *holders*: how many are named at most, per domain.
    """

    size: Size | None = None
    depth: int | None = None
    nodes: bool = False
    holders: int = MOST_HOLDERS


def topology_report(
    ledger: Ledger, keys: Sequence[TopologyKey], flavors: Collection[str], question: TopologyQuestion | None = None
) -> TopologyReport:
    """Of the nodes of *flavors*, by *keys*, coarse to fine.  Without keys the nodes stand right below the whole."""
    asked = question or TopologyQuestion()
    topology = ledger.nodes.topology(tuple(each.label for each in keys))
    found = _Nodes(ledger, topology, flavors)
    work = _Work(ledger, found, asked)
    tables = [_Table(work, of, starts) for of, starts in zip(topology.of, topology.starts, strict=True)]
    views = _Views(topology, keys, asked, work, tables)
    return TopologyReport(tuple(keys), tuple(found.flavors), tuple(views.levels()), views.whole(), tuple(views.apart()))


# ---------------------------------------------------------------- columns, a row for each node


_NODES, _CORDONED_NODES, _TOTAL, _FREE, _FIRM, _LOW, _CHANGING, _CORDONED = range(8)


class _Nodes:
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


class _Work:
    """All columns together: *sums* per node, *by_flavor* the same of each flavor, *pods* how many of the size fit, per flavor."""

    def __init__(self, ledger: Ledger, nodes: _Nodes, asked: TopologyQuestion) -> None:
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

    def _held(self, nodes: _Nodes) -> tuple[Ints, Ints, Ints, Ints]:
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

    def _sums(self, nodes: _Nodes) -> Ints:
        count = len(nodes.topology.nodes)
        mine = np.array(nodes.mine, dtype=np.bool_)
        runs = [each.held and each.state is GangState.ADMITTED for each in self.gangs]
        firm = self._on_nodes([each and kind for each, kind in zip(runs, self.firm, strict=True)], count)
        low = self._on_nodes([each and not kind for each, kind in zip(runs, self.firm, strict=True)], count)
        sums = np.zeros((count, 8), dtype=np.int64)
        sums[:, _NODES] = mine
        sums[:, _CORDONED_NODES] = mine & ~nodes.open
        sums[:, _TOTAL] = nodes.total
        sums[:, _FREE] = np.where(nodes.open, nodes.free, 0)
        sums[:, _FIRM] = firm
        sums[:, _LOW] = low
        # A nominated gang is promised what its targets still hold: what is left of the total counts it once.
        sums[:, _CHANGING] = np.maximum(0, nodes.total - firm - low - nodes.free)
        sums[:, _CORDONED] = np.where(nodes.open, 0, nodes.free)
        return sums

    def _fitting(self, ledger: Ledger, nodes: _Nodes, flavor: str) -> Ints:
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


class _Table:
    """What *work* has per node, summed per domain; *of*: the domain of each node, *starts*: where each begins."""

    def __init__(self, work: _Work, of: Ints, starts: Ints) -> None:
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
            nodes=sums[_NODES],
            cordoned=sums[_CORDONED_NODES],
            gpus=DomainGpus(*sums[_TOTAL:]),
            flavors={
                name: DomainGpus(*each[at].tolist()[_TOTAL:])
                for name, each in self._by_flavor.items()
                if each[at, _NODES]
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


# ---------------------------------------------------------------- as a tree


class _Views:
    """Domains without a node of the flavors asked for are left out."""

    def __init__(
        self,
        topology: TopologyIndex,
        keys: Sequence[TopologyKey],
        asked: TopologyQuestion,
        work: _Work,
        tables: Sequence[_Table],
    ) -> None:
        self._topology = topology
        self._keys = keys
        self._tables = tables
        self._work = work
        self._depth = len(keys) if asked.depth is None else min(asked.depth, len(keys))
        # A level of host names shows the nodes already.
        by_name = bool(keys) and keys[-1].label == HOSTNAME
        self._nodes = not keys or (asked.nodes and self._depth == len(keys) and not by_name)

    def levels(self) -> Iterator[LevelReport]:
        """All of them, whatever is shown."""
        for depth, each in enumerate(self._keys):
            table = self._tables[depth]
            # Nodes that lack a label stand behind the others, as domains of their own: these are none.
            _, count = self._topology.inside(self._topology.whole(labelled=True), depth)
            domains = int(np.count_nonzero(table.sums[:count, _NODES]))
            gangs = None if table.gangs is None else GangsThatFit(*table.gangs[:count].sum(axis=0).tolist())
            yield LevelReport(each.key, each.label, domains, gangs)

    def whole(self) -> DomainReport:
        count = len(self._topology.nodes)
        of, starts = np.zeros(count, dtype=np.int64), np.array([0, count], dtype=np.int64)
        seen = _Table(self._work, of, starts).view(0, None, ())
        return replace(seen, inside=tuple(self._below(self._topology.whole(labelled=True))))

    def _below(self, domain: Domain) -> Iterator[DomainReport]:
        level = domain.level + 1
        if level == self._depth:
            level = self._topology.node_level
            if not self._nodes:
                return
        for at in range(*self._topology.inside(domain, level)):
            if self._tables[level].sums[at, _NODES]:
                inner = self._topology.domain(level, at)
                if level == self._topology.node_level:
                    yield self._node(inner)
                else:
                    seen = self._tables[level].view(at, self._keys[level].key, self._topology.path(inner))
                    yield replace(seen, inside=tuple(self._below(inner)))

    def _node(self, domain: Domain) -> DomainReport:
        node = self._topology.nodes[domain.first].node
        table = self._tables[self._topology.node_level]
        cordoned = bool(table.sums[domain.at, _CORDONED_NODES])
        return table.view(domain.at, None, self._topology.path(domain), _state(node, cordoned=cordoned))

    def apart(self) -> Iterator[UnlabelledNode]:
        nodes = self._topology.node_level
        for at in range(self._topology.labelled, len(self._topology.nodes)):
            if self._tables[nodes].sums[at, _NODES]:
                labels = self._topology.nodes[at].node.labels
                lacks = tuple(each for each in self._topology.labels if each not in labels and each != HOSTNAME)
                yield UnlabelledNode(lacks, self._node(self._topology.domain(nodes, at)))


def _state(node: Node, *, cordoned: bool) -> str:
    if not node.ready:
        return "NotReady"
    return "Tainted" if cordoned else "Ready"
