"""Unneeded targets are found by arithmetic if no limits apply, and by trying otherwise. Both give the same result (rule
R3).
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runrig.domain.kueue import FAIR, Preemption, Settings
from runrig.domain.pools import Quota
from runrig.domain.quantities import CPU, GPU, FlavorResource, requests_of
from runrig.kueue.declared import (
    ClusterQueue,
    Granted,
    Policies,
    Policy,
    QueueCohort,
    ResourceFlavor,
    ResourceGroup,
    System,
    Workload,
    WorkloadPodSet,
)
from runrig.kueue.engine.simulator import Simulator
from tests.exploring import tries

pytestmark = pytest.mark.explored

KEYS = (FlavorResource("a100", CPU), FlavorResource("a100", GPU))
POLICIES = Policies(within_queue=Policy.LOWER, reclaim=Policy.ANY)
BINDS_NOBODY = 1000
Asked = tuple[int, int]

asked = st.tuples(st.integers(0, 4), st.integers(0, 4)).filter(any)


def queue(name: str, nominal: Sequence[int], cohort: str) -> ClusterQueue:
    quotas = {key: Quota(amount) for key, amount in zip(KEYS, nominal, strict=True)}
    return ClusterQueue(name, (ResourceGroup((CPU, GPU), ("a100",)),), quotas, cohort, policies=POLICIES)


def workload(name: str, queue: str, amounts: Asked, priority: int, at: int) -> Workload:
    requests = requests_of(dict(zip((CPU, GPU), amounts, strict=True)))
    return Workload(name, queue, (WorkloadPodSet(requests=requests),), priority, at, at, uid=name)


def running(spec: Workload) -> Workload:
    usage = spec.pod_sets[0].requests
    granted = Granted("main", 1, tuple((resource, "a100") for resource, _ in usage), usage)
    return replace(spec, granted=(granted,), reserved_at=spec.created_at)


@st.composite
def full_trees(draw: st.DrawFn) -> System:
    """Usage of the other queues, and sometimes of the preemptor's queue "mine", is about the nominal quota of "mine"
    and an idle queue.
    """
    held = draw(st.lists(st.tuples(asked, st.integers(0, 2), st.sampled_from(["mine", "q1", "q2", "q3"])), min_size=3))
    workloads = [running(workload(f"w{at}", into, each, low, at)) for at, (each, low, into) in enumerate(held)]
    promised = [draw(st.integers(0, 12)) for _ in KEYS]
    spare = [sum(each[which] for each, _, _ in held) - mine for which, mine in enumerate(promised)]
    queues = (
        queue("mine", promised, "left"),
        queue("lender", [max(0, amount) for amount in spare], "right"),
        *(queue(f"q{at}", (0, 0), "left" if at < 3 else "right") for at in (1, 2, 3)),
    )
    wants = draw(st.tuples(st.integers(1, 8), st.integers(1, 8)))
    cohorts = (QueueCohort("root"), QueueCohort("left", "root"), QueueCohort("right", "root"))
    return System(cohorts, queues, (ResourceFlavor("a100"),), (*workloads, workload("x", "mine", wants, 1, 100)))


def limited(system: System) -> System:
    """The same with limits that are never reached."""

    def with_limit(each: ClusterQueue) -> ClusterQueue:
        return replace(
            each, quotas={key: replace(quota, borrowing_limit=BINDS_NOBODY) for key, quota in each.quotas.items()}
        )

    return replace(system, queues=tuple(with_limit(each) for each in system.queues))


def stopped(system: System, manager: Settings) -> list[Preemption]:
    return Simulator(system, manager).decide(1000.0).preempted


@pytest.mark.parametrize("manager", [Settings(), Settings(strategies=FAIR)], ids=["classical", "fair"])
@given(full_trees())
@settings(max_examples=tries(150))
def test_limits_that_are_never_reached_do_not_change_targets(manager: Settings, system: System) -> None:
    assert stopped(system, manager) == stopped(limited(system), manager)
