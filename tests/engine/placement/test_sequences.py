"""Gangs start and end while nodes are cordoned, shrink, move and disappear. Each gets a valid placement, and the same
decision as from a newly built ledger (rules T1, T2, T4). `ChangingCluster` checks every decision.
"""

from dataclasses import replace

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from runrig.domain.gangs import PodSet, Priority, Requirement
from runrig.domain.nodes import Flavor, Node
from runrig.domain.plan import Admit
from runrig.domain.pools import HOSTNAME, TopologyKey
from runrig.domain.quantities import CPU, GPU, requests_of
from tests.engine.placement.changing_cluster import ChangingCluster
from tests.exploring import tries

KEYS = (TopologyKey("zone", "zone"), TopologyKey("rack", "rack"), TopologyKey("host", HOSTNAME))
FLAVORS = (Flavor("big", {"kind": "big"}), Flavor("small", {"kind": "small"}, position=1))
RACKS = (("a", "r0"), ("a", "r1"), ("b", "r0"), ("b", "r1"), ("b", ""))
NODES = tuple(f"n{at}" for at in range(9))
PRIORITIES = (Priority.NORMAL, Priority.LOW, Priority.HIGH)


def pods(name: str, count: int, gpus: int, *asked: Requirement, cores: int = 0, least: int | None = None) -> PodSet:
    requests = requests_of({GPU: gpus, CPU: cores * 1000})
    return PodSet(name, count, requests, least, topology=asked)


ZONE, RACK, NEAR = Requirement("zone"), Requirement("rack"), Requirement("rack", required=False)
SHAPES: tuple[tuple[PodSet, ...], ...] = (
    (pods("a", 1, 1),),
    (pods("a", 4, 1, RACK),),
    (pods("a", 2, 3, RACK),),
    (pods("a", 3, 2, ZONE),),
    (pods("a", 5, 1, NEAR),),
    (pods("a", 6, 1, ZONE, Requirement("rack", "own", slice_size=3)),),
    (pods("a", 3, 1, ZONE, Requirement("rack", "x")), pods("b", 1, 3, ZONE, Requirement("rack", "y"), cores=1)),
    (pods("a", 2, 1, RACK, cores=2), pods("b", 2, 0, cores=1)),
    (pods("a", 4, 1, Requirement("host", "own", slice_size=2)), pods("b", 2, 2, NEAR)),
    (pods("a", 6, 1, RACK, least=2),),
    (pods("a", 2, 2, Requirement("zone", "x", False)), pods("b", 2, 2, Requirement("zone", "y", False), least=1)),
    (pods("a", 2, 4),),
)


def node(name: str, gpus: int, rack: int, kind: int) -> Node:
    zone, inside = RACKS[rack % len(RACKS)]
    flavor = FLAVORS[kind % 4 == 3].name
    labels = {"zone": zone, "kind": flavor} | ({"rack": inside} if inside else {})
    return Node(name, {GPU: gpus % 6, CPU: 4000}, flavor, labels)


def new_site() -> ChangingCluster:
    sizes = (4, 2, 5, 1, 4, 3, 2)
    nodes = {f"n{at}": node(f"n{at}", gpus, at // 2, at) for at, gpus in enumerate(sizes)}
    return ChangingCluster(KEYS, FLAVORS, nodes)


# ---------------------------------------------------------------- steps


def do(site: ChangingCluster, step: str, which: int, how: int) -> None:
    """*which* and *how* select among what exists, so that every step can follow every other."""
    name = NODES[which % len(NODES)]
    standing = sorted(site.standing)
    match step:
        case "submit":
            site.submit(PRIORITIES[how % len(PRIORITIES)], SHAPES[which % len(SHAPES)])
        case "end" if standing:
            site.end(standing[which % len(standing)])
        case "ended":
            for gang in [gang for gang in standing if site.standing[gang].stopping]:
                site.end(gang)
        case "give up" if site.gangs:
            site.end(sorted(site.gangs)[which % len(site.gangs)])
        case "put":
            site.put(node(name, how, which, how // 6))
        case "cordon" if name in site.nodes:
            site.put(replace(site.nodes[name], ready=not site.nodes[name].ready))
        case "resize" if name in site.nodes:
            site.put(replace(site.nodes[name], resources={GPU: how % 6, CPU: 1000 * (how % 5)}))
        case "move" if name in site.nodes:
            site.put(node(name, site.nodes[name].resources[GPU], how, how))
        case "drop" if name in site.nodes:
            site.drop(name)
        case "cycle":
            site.cycle()
        case "probe":
            site.probe(SHAPES[which % len(SHAPES)])


PHASES = (Phase.explicit, Phase.generate, Phase.shrink)
NUMBERS = st.integers(0, 60)
STEPS = st.sampled_from(
    ["submit"] * 4
    + ["cycle"] * 4
    + ["probe"] * 2
    + ["end", "ended", "give up", "put", "cordon", "resize", "move", "drop"]
)


LAST = [("cycle", 0, 0), ("ended", 0, 0), ("cycle", 0, 0), *(("probe", at, 0) for at in range(len(SHAPES)))]


def run(steps: list[tuple[str, int, int]]) -> None:
    site = new_site()
    for step, which, how in [*steps, *LAST]:
        do(site, step, which, how)


@pytest.mark.explored
@settings(max_examples=tries(80), phases=PHASES)
@given(st.lists(st.tuples(STEPS, NUMBERS, NUMBERS), min_size=20, max_size=60))
def test_each_gang_gets_a_valid_placement_in_any_sequence_of_events(steps: list[tuple[str, int, int]]) -> None:
    run(steps)


@pytest.mark.soak
@settings(max_examples=2_000, phases=PHASES)
@given(st.lists(st.tuples(STEPS, NUMBERS, NUMBERS), min_size=20, max_size=120))
def test_each_gang_gets_a_valid_placement_in_long_sequences(steps: list[tuple[str, int, int]]) -> None:
    run(steps)


# ---------------------------------------------------------------- pinned


def admitted(site: ChangingCluster) -> list[str]:
    return [each.gang for each in site.cycle() if isinstance(each, Admit)]


def test_preemptors_may_mix_flavors_too() -> None:
    """Two pod sets with equal requests, and one GPU of each flavor: LOW uses the big one."""
    site = ChangingCluster(KEYS[:2], FLAVORS)
    for name, kind in (("n0", "big"), ("n1", "small")):
        site.put(Node(name, {GPU: 1}, kind, {"zone": "a", "rack": "r0", "kind": kind}))
    site.submit(Priority.LOW, (pods("a", 1, 1),))
    (low,) = admitted(site)
    site.submit(Priority.HIGH, (pods("a", 1, 1, RACK), pods("b", 1, 1, RACK)))
    assert admitted(site) == []
    assert site.standing[low].stopping
    site.end(low)
    assert admitted(site) == sorted(site.gangs)
