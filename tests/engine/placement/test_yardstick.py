"""The yardstick itself: it detects each kind of error, and counts as docs/placement.md describes."""

from dataclasses import replace
from typing import Any

import pytest

from runrig.domain.gangs import Assignment, NodeShare, Placement, PodSet, Requirement
from runrig.domain.nodes import Flavor, Node, Taint
from runrig.domain.pools import TopologyKey
from runrig.domain.quantities import CPU, GPU, requests_of
from tests.engine.placement.problem import Problem
from tests.engine.placement.yardstick import Yardstick, faults, measure, placement_of

BIG, SMALL = Flavor("big", taints=(Taint("reserved"),)), Flavor("small")
KEYS = (TopologyKey("zone", "z"), TopologyKey("rack", "r"))


def node(name: str, zone: str, rack: str, flavor: str = "big", **more: Any) -> Node:
    return replace(Node(name, {GPU: 4, CPU: 4000}, flavor, {"z": zone, "r": rack}), **more)


NODES = (
    node("a0", "a", "r0", taints=(Taint("reserved"),)),
    node("a1", "a", "r0"),
    node("a2", "a", "r1"),
    node("b0", "b", "r0"),
    node("down", "a", "r0", ready=False),
    node("tainted", "a", "r0", taints=(Taint("other"),)),
    node("small", "a", "r0", "small"),
    node("bare", "a", "r0", labels={"z": "a"}),
)
A = PodSet("a", 4, requests_of({GPU: 1, CPU: 1000}), platform="big", topology=(Requirement("rack"),))
B = PodSet("b", 2, requests_of({GPU: 1}), topology=(Requirement("rack", "other"),))
PROBLEM = Problem(NODES, (A, B), KEYS, {"a1": {GPU: 3, CPU: 3000}}, (BIG, SMALL))


def on(a: str, b: str) -> Placement:
    """The nodes of the pods of a and b in order."""
    return placement_of(PROBLEM, [a.split(), b.split()])


def test_a_valid_placement_has_no_errors() -> None:
    assert faults(PROBLEM, on("a0 a0 a0 a0", "a2 a2")) == []
    assert faults(PROBLEM, on("a0 a0 a1 a0", "small small")) == []


ILLEGAL = {
    "too few pods": (on("a0 a0 a0", "a2 a2"), "a has count 3 and 3 pods in shares, of 4"),
    "full of GPUs": (on("a0 a0 a0 a0", "a1 a1"), "a1 has 1 of gpu, and 2 are on it"),
    "full of cores": (on("a0 a0 a1 a1", "a2 a2"), "a1 has 1000 of cpu, and 2000 are on it"),
    "not ready": (on("a0 a0 a0 down", "a2 a2"), "a cannot be on down"),
    "a taint that its flavor does not name": (on("a0 a0 a0 tainted", "a2 a2"), "a cannot be on tainted"),
    "another platform": (on("small small small small", "a2 a2"), "a cannot be on small"),
    "two flavors": (on("a0 a0 a0 a0", "a1 small"), "b was granted big, and small is small"),
    "no label": (on("a0 a0 a0 a0", "bare bare"), "b cannot be on bare"),
    "a node that is not there": (
        (on("a0 a0 a0 a0", "a2 a2")[0], Assignment("b", "big", 2, (NodeShare("x", 2),))),
        "b cannot be on x",
    ),
    "two racks": (on("a0 a0 a2 a2", "a2 a2"), "(1, (), 'default', None) is in [('a', 'r0'), ('a', 'r1')]"),
    "two racks of one name": (on("a0 a0 b0 b0", "a2 a2"), "(1, (), 'default', None) is in [('a', 'r0'), ('b', 'r0')]"),
}


@pytest.mark.parametrize("kind", ILLEGAL)
def test_an_invalid_placement_is_detected(kind: str) -> None:
    placement, sentence = ILLEGAL[kind]
    assert sentence in faults(PROBLEM, placement)


def test_gpus_of_others_and_duplicate_gpus_are_detected() -> None:
    a = Assignment("a", "big", 4, (NodeShare("a0", 4, (0, 1, 2, 3)),))
    b = Assignment("b", "big", 2, (NodeShare("a1", 1, (0,)), NodeShare("a0", 1, (0,))))
    assert faults(PROBLEM, (a, b)) == [
        "a0 has 4 of gpu, and 5 are on it",
        "GPUs [0, 0, 1, 2, 3] of a0, where [0, 1, 2, 3] are free",
        "GPUs [0] of a1, where [3] are free",
    ]


def test_pods_fill_shares_in_order_so_slices_may_cross_them() -> None:
    sliced = replace(A, topology=(Requirement("rack", slice_size=2),))
    problem = replace(PROBLEM, pod_sets=(sliced,))
    assert faults(problem, placement_of(problem, [["a0", "a0", "b0", "b0"]])) == []
    assert faults(problem, placement_of(problem, [["a0", "b0", "b0", "a0"]])) == [
        "(1, (), 'default', ('a', 0)) is in [('a', 'r0'), ('b', 'r0')]",
        "(1, (), 'default', ('a', 1)) is in [('a', 'r0'), ('b', 'r0')]",
    ]


def test_lost_levels_are_counted_per_level_and_domains_at_their_own_level() -> None:
    wishes = (
        replace(A, topology=(Requirement("zone", "z", False), Requirement("rack", "x", False))),
        replace(B, topology=(Requirement("zone", "z", False), Requirement("rack", "y", False))),
    )
    problem = replace(PROBLEM, pod_sets=wishes)
    # Zone group: one zone. x: two racks of zone a. y: one rack.
    assert measure(problem, [["a0", "a0", "a2", "a2"], ["a2", "a2"]]) == Yardstick((0, 1), 1 + 2 + 1, 2)
    # Zone group: two zones. x: two zones, and so two racks. y: one rack.
    assert measure(problem, [["a0", "a0", "b0", "b0"], ["b0", "b0"]]) == Yardstick((1, 2), 2 + 2 + 1, 2)


def test_without_preferences_the_finest_domains_count_and_an_unlabelled_node_is_one() -> None:
    problem = replace(PROBLEM, pod_sets=(replace(A, topology=()), replace(B, topology=())))
    assert measure(problem, [["a0", "a0", "a2", "b0"], ["bare", "a1"]]) == Yardstick((0, 0), 4, 5)
