"""Partial admission: how many pods start on nodes, and the reasons of workloads that wait for their minimum size (rules
A1, T1, T5).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from runrig.domain.nodes import Node
from runrig.domain.pools import HOSTNAME
from runrig.kueue.declared import Policies, Slices, TopologyMode, TopologyRequest, Workload, WorkloadPodSet
from runrig.kueue.engine.simulator import Simulator
from tests.exploring import tries
from tests.kueue.engine.clusters import (
    ANYWHERE,
    ONE_RACK,
    TAKES_BACK,
    cluster,
    machine,
    pods,
    queue,
    waits,
)

OF_FOUR = TopologyRequest(TopologyMode.UNCONSTRAINED, "", (Slices(HOSTNAME, 4),))
LARGE = queue("q", gpu=99)


def counts(made: Simulator, cycle: int = 9) -> tuple[int, ...] | None:
    """Pods per pod set of the only workload that a cycle admits; None if it admits none."""
    admitted = made.cycle(float(cycle)).admitted
    return tuple(each.count for each in admitted[0].granted) if admitted else None


def said(made: Simulator, name: str = "w") -> list[str]:
    (waiting,) = (each for each in made.cycle(9.0).pending if each.workload == name)
    return [str(reason) for reason in waiting.reasons]


def hosts(number: int, gpus: int) -> list[Node]:
    return [machine(f"n{at}", f"r{at}", gpu=gpus) for at in range(number)]


# ---------------------------------------------------------------- number of pods


def test_counts_that_do_not_fill_slices_do_not_hide_those_that_do() -> None:
    """Of 16 to 5 pods, only 16, 12 and 8 fill slices of 4, and quota allows 12."""
    for least in (4, 5, 12):
        made = cluster(hosts(4, 4), [queue("q", gpu=12)], waits("w", "q", pods(16, OF_FOUR, least=least, gpu=1)))
        assert counts(made) == (12,)


def test_with_many_counts_those_that_fill_slices_are_tried_too() -> None:
    made = cluster(hosts(51, 4), [queue("q", gpu=999)], waits("w", "q", pods(400, OF_FOUR, least=3, gpu=1)))
    assert counts(made) == (204,)


def test_every_count_is_tried_because_fewer_pods_may_take_the_rack_of_the_next_pod_set() -> None:
    """5 workers go into the rack of small nodes. 4 would take the only large node, which the second pod set needs."""
    nodes = [machine("big", "r0", gpu=4), *(machine(f"n{at}", "r1", gpu=1) for at in range(5))]
    workers, server = pods(8, ONE_RACK, name="workers", least=4, gpu=1), pods(1, ONE_RACK, name="server", gpu=4)
    made = cluster(nodes, [LARGE], waits("w", "q", workers, server))
    assert counts(made) == (5, 1)


def test_a_leader_needs_no_slice() -> None:
    workers = pods(16, OF_FOUR, name="workers", least=5, group="g", gpu=1)
    leader = pods(1, OF_FOUR, name="leader", group="g", gpu=1)
    made = cluster([*hosts(2, 4), machine("n9", "r9", gpu=5)], [LARGE], waits("w", "q", workers, leader))
    assert counts(made) == (12, 1)


# ---------------------------------------------------------------- compared with brute force

topologies = st.builds(
    lambda mode, level, slices: TopologyRequest(
        TopologyMode.UNCONSTRAINED if mode is TopologyMode.SLICES and not slices else mode,
        level if mode in (TopologyMode.REQUIRED, TopologyMode.PREFERRED) else "",
        slices,
    ),
    st.sampled_from(TopologyMode),
    st.sampled_from(("rack", HOSTNAME)),
    st.sampled_from(((), (Slices(HOSTNAME, 2),), (Slices(HOSTNAME, 3),), (Slices("rack", 4),))),
)


@st.composite
def jobs(draw: st.DrawFn) -> Workload:
    made: list[WorkloadPodSet] = []
    for name in ("main", "rest")[: draw(st.sampled_from((1, 1, 2)))]:
        count = draw(st.sampled_from((1, 2, 4, 6, 8, 9, 12)))
        least = draw(st.sampled_from((1, max(1, count // 3), None) if made else (1, max(1, count // 3))))
        group = draw(st.sampled_from((None, None, "g")))
        near, gpus = draw(topologies), draw(st.sampled_from((1, 1, 1, 2)))
        made.append(pods(count, near, name=name, least=least, group=group, gpu=gpus))
    return waits("w", "q", *made, priority=1)


class Scene(NamedTuple):
    """Nodes of different sizes, with workloads of lower priority on some, and a queue that may or may not preempt them."""

    nodes: Sequence[Node]
    held: Sequence[Workload]
    quota: int
    policies: Policies

    def outcome(self, workload: Workload) -> tuple[list[tuple[int, ...]], list[str]]:
        """The counts with which *workload* starts, now or in the next cycle, and the workloads that it preempts."""
        made = cluster(self.nodes, [queue("q", policies=self.policies, gpu=self.quota)], *self.held)
        for cycle in range(len(self.held)):
            made.cycle(float(cycle))
        made.submit(workload)
        report = made.cycle(10.0)
        preempted = sorted(each.workload for each in report.preempted)
        if preempted:
            made.carry_out()
            report = made.cycle(11.0)
        started = [each.granted for each in report.admitted if each.workload == workload.name]
        return [tuple(each.count for each in granted) for granted in started], preempted


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    sizes = draw(st.lists(st.sampled_from((1, 1, 2, 3, 4, 5)), min_size=2, max_size=7))
    per_rack = draw(st.sampled_from((1, 2, 3)))
    nodes = [machine(f"n{at}", f"r{at // per_rack}", gpu=size) for at, size in enumerate(sizes)]
    held = [
        waits(f"x{at}", "q", pods(draw(st.integers(1, 3)), ANYWHERE, gpu=draw(st.sampled_from((1, 2)))))
        for at in range(draw(st.integers(0, 3)))
    ]
    policies = draw(st.sampled_from((Policies(), TAKES_BACK)))
    return Scene(nodes, held, draw(st.sampled_from((4, 6, 8, 10, 24))), policies)


def sizes_of(workload: Workload) -> list[tuple[int, ...]]:
    """Every size, the largest first, by rule A1: each pod set loses the same part of its range."""
    full = [pod_set.count for pod_set in workload.pod_sets]
    ranges = [0 if each.min_count is None else each.count - each.min_count for each in workload.pod_sets]
    steps = sum(ranges)
    return [
        tuple(count - part * step // max(steps, 1) for count, part in zip(full, ranges, strict=True))
        for step in range(steps + 1)
    ]


@pytest.mark.explored
@settings(max_examples=tries(60))
@given(scenes(), jobs())
def test_the_largest_size_that_would_start_alone_is_chosen(scene: Scene, workload: Workload) -> None:
    """A1, by brute force: each size as a workload of its own without a smaller minimum."""
    expected: tuple[list[tuple[int, ...]], list[str]] = ([], [])
    for size in sizes_of(workload):
        fixed = [replace(each, count=n, min_count=None) for each, n in zip(workload.pod_sets, size, strict=True)]
        expected = scene.outcome(replace(workload, pod_sets=tuple(fixed)))
        if expected != ([], []):
            break
    found = scene.outcome(workload)
    event("nothing" if not any(expected) else "whole" if expected[0] == sizes_of(workload)[:1] else "fewer")
    assert found == expected


# ---------------------------------------------------------------- messages


def test_reasons_give_the_needs_of_the_minimum_size() -> None:
    """8 are more than the queue can ever have; 3 start as soon as the other workload ends."""
    jobs = waits("h", "q", pods(3, gpu=1), priority=1), waits("w", "q", pods(8, least=3, gpu=1))
    made = cluster((), [queue("q", gpu=5)], *jobs)
    assert counts(made, 1) == (3,)
    assert said(made) == ["needs at least 3 GPUs, but queue q has only 2 GPUs left of its quota"]
    made.finish("h")
    assert counts(made, 10) == (5,)
