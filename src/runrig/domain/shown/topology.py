"""Free GPUs by topology domain, the gangs that use the others, and how many gangs of a size fit (rules T1, T5)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from runrig.domain.gangs import GangState
from runrig.domain.pools import TopologyKey
from runrig.domain.value import Shown, example, shown_as


@dataclass(frozen=True, slots=True)
class DomainGpus(Shown):
    """GPUs. *total* is the sum of the other fields, unless a node now has fewer GPUs than its gangs use.

    *free*: not in use, on nodes that accept new pods. *firm*: in use by HIGH and NORMAL gangs. *low*: in use by LOW
    gangs. *changing*: in use by gangs that are stopping, or reserved for gangs that wait for these. *cordoned*: not in
    use, on nodes that do not accept new pods.
    """

    total: int
    free: int
    firm: int
    low: int
    changing: int
    cordoned: int


shown_as(DomainGpus(total=32, free=8, firm=16, low=8, changing=0, cordoned=0))


@dataclass(frozen=True, slots=True)
class GangsThatFit(Shown):
    """How many gangs of the requested size fit, each with all its pods in one domain.  Only GPUs are counted, not quota, CPU or memory.

    *now*: in addition to all running work.  *after_low*: after all LOW gangs of every pool, and all gangs that are stopping, have ended.
    *ever*: if all nodes were empty and ready.
    """

    now: int
    after_low: int
    ever: int


shown_as(GangsThatFit(now=1, after_low=2, ever=4))


@dataclass(frozen=True, slots=True)
class GangSize(Shown):
    """*pods* pods with *gpus* GPUs each."""

    pods: int
    gpus: int


shown_as(GangSize(8, 1))


@dataclass(frozen=True, slots=True)
class Holder(Shown):
    """A gang, as workflow/group, and its pods and GPUs in the domain; if it is NOMINATED, these are reserved."""

    gang: str
    pool: str
    priority: str
    state: GangState
    pods: int
    gpus: int


shown_as(Holder("train-1/main", "vision", "NORMAL", GangState.ADMITTED, 2, 16))


@dataclass(frozen=True, slots=True)
class GangCount(Shown):
    """A number of gangs, and their GPUs."""

    gangs: int
    gpus: int


class Others(GangCount):
    """The gangs in the domain that are not in the list of holders, and their GPUs."""


shown_as(Others(3, 8))


@dataclass(frozen=True, slots=True)
class DomainReport(Shown):
    """A domain, a node, or all nodes together.

    *level*: its topology key; null for a node and for all nodes. *path*: its label values, coarse to fine; for a node
    also its name.
    *state*: of a node: Ready, NotReady (also if it is cordoned) or Tainted (its flavor does not tolerate a taint).
    *cordoned_nodes*: number of nodes that do not accept new pods. *flavors*: GPUs by flavor; empty if all nodes have
    the same flavor. *gangs* null: no size was given. *holders*: the gangs with the most GPUs. *domains*: the next
    level, or nodes.
    """

    level: str | None
    path: tuple[str, ...]
    state: str | None
    nodes: int
    cordoned_nodes: int
    gpus: DomainGpus
    flavors: Mapping[str, DomainGpus]
    gangs: GangsThatFit | None
    holders: tuple[Holder, ...]
    others: Others
    domains: tuple["DomainReport", ...] = ()


_RACK = shown_as(
    DomainReport(
        level="rack",
        path=("a", "r0"),
        state=None,
        nodes=4,
        cordoned_nodes=0,
        gpus=example(DomainGpus),
        flavors={},
        gangs=example(GangsThatFit),
        holders=(example(Holder),),
        others=example(Others),
    )
)


@dataclass(frozen=True, slots=True)
class LevelReport(Shown):
    """*gangs*: the sum over its *domains* of the gangs that fit in each; null if no size was given."""

    key: str
    label: str
    domains: int
    gangs: GangsThatFit | None


_RACKS = shown_as(LevelReport("rack", "topology.kubernetes.io/rack", 1, example(GangsThatFit)))


@dataclass(frozen=True, slots=True)
class UnlabelledNode(Shown):
    """A node without some labels of the levels.  Gangs with topology requirements do not run on it (rule T1).  *lacks*: these labels."""

    lacks: tuple[str, ...]
    node: DomainReport


shown_as(
    UnlabelledNode(
        lacks=("topology.kubernetes.io/rack",),
        node=DomainReport(
            level=None,
            path=("n09",),
            state="Ready",
            nodes=1,
            cordoned_nodes=0,
            gpus=DomainGpus(total=8, free=8, firm=0, low=0, changing=0, cordoned=0),
            flavors={},
            gangs=GangsThatFit(now=1, after_low=1, ever=1),
            holders=(),
            others=Others(0, 0),
        ),
    )
)


@dataclass(frozen=True, slots=True)
class TopologyMap(Shown):
    """The nodes that *pools* can use. These pools have the same topology *keys*.

    *all*: all the nodes, including those *apart*, and their domains: the coarsest level, or nodes if there are no keys.
    A gang that fits in *all* can spread over any nodes. *levels*: every level, coarse to fine, even if *all* is cut off
    above it.
    """

    pools: tuple[str, ...]
    keys: tuple[TopologyKey, ...]
    flavors: tuple[str, ...]
    levels: tuple[LevelReport, ...]
    all: DomainReport
    apart: tuple[UnlabelledNode, ...]


_ZONE = "topology.kubernetes.io/zone"

shown_as(
    TopologyMap(
        pools=("batch", "vision"),
        keys=(TopologyKey("zone", _ZONE), TopologyKey("rack", "topology.kubernetes.io/rack")),
        flavors=("default",),
        levels=(replace(_RACKS, key="zone", label=_ZONE), _RACKS),
        all=replace(_RACK, level=None, path=(), domains=(replace(_RACK, level="zone", path=("a",), domains=(_RACK,)),)),
        apart=(),
    )
)


@dataclass(frozen=True, slots=True)
class TopologyAnswer(Shown):
    """One map per list of topology keys that pools have; the map without keys is last."""

    size: GangSize | None
    maps: tuple[TopologyMap, ...]


shown_as(TopologyAnswer(example(GangSize), (example(TopologyMap),)))
