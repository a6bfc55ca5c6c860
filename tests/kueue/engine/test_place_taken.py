"""A workload whose nodes were taken earlier in the cycle is evaluated again in the current state (rules T1, A1, R4)."""

import pytest

from runrig.domain.kueue import Settings
from runrig.domain.nodes import Node
from runrig.domain.pools import HOSTNAME
from runrig.kueue.declared import NodeChoice, Policies
from tests.kueue.engine.clusters import (
    ANYWHERE,
    ONE_HOST,
    ONE_RACK,
    TAKES_BACK,
    cluster,
    decided,
    flavor,
    machine,
    outcome,
    pods,
    queue,
    runs,
    waits,
)

NOBODY = Policies()
Q, P = queue("q", cpu=99), queue("p", cpu=99)


def hosts(*cpu: int, rack: str = "r1") -> list[Node]:
    return [machine(f"n{at}", rack, cpu=amount) for at, amount in enumerate(cpu)]


FIRST = waits("first", "q", pods(4, ONE_HOST, cpu=1), priority=10)
SECOND = waits("second", "p", pods(4, ONE_HOST, cpu=1), priority=5, at=20)
STARTS = {"first": {"main": {"n0": 4}}}


def test_it_preempts_in_the_same_cycle() -> None:
    low = runs("low", "p", pods(4, ANYWHERE, cpu=1), {"n1": 4})
    made = cluster(hosts(4, 4), [Q, P], low, FIRST, SECOND)
    assert decided(made) == outcome(STARTS, {"low": ("second", "InClusterQueue")})
    made.carry_out()
    assert decided(made)["starts"] == {"second": {"main": {"n1": 4}}}


def test_it_is_parked_in_the_same_cycle_if_it_finds_nothing() -> None:
    assert decided(cluster(hosts(4, 3), [Q, P], FIRST, SECOND)) == outcome(STARTS, parked=["second"])


def test_in_a_strict_queue_it_stays_in_line() -> None:
    strict = queue("p", strict=True, cpu=99)
    assert decided(cluster(hosts(4, 3), [Q, strict], FIRST, SECOND)) == outcome(STARTS)


def test_it_starts_with_fewer_pods_if_it_accepts_them() -> None:
    fewer = waits("second", "p", pods(4, ONE_HOST, least=1, cpu=1), at=20)
    assert decided(cluster(hosts(4, 2), [Q, P], FIRST, fewer)) == outcome(STARTS | {"second": {"main": {"n1": 2}}})


def test_it_starts_on_other_nodes_with_room() -> None:
    assert decided(cluster(hosts(4, 5), [Q, P], FIRST, SECOND)) == outcome(STARTS | {"second": {"main": {"n1": 4}}})


def test_it_keeps_its_flavor() -> None:
    """The other flavor has room, and is tried in the next cycle."""
    both = ("f", "g")
    queues = [queue(name, flavors=both, cpu=99) for name in "qp"]
    nodes = [*hosts(4), machine("m0", kind="g", cpu=4)]
    made = cluster(nodes, queues, FIRST, SECOND, flavors=[flavor("f"), flavor("g")])
    assert decided(made) == outcome(STARTS, parked=["second"])


def test_with_the_gate_off_it_waits_for_the_next_cycle() -> None:
    settings = Settings(gates={"TASRecomputeAssignmentWithinSchedulingCycle": False})
    made = cluster(hosts(4, 3), [Q, P], FIRST, SECOND, settings=settings)
    assert decided(made) == outcome(STARTS)
    assert decided(made) == outcome(parked=["second"])


def test_a_preemptor_whose_nodes_are_taken_looks_for_other_targets() -> None:
    """It would get a host if *near* stopped. *first* takes the idle part of that host, so *far* must stop instead."""
    near = runs("near", "p", pods(2, ANYWHERE, cpu=1), {"n0": 2}, priority=1)
    far = runs("far", "p", pods(3, ANYWHERE, cpu=1), {"n1": 3}, priority=2)
    first = waits("first", "q", pods(1, ONE_RACK, cpu=2), priority=10)
    second = waits("second", "p", pods(1, ONE_HOST, cpu=4), priority=5)
    alone = cluster(hosts(4, 4), [Q, P], near, far, second)
    assert decided(alone) == outcome(stops={"near": ("second", "InClusterQueue")})
    made = cluster(hosts(4, 4), [Q, P], near, far, first, second)
    assert decided(made) == outcome({"first": {"main": {"n0": 1}}}, {"far": ("second", "InClusterQueue")})


def test_the_rack_was_taken_one_level_up() -> None:
    nodes = [machine("n0", "r1", cpu=2), machine("n1", "r1", cpu=2), machine("n2", "r2", cpu=3)]
    first, second = (
        waits(name, to, pods(4, ONE_RACK, least=3, cpu=1), priority=priority)
        for name, to, priority in (("first", "q", 2), ("second", "p", 1))
    )
    assert decided(cluster(nodes, [Q, P], first, second)) == outcome(
        {"first": {"main": {"n0": 2, "n1": 2}}, "second": {"main": {"n2": 3}}}
    )


ON_N1 = NodeChoice(((HOSTNAME, "n1"),))


@pytest.mark.parametrize(("policies", "parked"), [(NOBODY, ["late"]), (TAKES_BACK, [])])
def test_nodes_of_another_preemptors_targets_are_not_free_before_they_stop(
    policies: Policies, parked: list[str]
) -> None:
    """Two pods of *late* would fit on n1 after *victim* has stopped, but *late* must not count that node twice."""
    queues = [
        queue("a", "co", TAKES_BACK, cpu=8),
        queue("b", "co", cpu=8),
        queue("c", "co", policies, cpu=8),
        queue("v", "co", cpu=0),
    ]
    made = cluster(
        hosts(4, 4),
        queues,
        runs("victim", "v", pods(4, ANYWHERE, cpu=1), {"n1": 4}),
        waits("preemptor", "a", pods(1, ONE_HOST, choice=ON_N1, cpu=2), priority=9),
        waits("first", "b", pods(4, ONE_HOST, cpu=1), priority=8),
        waits("late", "c", pods(4, ONE_HOST, least=2, cpu=1), priority=7),
    )
    assert decided(made) == outcome(STARTS, {"victim": ("preemptor", "InCohortReclamation")}, parked)
    made.carry_out()
    assert decided(made)["starts"] == {"preemptor": {"main": {"n1": 1}}, "late": {"main": {"n1": 2}}}


def test_without_targets_it_reserves_its_nodes_of_the_empty_cluster() -> None:
    """*high* needs a rack for each pod set: r1 and, on empty nodes, r2. r2 is full, but that is no reason to reserve r1
    twice.
    """
    nodes = [machine("n0", "r1", cpu=8, gpu=2), machine("n1", "r2", cpu=4)]
    made = cluster(
        nodes,
        [queue("q", cpu=99, gpu=99), queue("p", cpu=99, gpu=99)],
        runs("full", "p", pods(1, ANYWHERE, cpu=4), {"n1": 1}, priority=20),
        runs("gpus", "p", pods(2, ANYWHERE, gpu=1), {"n0": 2}, priority=20),
        waits("high", "q", pods(2, ONE_RACK, name="a", cpu=1, gpu=1), pods(4, ONE_RACK, name="b", cpu=1), priority=9),
        waits("low", "p", pods(4, ONE_HOST, cpu=1), priority=1),
    )
    assert decided(made) == outcome({"low": {"main": {"n0": 4}}}, parked=["high"])
