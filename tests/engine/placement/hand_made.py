"""Small cases in which a search without backtracking fails, with answers worked out by hand. cluster("a/r0: 4 4 | b/r0:
2+6") means two racks of zones a and b, with nodes n0, n1 of 4 GPUs and n2 with 2 GPUs and 6 cores. A "-" before a node
cordons it. task("a", 4, "1+2", "zone=z", "rack~r", "rack=r/2") means 4 pods of 1 GPU and 2 cores; = is required, ~
preferred, /2 in slices of two.
"""

import re
from dataclasses import dataclass, replace

from runrig.domain.gangs import PodSet, Requirement
from runrig.domain.nodes import Flavor, Node
from runrig.domain.pools import TopologyKey
from runrig.domain.quantities import CPU, GPU, requests_of
from tests.engine.placement.problem import Problem
from tests.engine.placement.yardstick import Yardstick


@dataclass(frozen=True, slots=True)
class Case:
    """*best*: None if there is no valid placement."""

    name: str
    problem: Problem
    best: Yardstick | None


def _amounts(words: str) -> dict[str, int]:
    gpus, _, cores = words.partition("+")
    return {GPU: int(gpus)} | ({CPU: int(cores) * 1000} if cores else {})


def _cluster(words: str) -> tuple[tuple[TopologyKey, ...], tuple[Node, ...]]:
    nodes: list[Node] = []
    keys: tuple[TopologyKey, ...] = ()
    for rack in words.split("|"):
        path, _, rooms = rack.partition(":")
        *zone, name = path.strip().split("/")
        labels = {"zone": zone[0]} if zone else {}
        keys = keys or tuple(TopologyKey(key, key) for key in [*labels, "rack"])
        if name:
            labels["rack"] = name
        nodes += [
            Node(f"n{len(nodes) + at}", _amounts(room.strip("-")), labels=labels, ready=not room.startswith("-"))
            for at, room in enumerate(rooms.split())
        ]
    return keys, tuple(nodes)


def _task(name: str, count: int, amounts: str, *asked: str) -> PodSet:
    return PodSet(name, count, requests_of(_amounts(amounts)), topology=tuple(map(_requirement, asked)))


def _requirement(words: str) -> Requirement:
    match = re.fullmatch(r"(\w+)([=~])(\w+)(?:/(\d+))?", words)
    assert match, words
    key, kind, group, size = match.groups()
    return Requirement(key, group, kind == "=", int(size) if size else None)


def _case(name: str, cluster: str, *pod_sets: PodSet, best: tuple[tuple[int, ...], int, int] | None) -> Case:
    keys, nodes = _cluster(cluster)
    return Case(name, Problem(nodes, pod_sets, keys), best and Yardstick(*best))


def _with_flavors(case: Case, small: set[str]) -> Case:
    """The nodes *small* have a flavor of that name, the others the flavor big, which comes first."""
    flavor_of = {node.name: "small" if node.name in small else "big" for node in case.problem.nodes}
    nodes = tuple(replace(node, flavor=flavor_of[node.name], labels={**node.labels, "kind": flavor_of[node.name]})
                  for node in case.problem.nodes)  # fmt: skip
    flavors = tuple(Flavor(name, {"kind": name}, position=at) for at, name in enumerate(("big", "small")))
    return replace(case, problem=replace(case.problem, nodes=nodes, flavors=flavors))


