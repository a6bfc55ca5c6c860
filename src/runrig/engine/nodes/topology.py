"""Topology domains: the nodes in topology order (rules T1, T5).

A domain is a range of nodes in that order. The nodes themselves are the level below the finest key.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from runrig.domain.nodes import Node
from runrig.domain.pools import HOSTNAME
from runrig.engine.nodes.node_capacity import NodeCapacity

Ints = NDArray[np.int64]

ROOT = -1
"""The level of the domain that contains all nodes."""


def distinct(values: Ints) -> tuple[Ints, Ints]:
    """(sorted distinct values, index of each value among them). `np.unique` would import `numpy.ma`, which takes 45 ms."""
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    first = np.ones(len(ranked), dtype=np.bool_)
    first[1:] = ranked[1:] != ranked[:-1]
    where = np.empty(len(ranked), dtype=np.int64)
    where[order] = np.cumsum(first) - 1
    return ranked[first], where


def added_up(where: Ints, amounts: Ints, size: int) -> Ints:
    """The sum of *amounts* at each of *size* indices, exact. *where*: the index of each amount."""
    sums = np.zeros(size, dtype=np.int64)
    np.add.at(sums, where, amounts)
    return sums


class Domain(NamedTuple):
    """A domain. *at*: its index in its level. It contains the nodes *first* (included) to *last* (excluded) in topology order."""

    level: int
    at: int
    first: int
    last: int


class TopologyIndex:
    """All nodes in topology order: sorted by their labels, level by level, then by name.

    A node that lacks a label comes last and is a domain of its own at every level; gangs with a requirement cannot use it (rule
    T1).
    *labelled*: number of nodes with all labels. *names*: of the nodes. *of*: per level, the domain of each node; the last level
    is the nodes.
    """

    def __init__(self, labels: Sequence[str], rooms: Iterable[NodeCapacity]) -> None:
        placed, apart = [], []
        for room in rooms:
            path = path_of(room.node, labels)
            if path is None:
                apart.append((room.node.name, room))
            else:
                placed.append((path, room.node.name, room))
        placed.sort()  # names are unique, so the sort never compares rooms
        apart.sort()
        self.labels = tuple(labels)
        self.labelled = len(placed)
        self.nodes = [room for _, _, room in placed] + [room for _, room in apart]
        self.index = {room.node.name: index for index, room in enumerate(self.nodes)}
        self.names = list(self.index)
        self.paths = [path for path, _, _ in placed]
        self.of: list[Ints] = []
        self.starts: list[Ints] = []
        count = len(self.nodes)
        # Whether a domain begins at the node; each node without all labels is a domain.
        begins = np.ones(count, dtype=np.bool_)
        begins[1 : self.labelled] = False
        for depth in range(len(labels)):
            values = [path[depth] for path in self.paths]
            begins[1 : self.labelled] |= np.array([value != other for value, other in pairwise(values)], dtype=np.bool_)
            self.of.append(begins.cumsum(dtype=np.int64) - 1)
            self.starts.append(np.append(np.flatnonzero(begins), count))
        self.of.append(np.arange(count, dtype=np.int64))
        self.starts.append(np.arange(count + 1, dtype=np.int64))

    @cached_property
    def children(self) -> list[list[range]]:
        """Per level except the last: the children of each domain, as ranges of domains of the next level."""
        children = []
        for starts, below in pairwise(zip(self.starts, self.of, strict=True)):
            first = below[1][starts[0][:-1]].tolist()
            children.append([range(*ends) for ends in pairwise([*first, len(below[0]) - 1])])
        return children

    @property
    def node_level(self) -> int:
        return len(self.labels)

    @property
    def finest(self) -> int:
        """The finest level that is coarser than a node; ROOT if there is none."""
        return self.node_level - (2 if self.labels[-1:] == (HOSTNAME,) else 1)

    @cached_property
    def single_level(self) -> int:
        """The level of host names if each belongs to one node; otherwise the level of the nodes."""
        level = self.finest + 1
        return level if len(self.starts[level]) == len(self.starts[-1]) else self.node_level

    def whole(self, *, labelled: bool) -> Domain:
        """All nodes, or only those with all labels."""
        return Domain(ROOT, 0, 0, self.labelled if labelled else len(self.nodes))

    def domain(self, level: int, at: int) -> Domain:
        starts = self.starts[level]
        return Domain(level, at, int(starts[at]), int(starts[at + 1]))

    def around(self, node: int, level: int) -> Domain:
        """The domain of *level* that contains *node*."""
        return self.domain(level, int(self.of[level][node]))

    def inside(self, domain: Domain, level: int) -> tuple[int, int]:
        """The range of domains of *level* inside *domain*: first, and one after the last."""
        if domain.first == domain.last:
            return 0, 0
        of = self.of[level]
        return int(of[domain.first]), int(of[domain.last - 1]) + 1

    def path(self, domain: Domain) -> tuple[str, ...]:
        """The label values of *domain*, coarse to fine; for a node, followed by its name."""
        if domain.level == ROOT:
            return ()
        if domain.level == self.node_level:
            return self.path_of_node(self.nodes[domain.first].node.name)
        return self.paths[domain.first][: domain.level + 1]

    def path_of_node(self, name: str) -> tuple[str, ...]:
        """Like `path`; without the name if the path already ends with the host name."""
        index = self.index[name]
        path = self.paths[index] if index < self.labelled else ()
        return path if path and self.labels[-1:] == (HOSTNAME,) else (*path, name)


def path_of(node: Node, labels: Sequence[str]) -> tuple[str, ...] | None:
    """The values of *labels* on *node*; None if one is missing."""
    values = []
    for label in labels:
        value = value_of(node, label)
        if value is None:
            return None
        values.append(value)
    return tuple(values)


def value_of(node: Node, label: str) -> str | None:
    """The value of *label* on *node*; None if it is missing. A missing host name label defaults to the node's name."""
    return node.labels.get(label, node.name if label == HOSTNAME else None)
