"""Preemption if quota and nodes are both short: every workload on a needed node may be a target (rules R2, T1)."""

from typing import Any

import pytest

from runrig.domain.kueue import FAIR, Settings
from runrig.kueue.declared import Policies, Policy, QueueCohort, Workload
from tests.kueue.engine.clusters import (
    LOWER,
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

BIG = machine("n1", cpu=8, gpu=8)


def lower(name: str, **asks: Any) -> Workload:
    return runs(name, "q", pods(near=ONE_HOST, **asks), {"n1": 1}, priority=1)


@pytest.mark.parametrize(("short", "idle"), [("gpu", "cpu"), ("cpu", "gpu")])
def test_quota_of_one_resource_is_short_and_the_node_is_full_of_another(short: str, idle: str) -> None:
    quotas: dict[str, Any] = {short: 8, idle: 100}
    made = cluster(
        [BIG],
        [queue("q", **quotas)],
        lower("by-quota", **{short: 8}),
        lower("by-node", **{idle: 6}),
        waits("high", "q", pods(near=ONE_HOST, cpu=4, gpu=4), priority=9),
    )
    in_queue = ("high", "InClusterQueue")
    assert decided(made) == outcome(stops={"by-quota": in_queue, "by-node": in_queue})
    made.carry_out()
    assert decided(made)["starts"] == {"high": {"main": {"n1": 1}}}


def test_workloads_that_block_neither_quota_nor_nodes_keep_running() -> None:
    made = cluster(
        [BIG, machine("n2", cpu=8, gpu=8)],
        [queue("q", cpu=100, gpu=8)],
        lower("by-quota", gpu=8),
        lower("by-node", cpu=6),
        runs("elsewhere", "q", pods(near=ONE_HOST, cpu=8), {"n2": 1}, priority=2),
        waits("high", "q", pods(near=ONE_HOST, cpu=4, gpu=4), priority=9),
    )
    assert decided(made)["stops"] == {"by-quota": ("high", "InClusterQueue"), "by-node": ("high", "InClusterQueue")}


@pytest.mark.parametrize("settings", [Settings(), Settings(FAIR)], ids=["classical", "fair"])
@pytest.mark.parametrize("theirs", ["left", "right"])
def test_a_queue_reclaims_both_from_borrowers_in_its_cohort_and_one_level_up(settings: Settings, theirs: str) -> None:
    made = cluster(
        [BIG],
        [
            queue("a", "left", TAKES_BACK, cpu=8, gpu=8),
            queue("b", theirs, LOWER, cpu=0, gpu=0),
            queue("c", theirs, LOWER, cpu=8, gpu=0),
        ],
        runs("b-gpu", "b", pods(near=ONE_HOST, gpu=8), {"n1": 1}),
        runs("b-cpu", "b", pods(near=ONE_HOST, cpu=6), {"n1": 1}),
        waits("new", "a", pods(near=ONE_HOST, cpu=4, gpu=4)),
        cohorts=[QueueCohort("left", "root"), QueueCohort("right", "root")],
        settings=settings,
    )
    taken = ("new", "InCohortReclamation")
    assert decided(made) == outcome(stops={"b-gpu": taken, "b-cpu": taken})


def test_it_may_reclaim_both_while_it_borrows() -> None:
    borrows = Policies(within_queue=Policy.LOWER, reclaim=Policy.LOWER, borrow=Policy.LOWER)
    made = cluster(
        [BIG],
        [
            queue("a", "co", borrows, cpu=2, gpu=2),
            queue("b", "co", LOWER, cpu=6, gpu=0),
            queue("c", "co", LOWER, cpu=92, gpu=6),
        ],
        runs("b-gpu", "b", pods(near=ONE_HOST, gpu=8), {"n1": 1}),
        runs("b-cpu", "b", pods(near=ONE_HOST, cpu=7), {"n1": 1}),
        waits("new", "a", pods(near=ONE_HOST, cpu=4, gpu=4), priority=5),
    )
    taken = ("new", "InCohortReclaimWhileBorrowing")
    assert decided(made) == outcome(stops={"b-gpu": taken, "b-cpu": taken})


def test_leader_and_workers_may_each_lack_one() -> None:
    made = cluster(
        [BIG],
        [queue("q", cpu=100, gpu=8)],
        lower("by-quota", gpu=8),
        lower("by-node", cpu=6),
        waits(
            "high",
            "q",
            pods(near=ONE_HOST, name="l", group="g", gpu=1),
            pods(3, ONE_HOST, name="w", group="g", cpu=1),
            priority=9,
        ),
    )
    assert decided(made)["stops"] == {"by-quota": ("high", "InClusterQueue"), "by-node": ("high", "InClusterQueue")}
    made.carry_out()
    assert decided(made)["starts"] == {"high": {"l": {"n1": 1}, "w": {"n1": 3}}}


def test_if_the_first_flavor_has_only_higher_priorities_the_second_frees_both() -> None:
    two = ("f", "g")
    whole: tuple[dict[str, Any], ...] = ({"cpu": 8}, {"gpu": 8})
    held = [
        runs(f"{next(iter(asks))}-{kind}", "q", pods(near=ONE_HOST, **asks), {node: 1}, priority=level, flavor=kind)
        for kind, node, level in (("f", "n1", 20), ("g", "m1", 1))
        for asks in whole
    ]
    made = cluster(
        [BIG, machine("m1", kind="g", cpu=8, gpu=8)],
        [queue("q", flavors=two, cpu=100, gpu=8)],
        *held,
        waits("high", "q", pods(near=ONE_HOST, cpu=4, gpu=4), priority=9),
        flavors=[flavor(each) for each in two],
    )
    taken = ("high", "InClusterQueue")
    assert decided(made) == outcome(stops={"cpu-g": taken, "gpu-g": taken})


def test_the_node_may_lack_pod_slots() -> None:
    made = cluster(
        [machine("n1", cpu=80, gpu=8, pods=2)],
        [queue("q", cpu=100, gpu=8)],
        lower("by-quota", gpu=8),
        lower("by-node", cpu=1),
        waits("high", "q", pods(2, ONE_HOST, cpu=1, gpu=4), priority=9),
    )
    assert decided(made)["stops"] == {"by-quota": ("high", "InClusterQueue"), "by-node": ("high", "InClusterQueue")}


def test_quota_and_nodes_may_be_short_for_different_pod_sets() -> None:
    """The driver lacks gpu quota; the workers have quota, but their rack is full."""
    made = cluster(
        [machine("n1", "r1", cpu=4, gpu=8), machine("n2", "r1", cpu=4, gpu=0), machine("n3", "r2", cpu=0, gpu=8)],
        [queue("q", cpu=100, gpu=8)],
        runs("by-quota", "q", pods(near=ONE_HOST, gpu=8), {"n3": 1}, priority=1),
        runs("by-node", "q", pods(near=ONE_HOST, cpu=4), {"n2": 1}, priority=1),
        waits(
            "high", "q", pods(near=ONE_HOST, name="driver", gpu=4), pods(2, ONE_RACK, name="workers", cpu=3), priority=9
        ),
    )
    assert decided(made)["stops"] == {"by-quota": ("high", "InClusterQueue"), "by-node": ("high", "InClusterQueue")}


def test_without_nodes_only_users_of_the_contested_resource_are_targets() -> None:
    made = cluster(
        [],
        [queue("q", cpu=100, gpu=8)],
        runs("by-quota", "q", pods(gpu=8), priority=1),
        runs("other", "q", pods(cpu=6), priority=0),
        waits("high", "q", pods(cpu=4, gpu=4), priority=9),
    )
    assert decided(made)["stops"] == {"by-quota": ("high", "InClusterQueue")}


@pytest.mark.parametrize(("lacks", "borrows"), [("a", "b"), ("b", "a")])
def test_without_room_on_nodes_it_still_counts_as_borrowing(lacks: str, borrows: str) -> None:
    """Both borrow, so priority decides. If *nowhere* were served first, it would reserve the gpu that *high* borrows."""
    lower = Policies(reclaim=Policy.LOWER)
    made = cluster(
        [machine("n1", cpu=4, gpu=4), machine("n2", cpu=2, gpu=2)],
        [
            queue(lacks, "co", lower, cpu=1, gpu=2),
            queue(borrows, "co", lower, cpu=1, gpu=0),
            queue("c", "co", cpu=9, gpu=1),
        ],
        runs("holds", "c", pods(near=ONE_HOST, cpu=1, gpu=1), {"n1": 1}),
        waits("nowhere", lacks, pods(near=ONE_HOST, cpu=4, gpu=2), priority=2, at=1),
        waits("high", borrows, pods(near=ONE_HOST, cpu=2, gpu=2), priority=9),
    )
    assert list(decided(made)["starts"]) == ["high"]
