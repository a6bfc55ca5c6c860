"""The values of a topology report: the question, and the answer for each domain (laws T1, T5)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from runrig.domain.gangs import GangState
from runrig.domain.pools import TopologyKey

MOST_HOLDERS = 5
"""How many holders of a domain are named unless the question says otherwise."""


class Size(NamedTuple):
    """The size of a gang: *pods* pods with *gpus* GPUs each, and no other resources."""

    pods: int
    gpus: int


class DomainGpus(NamedTuple):
    """The GPUs of a domain.  *total* is the sum of the others, unless a node has fewer GPUs than its gangs hold.

    *free*: held by nobody, on nodes that take new pods.  *firm*: held by HIGH and NORMAL; *low*: by LOW.  *changing*: held by
    gangs that are stopping, or promised to nominated ones.  *cordoned*: held by nobody, on nodes that take no new pods.
    """

    total: int
    free: int
    firm: int
    low: int
    changing: int
    cordoned: int


class GangsThatFit(NamedTuple):
    """How many gangs of the requested size fit, each with all its pods in one domain; only GPUs are counted.

    *now*: beside all running work.  *after_low*: once all LOW work of every pool, and all work that is stopping, is gone.
    *ever*: if all nodes were empty and ready.
    """

    now: int
    after_low: int
    ever: int


@dataclass(frozen=True, slots=True)
class Holder:
    """A gang and the pods and GPUs that it holds in the domain; if it is nominated, what it is promised there."""

    gang: str
    pool: str
    priority: str
    state: GangState
    pods: int
    gpus: int


@dataclass(frozen=True, slots=True)
class DomainReport:
    """One domain or node.

    *key*: the topology key of its level; None for a node and for the whole.  *path*: its label values, coarse to fine.
    *state*: Ready, NotReady or Tainted; None unless it is a node.  *nodes*: how many nodes it has; *cordoned*: how many of them
    take no new pods.  *flavors*: flavor → GPUs; empty if all nodes have one flavor.  *gangs* None: no size was asked for.
    *holders*: the gangs with the most GPUs; *others*: (number, GPUs) of the remaining ones.
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
    """One level.  *gangs*: the sum over its *domains* of the gangs that fit in each; None if no size was asked for."""

    key: str
    label: str
    domains: int
    gangs: GangsThatFit | None


@dataclass(frozen=True, slots=True)
class UnlabelledNode:
    """A node without some labels of the levels: no gang with requirements goes there (law T1).  *lacks*: those labels."""

    lacks: tuple[str, ...]
    node: DomainReport


@dataclass(frozen=True, slots=True)
class TopologyReport:
    """*whole*: the sums of all nodes, including those *apart*, which are not in its tree; its gangs may spread anywhere."""

    keys: tuple[TopologyKey, ...]
    flavors: tuple[str, ...]
    levels: tuple[LevelReport, ...]
    whole: DomainReport
    apart: tuple[UnlabelledNode, ...]


@dataclass(frozen=True, slots=True)
class TopologyQuestion:
    """The extent of a report.  *size* None: no gangs are counted.  *depth*: how many levels are shown; None: all.

    *nodes*: True to show the nodes below the finest level.  *holders*: how many holders each domain names at most.
    """

    size: Size | None = None
    depth: int | None = None
    nodes: bool = False
    holders: int = MOST_HOLDERS
