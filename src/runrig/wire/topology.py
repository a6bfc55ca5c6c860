"""The domains of the nodes: what is free in each, who holds the rest, and how many gangs of a size fit."""

from typing import Any

from runrig.domain.pools import TopologyKey
from runrig.wire.base import Answer, example, example_of


class DomainGpusAnswer(Answer):
    """GPUs.  *total* is the sum of the others, but where a node has fewer by now than its gangs hold.

    *firm*: held by HIGH and NORMAL; *low*: by LOW; *changing*: held by gangs that stop, or promised to gangs that wait for these;
    *cordoned*: held by nobody, on nodes that take no new pods; *free*: held by nobody, on all others.
    """

    model_config = example({"total": 32, "free": 8, "firm": 16, "low": 8, "changing": 0, "cordoned": 0})

    total: int
    free: int
    firm: int
    low: int
    changing: int
    cordoned: int


class DomainGangsAnswer(Answer):
    """How many gangs of the size asked for, all pods of each in one domain, as far as the GPUs of the nodes tell: quota, CPU and
    memory are not asked.

    *now*: beside all that is there; *after_low*: once all LOW, of every pool, and what stops already is gone; *ever*: on empty
    nodes that are all ready.
    """

    model_config = example({"now": 1, "after_low": 2, "ever": 4})

    now: int
    after_low: int
    ever: int


class GangSizeAnswer(Answer):
    """So many pods, each with so many GPUs."""

    model_config = example({"pods": 8, "gpus": 1})

    pods: int
    gpus: int


class HolderAnswer(Answer):
    """A gang, as workflow/group, and what it holds in the domain; with *state* NOMINATED what it is promised there.

    *state*: ADMITTED, STOPPING or NOMINATED.
    """

    model_config = example(
        {"gang": "train-1/main", "pool": "vision", "priority": "NORMAL", "state": "ADMITTED", "pods": 2, "gpus": 16}
    )

    gang: str
    pool: str
    priority: str
    state: str
    pods: int
    gpus: int


class OthersAnswer(Answer):
    """Gangs that hold something too and are not named, and their GPUs."""

    model_config = example({"gangs": 3, "gpus": 8})

    gangs: int
    gpus: int


_NODE: dict[str, Any] = {
    "level": None,
    "path": ["a", "r0", "n00"],
    "state": "Ready",
    "nodes": 1,
    "cordoned_nodes": 0,
    "gpus": {"total": 8, "free": 8, "firm": 0, "low": 0, "changing": 0, "cordoned": 0},
    "flavors": {},
    "gangs": {"now": 1, "after_low": 1, "ever": 1},
    "holders": [],
    "others": {"gangs": 0, "gpus": 0},
    "domains": [],
}
_RACK: dict[str, Any] = {
    "level": "rack",
    "path": ["a", "r0"],
    "state": None,
    "nodes": 4,
    "cordoned_nodes": 0,
    "gpus": DomainGpusAnswer.example(),
    "flavors": {},
    "gangs": DomainGangsAnswer.example(),
    "holders": [HolderAnswer.example()],
    "others": OthersAnswer.example(),
    "domains": [],
}


class DomainAnswer(Answer):
    """A domain, a node, or all nodes together.

    *level*: the key; null of a node, and of all nodes.  *path*: the values of the labels, coarse to fine, a node's name behind.
    *state*: of a node: Ready; NotReady, also where it is cordoned; Tainted, which its flavor does not tolerate.  *cordoned_nodes*:
    how many nodes take no new pods.  *flavors*: GPUs by flavor, empty where all nodes are of one.  *gangs*: null without a size.
    *holders*: those with most GPUs.  *domains*: the next level, or nodes where these are asked for.
    """

    model_config = example(_RACK)

    level: str | None
    path: list[str]
    state: str | None
    nodes: int
    cordoned_nodes: int
    gpus: DomainGpusAnswer
    flavors: dict[str, DomainGpusAnswer]
    gangs: DomainGangsAnswer | None
    holders: list[HolderAnswer]
    others: OthersAnswer
    domains: list["DomainAnswer"]


class LevelAnswer(Answer):
    """*gangs*: each inside one domain of this level, summed over its *domains*; null without a size."""

    model_config = example(
        {**example_of(TopologyKey), "domains": 1, "gangs": DomainGangsAnswer.example()},
    )

    key: str
    label: str
    domains: int
    gangs: DomainGangsAnswer | None


class ApartAnswer(Answer):
    """A node that *lacks* labels of the keys: gangs with topology requirements do not go there (law T1)."""

    model_config = example({"lacks": ["topology.kubernetes.io/rack"], "node": _NODE | {"path": ["n09"]}})

    lacks: list[str]
    node: DomainAnswer


_ALL = _RACK | {"level": None, "path": [], "domains": [_RACK | {"level": "zone", "path": ["a"], "domains": [_RACK]}]}
_ZONE = {"key": "zone", "label": "topology.kubernetes.io/zone"}
_MAP: dict[str, Any] = {
    "pools": ["batch", "vision"],
    "keys": [_ZONE, example_of(TopologyKey)],
    "flavors": ["default"],
    "levels": [LevelAnswer.example() | _ZONE, LevelAnswer.example()],
    "all": _ALL,
    "apart": [],
}


class TopologyMapAnswer(Answer):
    """The nodes that *pools*, which have these *keys* in common, may use.

    *all*: every one of them, those *apart* too; in it the domains of the coarsest level, or nodes where there are no keys; its
    gangs may lie anywhere.  *levels*: all of them, coarse to fine, whatever is shown.
    """

    model_config = example(_MAP)

    pools: list[str]
    keys: list[TopologyKey]
    flavors: list[str]
    levels: list[LevelAnswer]
    all: DomainAnswer
    apart: list[ApartAnswer]


class TopologyAnswer(Answer):
    """One map for each list of keys that pools have, those without keys last."""

    model_config = example({"size": GangSizeAnswer.example(), "maps": [_MAP]})

    size: GangSizeAnswer | None
    maps: list[TopologyMapAnswer]