CASES = (
    # Filling the tightest node first puts the 3 on the node of 4, and then one 2 does not fit. 3+2 on n0 and 2+2
    # on n1 works.
    _case("the tightest node is wrong", "r0: 5 4", _task("three", 1, "3"), _task("two", 3, "2"), best=((0,), 1, 2)),
    # Both racks have 4 free, but only r0 has them on one node. So the small pods must go to r1, whichever comes
    # first.
    _case(
        "the small pods leave the large node to the large pod",
        "r0: 4 | r1: 1 1 1 1",
        _task("small", 4, "1", "rack=s"),
        _task("large", 1, "4", "rack=l"),
        best=((0,), 2, 5),
    ),
    # Zone a has one GPU more than zone b. Each group needs a rack of 4, and zone a has only one.
    _case(
        "the fuller zone is right",
        "a/r0: 3 | a/r1: 4 | a/r2: 2 | b/r0: 4 | b/r1: 4",
        _task("one", 4, "1", "zone=z", "rack=r1"),
        _task("two", 4, "1", "zone=z", "rack=r2"),
        best=((0, 0), 2, 2),
    ),
    # r0 has 5 GPUs and 5 cores, but fits only two pods: one on each node.
    _case(
        "sums over a rack say nothing",
        "r0: 4+1 1+4 | r1: 1+1 1+1 1+1",
        _task("a", 3, "1+1", "rack=r"),
        best=((0,), 1, 3),
    ),
    # Four pods that prefer a rack: no rack fits them. Zone a needs two racks, zone b four.
    _case(
        "a preferred rack falls back to a zone, with few racks",
        "b/r0: 1 | b/r1: 1 | b/r2: 1 | b/r3: 1 | a/r0: 2 | a/r1: 2",
        _task("a", 4, "1", "rack~r"),
        best=((0, 1), 2, 2),
    ),
    # 9 GPUs are free for 6 pods, but only one slice of three finds a rack.
    _case(
        "slices of three do not fit racks of two", "r0: 2 | r1: 2 | r2: 5", _task("a", 6, "1", "rack=r/3"), best=None
    ),
    # The last slice has two pods: the rack of 3 must be left to the first one.
    _case("the last slice is the shorter one", "r0: 2 | r1: 3", _task("a", 5, "1", "rack=r/3"), best=((0,), 2, 2)),
    # Slices of 2 in racks, all in one zone: zone a has 6 GPUs, but only the racks of zone b fit three slices.
    _case(
        "slices inside a zone",
        "a/r0: 3 | a/r1: 3 | b/r0: 2 | b/r1: 2 | b/r2: 2",
        _task("a", 6, "1", "zone=z", "rack=r/2"),
        best=((0, 0), 3, 3),
    ),
    # Slices of two in zones: a rack is then required for each slice, not for all four pods together.
    _case(
        "a finer level holds for each slice",
        "a/r0: 2 | a/r1: 1 | b/r0: 1 | b/r1: 2",
        _task("a", 4, "1", "zone=z/2", "rack=r"),
        best=((0, 0), 2, 2),
    ),
    # Rack r0 of zone a and rack r0 of zone b are different racks.
    _case("racks of one name in two zones", "a/r0: 2 | b/r0: 2", _task("a", 4, "1", "rack=r"), best=None),
    # Group r of zone group z1 is not group r of zone group z2, so they may be in different zones.
    _case(
        "groups of one name in two zones",
        "a/r0: 2 | b/r0: 2",
        _task("a", 2, "1", "zone=z1", "rack=r"),
        _task("b", 2, "1", "zone=z2", "rack=r"),
        best=((0, 0), 2, 2),
    ),
    # All free GPUs are on a node without a rack, which cannot meet a requirement.
    _case("a node without a label", "a/r0: 1 | a/: 8", _task("a", 2, "1", "zone~z"), best=None),
    # b has no requirement, and must leave r0 to a; as a subgroup it prefers to stay together, in r1.
    _case(
        "who asks for nothing gives way",
        "r0: 4 | r1: 2 | r2: 1 1",
        _task("b", 2, "1"),
        _task("a", 4, "1", "rack=r"),
        best=((0,), 1, 2),
    ),
    # r1 is large enough only with its cordoned node.
    _case("a cordoned node", "r0: 3 | r1: 2 -2", _task("a", 4, "1", "rack=r"), best=None),
    # Three different groups in exactly three racks: only one of the six assignments works.
    _case(
        "one way in six",
        "r0: 2 2 | r1: 1 3 | r2: 4",
        _task("pairs", 2, "2", "rack=p"),
        _task("four", 1, "4", "rack=f"),
        _task("one", 1, "1", "rack=o"),
        _task("three", 1, "3", "rack=o"),
        best=((0,), 3, 5),
    ),
    # Both racks have 5 GPUs. r0 has three of one flavor and two of the other; only r1 has 4 of one flavor.
    _with_flavors(
        _case("one flavor per pod set", "r0: 2 1 2 | r1: 1 4", _task("a", 4, "1", "rack=r"), best=((0,), 1, 1)),
        small={"n2", "n4"},
    ),
    # One GPU of each flavor for two pods with the same request: each pod set gets its own.
    _with_flavors(
        _case(
            "two alike pod sets of two flavors",
            "r0: 1 1",
            _task("a", 1, "1", "rack=r"),
            _task("b", 1, "1", "rack=r"),
            best=((0,), 1, 2),
        ),
        small={"n1"},
    ),
)
