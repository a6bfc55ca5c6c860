"""Leaders, their workers, and pod sets that request nothing (rule T1)."""

from typing import Any

import pytest

from runrig.domain.reasons import Code, Reason
from runrig.kueue.decisions import PendingReason
from runrig.kueue.declared import TopologyRequest
from tests.kueue.engine.clusters import (
    ANYWHERE,
    ONE_HOST,
    ONE_RACK,
    cluster,
    decided,
    machine,
    outcome,
    pods,
    queue,
    slices,
    waits,
)

Q = queue("q", cpu=99, gpu=99)


def stands(*pod_sets: object, **machines: dict[str, Any]) -> object:
    """Where the pods of one workload are placed. *machines*: the resources of each; the first letter of the name is the
    rack.
    """
    nodes = [machine(name, name[0], **has) for name, has in machines.items()]
    return decided(cluster(nodes, [Q], waits("w", "q", *pod_sets)))["starts"]  # type: ignore[arg-type]


# ---------------------------------------------------------------- who leads


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_the_second_of_two_pod_sets_with_one_pod_leads(names: tuple[str, str]) -> None:
    """The first one requests a gpu: it is the workers, and uses the host where the fewest of them fit. cpu alone would
    choose a1.
    """
    first = pods(1, ANYWHERE, name=names[0], group="g", gpu=1)
    second = pods(1, ANYWHERE, name=names[1], group="g", cpu=1)
    found = stands(first, second, a1={"cpu": 2, "gpu": 4}, b1={"cpu": 8, "gpu": 1})
    assert found == {"w": {names[0]: {"b1": 1}, names[1]: {"b1": 1}}}


@pytest.mark.parametrize("leader_first", [False, True])
def test_of_different_sizes_the_single_pod_leads_in_any_order(leader_first: bool) -> None:
    leader, workers = pods(1, ONE_RACK, name="l", group="g", cpu=2), pods(3, ONE_RACK, name="w", group="g", cpu=1)
    order = (leader, workers) if leader_first else (workers, leader)
    assert stands(*order, a1={"cpu": 3}, a2={"cpu": 1}, b1={"cpu": 5}) == {"w": {"l": {"b1": 1}, "w": {"b1": 3}}}


# ---------------------------------------------------------------- placement of workers


LEADER = pods(1, ANYWHERE, name="l", group="g", gpu=1)


def workers(count: int, near: TopologyRequest = ANYWHERE) -> object:
    return pods(count, near, name="w", group="g", cpu=1)


def test_remaining_workers_take_equal_hosts_by_name() -> None:
    """a1 has the leader and one worker. a2 and a3 get two each; it no longer matters that a leader would also fit on
    a3.
    """
    found = stands(workers(3), LEADER, a1={"cpu": 1, "gpu": 1}, a2={"cpu": 2}, a3={"cpu": 2, "gpu": 1}, a4={"cpu": 9})
    assert found == {"w": {"l": {"a1": 1}, "w": {"a1": 1, "a2": 2}}}


def test_remaining_workers_take_the_smallest_host_even_if_no_leader_fits_there() -> None:
    found = stands(workers(3), LEADER, a1={"cpu": 1, "gpu": 1}, a2={"cpu": 2, "gpu": 1}, a3={"cpu": 1})
    assert found == {"w": {"l": {"a1": 1}, "w": {"a1": 1, "a2": 1, "a3": 1}}}


def test_one_level_down_hosts_are_tried_by_their_capacity_without_a_leader() -> None:
    """Only rack a has room for all. a1 is the largest host, with room for three workers next to the leader; the fourth
    goes to a2.
    """
    leader = pods(1, ONE_RACK, name="l", group="g", cpu=2, gpu=1)
    found = stands(
        workers(4, ONE_RACK), leader, a1={"cpu": 5, "gpu": 1}, a2={"cpu": 4, "gpu": 0}, b1={"cpu": 4, "gpu": 1}
    )
    assert found == {"w": {"l": {"a1": 1}, "w": {"a1": 3, "a2": 1}}}


def test_inside_a_slice_the_leader_takes_the_smallest_host_with_room() -> None:
    """A slice of three in rack a: the leader on a1 with one worker, two on a2. a3 would have room for all four."""
    near = slices(3, "rack")
    leader = pods(1, near, name="l", group="g", cpu=1)
    found = stands(workers(3, near), leader, a1={"cpu": 2}, a2={"cpu": 3}, a3={"cpu": 9})
    assert found == {"w": {"l": {"a1": 1}, "w": {"a1": 1, "a2": 2}}}


# ---------------------------------------------------------------- pods without requests


@pytest.mark.parametrize("near", [ONE_HOST, ONE_RACK, ANYWHERE, None])
def test_a_pod_set_with_a_topology_request_but_no_resources_is_parked(near: TopologyRequest | None) -> None:
    """In a queue that only has flavors with topologies, also without a topology request."""
    made = cluster([machine("a1", cpu=9)], [queue("q", cpu=99)], waits("w", "q", pods(2, near, name="side")))
    report = made.cycle(1.0)
    (waiting,) = report.pending
    assert (report.admitted, waiting.parked, waiting.reason) == ((), True, PendingReason.NO_MATCHING_FLAVOR)
    assert waiting.reasons == (Reason(Code.REQUESTS_NOTHING, "T1", where="q", resource="side"),)
    assert str(waiting.reasons[0]).startswith("can never start: pod set side requests no resource of queue q")


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_other_pod_sets_of_its_workload_do_not_start_either(order: tuple[int, int]) -> None:
    both = [pods(1, ONE_HOST, name="main", cpu=1), pods(1, ONE_HOST, name="side")]
    made = cluster([machine("a1", cpu=9)], [queue("q", cpu=99)], waits("w", "q", *(both[at] for at in order)))
    assert decided(made) == outcome(parked=["w"])


def test_zero_is_a_request() -> None:
    assert stands(pods(2, ONE_HOST, cpu=0), a1={"cpu": 1}) == {"w": {"main": {"a1": 2}}}


def test_the_number_of_pods_is_a_request_if_the_queue_has_quota_for_it() -> None:
    made = cluster([machine("a1", cpu=1)], [queue("q", cpu=9, pods=9)], waits("w", "q", pods(2, ONE_HOST)))
    assert decided(made) == outcome({"w": {"main": {"a1": 2}}})


def test_a_leader_without_requests_is_placed_with_its_workers() -> None:
    leader = pods(1, ONE_HOST, name="l", group="g")
    found = stands(pods(2, ONE_HOST, name="w", group="g", cpu=1), leader, a1={"cpu": 2, "pods": 2}, a2={"cpu": 4})
    assert found == {"w": {"l": {"a2": 1}, "w": {"a2": 2}}}
