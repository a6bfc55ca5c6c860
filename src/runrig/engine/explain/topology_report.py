"""The topology report: what is free in each domain, which gangs use the rest, and how many gangs of one size fit (rules T1,
T5).

Does not change the ledger. O(levels × (nodes + pods placed)).
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np

from runrig.domain.nodes import Node
from runrig.domain.pools import HOSTNAME, TopologyKey
from runrig.domain.shown.topology import DomainReport, GangsThatFit, LevelReport, TopologyMap, UnlabelledNode
from runrig.engine.explain.topology_columns import (
    CORDONED_NODES,
    NODES,
    DomainTable,
    NodeColumns,
    TopologyQuestion,
    WorkColumns,
)
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.nodes.topology import Domain


def topology_report(
    ledger: Ledger, keys: Sequence[TopologyKey], flavors: Collection[str], question: TopologyQuestion | None = None
) -> TopologyMap:
    """The report on the nodes of *flavors* by the levels of *keys*, coarse to fine. Without keys, it lists the nodes directly."""
    nodes = NodeColumns(ledger, ledger.nodes.topology(tuple(key.label for key in keys)), flavors)
    views = _Views(ledger, keys, nodes, question or TopologyQuestion())
    return TopologyMap(
        pools=(),
        keys=tuple(keys),
        flavors=tuple(nodes.flavors),
        levels=tuple(views.levels()),
        all=views.whole(),
        apart=tuple(views.apart()),
    )


class _Views:
    """The report as a tree. Leaves out domains without nodes of the requested flavors."""

    def __init__(
        self, ledger: Ledger, keys: Sequence[TopologyKey], nodes: NodeColumns, asked: TopologyQuestion
    ) -> None:
        self._keys, self._topology = keys, nodes.topology
        self._work = WorkColumns(ledger, nodes, asked)
        domains = zip(self._topology.of, self._topology.starts, strict=True)
        self._tables = [DomainTable(self._work, domain_of, starts) for domain_of, starts in domains]
        self._depth = len(keys) if asked.depth is None else min(asked.depth, len(keys))
        # If the finest level is the host name, its domains are the nodes.
        by_name = bool(keys) and keys[-1].label == HOSTNAME
        self._nodes = not keys or (asked.nodes and self._depth == len(keys) and not by_name)

    def levels(self) -> Iterator[LevelReport]:
        """Yields all levels, whatever depth is shown."""
        for depth, key in enumerate(self._keys):
            table = self._tables[depth]
            # Nodes without a label come last, as pseudo-domains of their own, and do not count.
            _, count = self._topology.inside(self._topology.whole(labelled=True), depth)
            domains = int(np.count_nonzero(table.sums[:count, NODES]))
            gangs = None if table.gangs is None else GangsThatFit(*table.gangs[:count].sum(axis=0).tolist())
            yield LevelReport(key.key, key.label, domains, gangs)

    def whole(self) -> DomainReport:
        count = len(self._topology.nodes)
        domain_of, starts = np.zeros(count, dtype=np.int64), np.array([0, count], dtype=np.int64)
        report = DomainTable(self._work, domain_of, starts).view(0, None, ())
        return replace(report, domains=tuple(self._below(self._topology.whole(labelled=True))))

    def _below(self, domain: Domain) -> Iterator[DomainReport]:
        level = domain.level + 1
        if level == self._depth:
            level = self._topology.node_level
            if not self._nodes:
                return
        for index in range(*self._topology.inside(domain, level)):
            if self._tables[level].sums[index, NODES]:
                inner = self._topology.domain(level, index)
                if level == self._topology.node_level:
                    yield self._node(inner)
                else:
                    report = self._tables[level].view(index, self._keys[level].key, self._topology.path(inner))
                    yield replace(report, domains=tuple(self._below(inner)))

    def _node(self, domain: Domain) -> DomainReport:
        node = self._topology.nodes[domain.first].node
        table = self._tables[self._topology.node_level]
        cordoned = bool(table.sums[domain.at, CORDONED_NODES])
        return table.view(domain.at, None, self._topology.path(domain), _state(node, cordoned=cordoned))

    def apart(self) -> Iterator[UnlabelledNode]:
        """Yields the nodes that lack a label of some level."""
        level = self._topology.node_level
        for index in range(self._topology.labelled, len(self._topology.nodes)):
            if self._tables[level].sums[index, NODES]:
                labels = self._topology.nodes[index].node.labels
                lacks = tuple(label for label in self._topology.labels if label not in labels and label != HOSTNAME)
                yield UnlabelledNode(lacks, self._node(self._topology.domain(level, index)))


def _state(node: Node, *, cordoned: bool) -> str:
    if not node.open:
        return "NotReady"
    return "Tainted" if cordoned else "Ready"
