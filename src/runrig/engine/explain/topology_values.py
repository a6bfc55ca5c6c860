"""The values of a topology report: what is asked about the domains, and what they have (laws T1, T5)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from runrig.domain.gangs import GangState
from runrig.domain.pools import TopologyKey

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
