"""The topology report: for a cluster written by hand, and compared with brute force (rules T1, T5)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import astuple, replace
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runrig.domain.gangs import Assignment, Gang, GangState, Law, NodeShare, PodSet, Priority, Requirement
from runrig.domain.nodes import Flavor, Node, Taint
from runrig.domain.plan import Admit, Nominate, Preempt, Queue, Release, Stop
from runrig.domain.pools import HOSTNAME, Pool, Quota, TopologyKey
from runrig.domain.quantities import GPU, FlavorResource, requests_of
from runrig.domain.shown.topology import (
    DomainGpus,
    DomainReport,
    GangSize,
    GangsThatFit,
    Holder,
    LevelReport,
    Others,
    TopologyMap,
)
from runrig.domain.workflows import Status
from runrig.engine.explain.topology_columns import TopologyQuestion
from runrig.engine.explain.topology_report import topology_report
from runrig.engine.ledger.fit import find_place
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.preemption.targets import find_targets
from runrig.engine.quota.quota_node import CHARGED
from tests.properties.ledgers import portrait
from tests.worlds.engine import World

ZONE, RACK = TopologyKey("zone", "z"), TopologyKey("rack", "r")
KEYS = (ZONE, RACK)
HIGH, NORMAL, LOW = Priority.HIGH, Priority.NORMAL, Priority.LOW


def ledger_of(*nodes: Node, flavors: Sequence[Flavor] = (Flavor("default"),)) -> Ledger:
    ledger = Ledger()
    ledger.set_flavors(flavors)
    for node in nodes:
        ledger.put_node(node)
    quotas = {FlavorResource(each.name, GPU): Quota(1000) for each in flavors}
    ledger.put_pool(Pool("p", quotas, topology_keys=KEYS))
    return ledger


def node(name: str, rack: str, gpus: int = 8, **more: Any) -> Node:
    """In the zone named by the first letter of its rack."""
    return Node(name, {GPU: gpus}, labels={"z": f"z{rack[0]}", "r": rack[1:]}, **more)


def run(
    ledger: Ledger, name: str, priority: Priority, on: dict[str, int], gpus: int = 1, flavor: str = "default"
) -> None:
    """Admitted with this many pods on each node, each with *gpus* GPUs."""
    gang = Gang(name, "p", priority, 1.0, (PodSet("a", sum(on.values()), requests_of({GPU: gpus})),))
    ledger.apply(Queue(gang), 0.0)
    ledger.apply(Admit(name, placed(gang, on, flavor)), 1.0)


def placed(gang: Gang, on: dict[str, int], flavor: str = "default") -> tuple[Assignment, ...]:
    shares = tuple(NodeShare(name, pods) for name, pods in on.items())
    return (Assignment("a", flavor, sum(on.values()), shares),)


def rows(view: DomainReport) -> Iterator[DomainReport]:
    """All domains of a tree, top down."""
    yield view
    for each in view.domains:
        yield from rows(each)


def gpus_of(found: TopologyMap) -> dict[tuple[str, ...], DomainGpus]:
    return {each.path: each.gpus for each in rows(found.all)}


# ---------------------------------------------------------------- hand-made clusters


def drawn() -> Ledger:
    """Rack 0 exists in two zones, as two racks; one node is cordoned, one is tainted, one has no rack."""
    ledger = ledger_of(
        node("n0", "a0"),
        node("n1", "a0"),
        node("n2", "a1", ready=False),
        node("n3", "b0"),
        node("n4", "b0", taints=(Taint("dedicated", "x"),)),
        Node("n5", {GPU: 4}, labels={"z": "zb"}),
    )
    run(ledger, "firm-1/g", NORMAL, {"n0": 4, "n2": 2})
    run(ledger, "low-1/g", LOW, {"n0": 1, "n1": 1}, gpus=2)
    run(ledger, "low-2/g", LOW, {"n3": 8, "n5": 1})
    return ledger


def test_every_gpu_of_a_domain_is_counted_once() -> None:
    found = topology_report(drawn(), KEYS, ["default"])
    assert gpus_of(found) == {
        (): DomainGpus(44, 11, 6, 13, 0, 14),
        ("za",): DomainGpus(24, 8, 6, 4, 0, 6),
        ("za", "0"): DomainGpus(16, 8, 4, 4, 0, 0),
        ("za", "1"): DomainGpus(8, 0, 2, 0, 0, 6),
        ("zb",): DomainGpus(16, 0, 0, 8, 0, 8),
        ("zb", "0"): DomainGpus(16, 0, 0, 8, 0, 8),
    }
    assert [(each.nodes, each.cordoned_nodes, each.state) for each in rows(found.all)] == [
        (6, 2, None),
        (3, 1, None),
        (2, 0, None),
        (1, 1, None),
        (2, 1, None),
        (2, 1, None),
    ]


def test_the_largest_gangs_of_a_domain_are_named_and_the_others_counted() -> None:
    ledger = drawn()
    holders = {each.path: (each.holders, each.others) for each in rows(topology_report(ledger, KEYS, ["default"]).all)}
    firm = Holder("firm-1/g", "p", "NORMAL", GangState.ADMITTED, 4, 4)
    assert holders["za", "0"] == ((firm, Holder("low-1/g", "p", "LOW", GangState.ADMITTED, 2, 4)), Others(0, 0))
    only = topology_report(ledger, KEYS, ["default"], TopologyQuestion(holders=1))
    assert (only.all.holders, only.all.others) == (
        (Holder("low-2/g", "p", "LOW", GangState.ADMITTED, 9, 9),),
        Others(2, 10),
    )
    none = topology_report(ledger, KEYS, ["default"], TopologyQuestion(holders=0))
    assert (none.all.holders, none.all.others) == ((), Others(3, 19))


def test_a_node_without_a_label_is_listed_with_the_missing_label() -> None:
    found = topology_report(drawn(), KEYS, ["default"])
    (apart,) = found.apart
    assert (apart.lacks, apart.node.path, apart.node.gpus, apart.node.state) == (
        ("r",),
        ("n5",),
        DomainGpus(4, 3, 0, 1, 0, 0),
        "Ready",
    )
    host = TopologyKey("host", HOSTNAME)
    assert [each.lacks for each in topology_report(drawn(), (ZONE, RACK, host), ["default"]).apart] == [("r",)]


def test_nodes_are_shown_on_request_and_always_without_keys() -> None:
    states = {"n0": "Ready", "n1": "Ready", "n2": "NotReady", "n3": "Ready", "n4": "Tainted"}
    below = topology_report(drawn(), KEYS, ["default"], TopologyQuestion(nodes=True))
    assert {each.path[-1]: each.state for each in rows(below.all) if each.state} == states
    assert [each.path for each in rows(below.all) if each.level is None] == [
        (),
        ("za", "0", "n0"),
        ("za", "0", "n1"),
        ("za", "1", "n2"),
        ("zb", "0", "n3"),
        ("zb", "0", "n4"),
    ]
    flat = topology_report(drawn(), (), ["default"])
    assert {each.path[-1]: each.state for each in flat.all.domains} == states | {"n5": "Ready"}
    assert (flat.levels, flat.apart) == ((), ())
    hosts = topology_report(drawn(), (RACK, TopologyKey("host", HOSTNAME)), ["default"], TopologyQuestion(nodes=True))
    assert {each.level for each in rows(hosts.all)} == {None, "rack", "host"}, (
        "a level of hosts shows the nodes already"
    )


def test_levels_below_the_requested_one_are_only_summed() -> None:
    found = topology_report(drawn(), KEYS, ["default"], TopologyQuestion(GangSize(8, 1), depth=1))
    assert [each.path for each in rows(found.all)] == [(), ("za",), ("zb",)]
    assert found.levels == (
        LevelReport("zone", "z", 2, GangsThatFit(1, 2, 4)),
        LevelReport("rack", "r", 3, GangsThatFit(1, 2, 4)),
    )


def test_a_gang_uses_one_flavor_and_gpus_are_listed_by_flavor() -> None:
    flavors = (Flavor("h100"), Flavor("b200"), Flavor("other"))
    nodes = (
        node("n0", "a0", 6, flavor="h100"),
        node("n1", "a0", 6, flavor="b200"),
        node("n2", "a1", 8, flavor="b200"),
        node("n3", "b0", 8, flavor="other"),
    )
    ledger = ledger_of(*nodes, flavors=flavors)
    run(ledger, "w-1/g", NORMAL, {"n1": 2}, flavor="b200")
    run(ledger, "w-2/g", NORMAL, {"n3": 8}, flavor="other")
    found = topology_report(ledger, KEYS, ["h100", "b200", "none"], TopologyQuestion(GangSize(5, 1)))
    assert found.flavors == ("b200", "h100")
    assert {each.path: (each.flavors, each.gangs) for each in rows(found.all)} == {
        (): ({"b200": DomainGpus(14, 12, 2, 0, 0, 0), "h100": DomainGpus(6, 6, 0, 0, 0, 0)}, GangsThatFit(3, 3, 3)),
        ("za",): (
            {"b200": DomainGpus(14, 12, 2, 0, 0, 0), "h100": DomainGpus(6, 6, 0, 0, 0, 0)},
            GangsThatFit(3, 3, 3),
        ),
        ("za", "0"): (
            {"b200": DomainGpus(6, 4, 2, 0, 0, 0), "h100": DomainGpus(6, 6, 0, 0, 0, 0)},
            GangsThatFit(1, 1, 2),
        ),
        ("za", "1"): ({"b200": DomainGpus(8, 8, 0, 0, 0, 0)}, GangsThatFit(1, 1, 1)),
    }
    assert [each.domains for each in found.levels] == [1, 2]
    assert [each.gang for each in found.all.holders] == ["w-1/g"]
    assert topology_report(ledger, KEYS, ["h100"]).all.flavors == {}


def test_reserved_gpus_are_counted_once_and_only_for_their_gang() -> None:
    """All of n0 is used by LOW that stops for a gang nominated to half of it; the other half becomes free later (rule
    R4).
    """
    ledger = ledger_of(node("n0", "a0"), node("n1", "a0"))
    run(ledger, "low-1/g", LOW, {"n0": 8})
    run(ledger, "low-2/g", LOW, {"n1": 4})
    gang = Gang("high-1/g", "p", HIGH, 2.0, (PodSet("a", 4, requests_of({GPU: 1})),))
    ledger.apply(Queue(gang), 2.0)
    ledger.apply(Nominate("high-1/g", placed(gang, {"n0": 4}), ("low-1/g",)), 2.0)
    ledger.apply(Preempt("low-1/g", "high-1/g", Law.PRIORITY), 2.0)
    found = topology_report(ledger, KEYS, ["default"], TopologyQuestion(GangSize(4, 1), nodes=True))
    assert gpus_of(found) == {
        (): DomainGpus(16, 4, 0, 4, 8, 0),
        ("za",): DomainGpus(16, 4, 0, 4, 8, 0),
        ("za", "0"): DomainGpus(16, 4, 0, 4, 8, 0),
        ("za", "0", "n0"): DomainGpus(8, 0, 0, 0, 8, 0),
        ("za", "0", "n1"): DomainGpus(8, 4, 0, 4, 0, 0),
    }
    assert found.all.gangs == GangsThatFit(1, 3, 4)
    assert [(each.gang, each.state.value, each.gpus) for each in found.all.holders] == [
        ("low-1/g", "STOPPING", 8),
        ("high-1/g", "NOMINATED", 4),
        ("low-2/g", "ADMITTED", 4),
    ]


@pytest.mark.parametrize(
    ("firm", "low", "left", "gpus", "fit"),
    [
        (4, 4, 4, DomainGpus(4, 0, 4, 4, 0, 0), GangsThatFit(0, 0, 4)),
        (8, 0, 4, DomainGpus(4, 0, 8, 0, 0, 0), GangsThatFit(0, 0, 4)),
        (2, 6, 4, DomainGpus(4, 0, 2, 6, 0, 0), GangsThatFit(0, 2, 4)),
        (0, 8, None, DomainGpus(0, 0, 0, 8, 0, 0), GangsThatFit(0, 0, 0)),
    ],
)
def test_a_node_with_fewer_gpus_than_in_use(
    firm: int, low: int, left: int | None, gpus: DomainGpus, fit: GangsThatFit
) -> None:
    """*left* None: it no longer lists GPUs."""
    ledger = ledger_of(node("n0", "a0"))
    run(ledger, "firm-1/g", NORMAL, {"n0": firm})
    run(ledger, "low-1/g", LOW, {"n0": low})
    changed = node("n0", "a0", left or 0)
    ledger.put_node(changed if left is not None else replace(changed, resources={"cpu": 1000}))
    found = topology_report(ledger, KEYS, ["default"], TopologyQuestion(GangSize(1, 1)))
    assert (found.all.gpus, found.all.gangs) == (gpus, fit)


def test_a_report_changes_nothing() -> None:
    world = World({"p": 8}, {"n0": 8, "n1": 8})
    for name, priority in (("a", NORMAL), ("b", LOW), ("c", NORMAL)):
        world.submit(name, "p", priority, gpus=4)
        world.cycle()
    before = portrait(world.state)
    topology_report(world.state.ledger, KEYS, ["default"], TopologyQuestion(GangSize(2, 2), nodes=True))
    assert portrait(world.state) == before


# ---------------------------------------------------------------- compared with brute force


@st.composite
def clusters(draw: st.DrawFn) -> Ledger:
    """Up to 8 nodes of two flavors, some cordoned, tainted or unlabelled, with gangs of both kinds in all states."""
    flavors = (Flavor("one"), Flavor("two", taints=(Taint("t"),)))
    nodes = []
    for at in range(draw(st.integers(0, 8))):
        labels = {"z": draw(st.sampled_from("ab")), "r": draw(st.sampled_from("xy"))}
        lacks = draw(st.sampled_from(["", "", "", "z", "r"]))
        nodes.append(
            Node(
                f"n{at}",
                {GPU: draw(st.integers(0, 6))},
                draw(st.sampled_from(["one", "two"])),
                {name: value for name, value in labels.items() if name != lacks},
                draw(st.sampled_from([(), (), (Taint("t"),)])),
                draw(st.booleans()) or draw(st.booleans()),
            )
        )
    ledger = ledger_of(*nodes, flavors=flavors)
    for at in range(draw(st.integers(0, 6))):
        run_somewhere(draw, ledger, at)
    stoppable = sorted(ledger.entries)
    if stoppable:
        for name in draw(st.lists(st.sampled_from(stoppable), unique=True, max_size=2)):
            ledger.apply(Stop(name, Status.FAILED), 9.0)
    return ledger


def run_somewhere(draw: st.DrawFn, ledger: Ledger, at: int) -> None:
    """A gang of one flavor on any free nodes."""
    gpus, flavor = draw(st.integers(1, 3)), draw(st.sampled_from(["one", "two"]))
    on = {}
    for name, room in ledger.nodes.by_name.items():
        most = min(2, room.pods(((GPU, gpus),), CHARGED)) if room.node.flavor == flavor else 0
        if pods := draw(st.integers(0, most)):
            on[name] = pods
    if on:
        run(ledger, f"w-{at}/g", draw(st.sampled_from([NORMAL, LOW])), on, gpus, flavor)


def packed(bins: Sequence[int], size: GangSize) -> int:
    """How many gangs fit on nodes with these free GPUs, placed pod by pod until one does not fit."""
    free, gangs = list(bins), 0
    while True:
        for _ in range(size.pods):
            at = next((at for at, left in enumerate(free) if left >= size.gpus), None)
            if at is None:
                return gangs
            free[at] -= size.gpus
        gangs += 1


def brute(ledger: Ledger, nodes: Sequence[Node], size: GangSize) -> GangsThatFit:
    held: Counter[str] = Counter()
    stays: Counter[str] = Counter()
    for entry in ledger.entries.values():
        for each, pod_set in zip(entry.placement, entry.gang.pod_sets, strict=True):
            for share in each.shares:
                gpus = share.count * dict(pod_set.requests)[GPU]
                held[share.node] += gpus
                if entry.state is GangState.ADMITTED and entry.gang.priority is NORMAL:
                    stays[share.node] += gpus

    def fit(taken: Counter[str], *, up: bool) -> int:
        total = 0
        for flavor in ("one", "two"):
            tolerated = [n for n in nodes if n.flavor == flavor and (flavor == "two" or not n.taints)]
            total += packed([n.resources[GPU] - taken[n.name] for n in tolerated if n.ready or up], size)
        return total

    return GangsThatFit(fit(held, up=False), fit(stays, up=False), fit(Counter(), up=True))


@settings(max_examples=150, deadline=None)
@given(clusters(), st.builds(GangSize, st.integers(1, 6), st.integers(1, 3)))
def test_the_number_of_gangs_that_fit_matches_brute_force(ledger: Ledger, size: GangSize) -> None:
    found = topology_report(ledger, KEYS, ["one", "two"], TopologyQuestion(size))
    nodes = [room.node for room in ledger.nodes.by_name.values()]
    labelled = [each for each in nodes if {"z", "r"} <= set(each.labels)]
    expected = {(): brute(ledger, nodes, size)}
    for depth in (1, 2):
        by_path = sorted(labelled, key=lambda each: (each.labels["z"], each.labels["r"]))
        for path, inner in groupby(by_path, key=lambda each: (each.labels["z"], each.labels["r"])[:depth]):
            expected[path] = brute(ledger, list(inner), size)
    assert {each.path: each.gangs for each in rows(found.all)} == expected
    for depth, level in enumerate(found.levels, start=1):
        of_level = [fit for path, fit in expected.items() if len(path) == depth]
        assert level.domains == len(of_level)
        assert (
            level.gangs == GangsThatFit(*map(sum, zip(*map(astuple, of_level), strict=True)))
            if of_level
            else GangsThatFit(0, 0, 0)
        )


@settings(max_examples=150, deadline=None)
@given(clusters())
def test_every_gpu_is_in_one_part_of_every_domain_and_every_holder_counts(ledger: Ledger) -> None:
    found = topology_report(ledger, KEYS, ["one", "two"], TopologyQuestion(nodes=True, holders=99))
    for view in (*rows(found.all), *(each.node for each in found.apart)):
        gpus = view.gpus
        assert gpus.total == gpus.free + gpus.firm + gpus.low + gpus.changing + gpus.cordoned
        by_state: Counter[str] = Counter()
        for each in view.holders:
            kind = each.priority if each.state is GangState.ADMITTED else "changing"
            by_state[kind] += each.gpus
        assert (by_state["NORMAL"], by_state["LOW"], by_state["changing"]) == (gpus.firm, gpus.low, gpus.changing)
        assert list(view.holders) == sorted(view.holders, key=lambda each: (-each.gpus, -each.pods, each.gang))
    for view in rows(found.all):
        outside = [each.node for each in found.apart] if not view.path else []
        parts = [*view.domains, *outside]
        if parts:
            assert view.nodes == sum(each.nodes for each in parts)
            assert view.gpus.free == sum(each.gpus.free for each in parts)
            assert view.gpus.total == sum(each.gpus.total for each in parts)


@settings(max_examples=150, deadline=None)
@given(clusters(), st.builds(GangSize, st.integers(1, 6), st.integers(1, 3)))
def test_a_gang_fits_exactly_where_the_engine_can_place_one(ledger: Ledger, size: GangSize) -> None:
    """Now without preemption; after LOW with targets, since all LOW belongs to the gang's own pool here (rule R1)."""
    found = topology_report(ledger, KEYS, ["one", "two"], TopologyQuestion(size))
    for key, fits in (("", found.all.gangs), *((each.key, each.gangs) for each in found.levels)):
        near = (Requirement(key),) if key else ()
        pods = PodSet("a", size.pods, requests_of({GPU: size.gpus}), topology=near)
        ledger.apply(Queue(Gang("new-1/g", "p", NORMAL, 9.0, (pods,))), 9.0)
        entry = ledger.entries["new-1/g"]
        now = find_place(ledger, entry, entry.bucket.counts) is not None
        after_low = now or find_targets(ledger, entry, entry.bucket.counts) is not None
        ledger.apply(Release("new-1/g"), 9.0)
        assert fits is not None
        assert (fits.now > 0, fits.after_low > 0) == (now, after_low), key
