"""Unneeded targets are found by arithmetic if no limits apply, and by trying otherwise. Both give the same result (rule
R3).
"""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runrig.domain.kueue import FAIR, Preemption, Settings
from runrig.kueue.declared import ClusterQueue, QueueCohort, ResourceFlavor, System, WorkloadPodSet
from runrig.kueue.engine.simulator import Simulator
from tests.exploring import tries
from tests.kueue.engine.clusters import TAKES_BACK, pods, queue, runs, waits

pytestmark = pytest.mark.explored

BINDS_NOBODY = 1000

asked = st.tuples(st.integers(0, 4), st.integers(0, 4)).filter(any)


def of(cpu: int, gpu: int) -> WorkloadPodSet:
    if not cpu or not gpu:
        return pods(cpu=cpu) if cpu else pods(gpu=gpu)
    return pods(cpu=cpu, gpu=gpu)


@st.composite
def full_trees(draw: st.DrawFn) -> System:
    """Usage of the other queues, and sometimes of the preemptor's queue "mine", is about the nominal quota of "mine"
    and an idle queue.
    """
    held = draw(st.lists(st.tuples(asked, st.integers(0, 2), st.sampled_from(["mine", "q1", "q2", "q3"])), min_size=3))
    running = [runs(f"w{at}", into, of(*each), priority=low, since=at) for at, (each, low, into) in enumerate(held)]
    cpu, gpu = draw(st.integers(0, 12)), draw(st.integers(0, 12))
    spare_cpu, spare_gpu = (max(0, sum(each[at] for each, _, _ in held) - mine) for at, mine in enumerate((cpu, gpu)))
    queues = (
        queue("mine", "left", TAKES_BACK, cpu=cpu, gpu=gpu),
        queue("lender", "right", TAKES_BACK, cpu=spare_cpu, gpu=spare_gpu),
        *(queue(f"q{at}", "left" if at < 3 else "right", TAKES_BACK, cpu=0, gpu=0) for at in (1, 2, 3)),
    )
    wants = pods(cpu=draw(st.integers(1, 8)), gpu=draw(st.integers(1, 8)))
    cohorts = (QueueCohort("root"), QueueCohort("left", "root"), QueueCohort("right", "root"))
    return System(cohorts, queues, (ResourceFlavor("f"),), (*running, waits("x", "mine", wants, priority=1, at=100)))


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
