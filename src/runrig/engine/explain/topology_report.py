"""The survey: of every domain what is free, who holds the rest, and how many gangs of one size it takes (laws T1, T5).

Sums over the nodes in topology order, a range for each domain.  Reads the ledger and changes nothing in it.
O(levels x (nodes + what is held there)).
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np

from runrig.domain.nodes import Node
from runrig.domain.pools import HOSTNAME, TopologyKey
from runrig.engine.explain.topology_columns import CORDONED_NODES, NODES, DomainTable, NodeColumns, WorkColumns
from runrig.engine.explain.topology_values import (
    DomainReport,
    GangsThatFit,
    LevelReport,
    TopologyQuestion,
    TopologyReport,
    UnlabelledNode,
)
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.nodes.topology import Domain, TopologyIndex


def topology_report(
    ledger: Ledger, keys: Sequence[TopologyKey], flavors: Collection[str], question: TopologyQuestion | None = None
) -> TopologyReport:
    """Of the nodes of *flavors*, by *keys*, coarse to fine.  Without keys the nodes stand right below the whole."""
    asked = question or TopologyQuestion()
    topology = ledger.nodes.topology(tuple(each.label for each in keys))
    found = NodeColumns(ledger, topology, flavors)
    work = WorkColumns(ledger, found, asked)
    tables = [DomainTable(work, of, starts) for of, starts in zip(topology.of, topology.starts, strict=True)]
    views = _Views(topology, keys, asked, work, tables)
    return TopologyReport(tuple(keys), tuple(found.flavors), tuple(views.levels()), views.whole(), tuple(views.apart()))


# ---------------------------------------------------------------- as a tree


class _Views:
    """Domains without a node of the flavors asked for are left out."""

    def __init__(
        self,
        topology: TopologyIndex,
        keys: Sequence[TopologyKey],
        asked: TopologyQuestion,
        work: WorkColumns,
        tables: Sequence[DomainTable],
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
            domains = int(np.count_nonzero(table.sums[:count, NODES]))
            gangs = None if table.gangs is None else GangsThatFit(*table.gangs[:count].sum(axis=0).tolist())
            yield LevelReport(each.key, each.label, domains, gangs)

    def whole(self) -> DomainReport:
        count = len(self._topology.nodes)
        of, starts = np.zeros(count, dtype=np.int64), np.array([0, count], dtype=np.int64)
        seen = DomainTable(self._work, of, starts).view(0, None, ())
        return replace(seen, inside=tuple(self._below(self._topology.whole(labelled=True))))

    def _below(self, domain: Domain) -> Iterator[DomainReport]:
        level = domain.level + 1
        if level == self._depth:
            level = self._topology.node_level
            if not self._nodes:
                return
        for at in range(*self._topology.inside(domain, level)):
            if self._tables[level].sums[at, NODES]:
                inner = self._topology.domain(level, at)
                if level == self._topology.node_level:
                    yield self._node(inner)
                else:
                    seen = self._tables[level].view(at, self._keys[level].key, self._topology.path(inner))
                    yield replace(seen, inside=tuple(self._below(inner)))

    def _node(self, domain: Domain) -> DomainReport:
        node = self._topology.nodes[domain.first].node
        table = self._tables[self._topology.node_level]
        cordoned = bool(table.sums[domain.at, CORDONED_NODES])
        return table.view(domain.at, None, self._topology.path(domain), _state(node, cordoned=cordoned))

    def apart(self) -> Iterator[UnlabelledNode]:
        nodes = self._topology.node_level
        for at in range(self._topology.labelled, len(self._topology.nodes)):
            if self._tables[nodes].sums[at, NODES]:
                labels = self._topology.nodes[at].node.labels
                lacks = tuple(each for each in self._topology.labels if each not in labels and each != HOSTNAME)
                yield UnlabelledNode(lacks, self._node(self._topology.domain(nodes, at)))


def _state(node: Node, *, cordoned: bool) -> str:
    if not node.ready:
        return "NotReady"
    return "Tainted" if cordoned else "Ready"
