"""The scenarios of imported queues with a reference figure, classical and fair.  Each checks the decisions.

Only cycles are timed, not declaring queues and submitting work.
"""

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from time import perf_counter
from typing import NamedTuple

from bench.world import BRANCHES, FLAVORS, GPUS_PER_POOL, POOLS_PER_COHORT, UNIT
from runrig.domain.kueue import FAIR, Settings
from runrig.domain.pools import Quota
from runrig.domain.quantities import CPU, GPU, MEMORY, FlavorResource, requests_of
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
from runrig.kueue.engine.cycle import Cycle
from runrig.kueue.engine.simulator import Simulator

CLASSICAL_SETTINGS = Settings()
FAIR_SETTINGS = Settings(strategies=FAIR)

EACH = {CPU: 8000, MEMORY: 64 * 2**30, GPU: 1}
"""A queue's quota per GPU: GPUs are the scarce resource."""


class Size(NamedTuple):
    """*branches*: children of a cohort, level by level; *queues* below each cohort of the deepest level."""

    branches: tuple[int, ...] = BRANCHES
    queues: int = POOLS_PER_COHORT


FULL = Size()
"""156 cohorts, 1000 queues."""


def declared(size: Size) -> System:
    """Cohorts without a quota of their own, and queues of 8 GPUs of each flavor."""
    cohorts, deepest = [QueueCohort("root")], ["root"]
    for branches in size.branches:
        below = [(f"{parent}-{branch}", parent) for parent in deepest for branch in range(branches)]
        cohorts += [QueueCohort(name, parent) for name, parent in below]
        deepest = [name for name, _ in below]
    group = ResourceGroup((CPU, MEMORY, GPU), FLAVORS)
    quotas = {
        FlavorResource(flavor, resource): Quota(amount * GPUS_PER_POOL)
        for flavor in FLAVORS
        for resource, amount in EACH.items()
    }
    policies = Policies(within_queue=Policy.LOWER, reclaim=Policy.ANY)
    queues = tuple(
        ClusterQueue(f"{parent}-q{each}", (group,), quotas, parent, policies=policies)
        for parent in deepest
        for each in range(size.queues)
    )
    return System(tuple(cohorts), queues, tuple(ResourceFlavor(flavor) for flavor in FLAVORS))


def pending(name: str, queue: ClusterQueue, at: float, gpus: int = 1) -> Workload:
    """One pod of *gpus* units."""
    requests = requests_of({resource: amount * gpus for resource, amount in UNIT.items()})
    pod_sets = (WorkloadPodSet(requests=requests),)
    return Workload(name, queue.name, pod_sets, created_at=at, queued_at=at, uid=name)


def running(name: str, queue: ClusterQueue, at: float, flavor: str, priority: int = 0) -> Workload:
    """One pod of one unit that has had quota since *at*."""
    usage = requests_of(UNIT)
    granted = Granted("main", 1, tuple((resource, flavor) for resource, _ in usage), usage)
    return Workload(
        name,
        queue.name,
        (WorkloadPodSet(requests=usage),),
        priority=priority,
        created_at=at,
        queued_at=at,
        uid=name,
        granted=(granted,),
        reserved_at=at,
    )


def world(system: System, workloads: Iterable[Workload], settings: Settings) -> Simulator:
    made = Simulator(system, settings)
    for each in workloads:
        made.submit(each)
    gc.collect()  # the setup's garbage must not be collected during measured cycles
    return made


def timed_cycle(made: Simulator, at: float) -> tuple[float, Cycle]:
    start = perf_counter()
    done = made.decide(at)
    return perf_counter() - start, done


def admit(settings: Settings, size: Size = FULL) -> float:
    """Ten cycles, ten heads per queue that all fit: eight in the first flavor, two in the second."""
    system = declared(size)
    queues = system.queues
    waiting = (pending(f"w{each:05}", queues[each % len(queues)], each) for each in range(10 * len(queues)))
    made = world(system, waiting, settings)
    total, flavors = 0.0, Counter[str]()
    for number in range(10):
        seconds, done = timed_cycle(made, 10 * len(queues) + number)
        total += seconds
        flavors.update(dict(each.granted[0].flavors)[GPU] for each in done.admitted)
    assert flavors == {"a100": 8 * len(queues), "h100": 2 * len(queues)}, flavors
    return total


def nofit(settings: Settings, size: Size = FULL) -> float:
    """One cycle over heads that neither fit nor can preempt: every queue is full of work of the same priority."""
    system = declared(size)
    full = (
        running(f"{flavor}-{at:04}-{each}", queue, at, flavor)
        for at, queue in enumerate(system.queues)
        for flavor in FLAVORS
        for each in range(GPUS_PER_POOL)
    )
    heads = (pending(f"x{at:04}", queue, at) for at, queue in enumerate(system.queues))
    made = world(system, (*full, *heads), settings)
    seconds, done = timed_cycle(made, len(system.queues))
    assert (done.admitted, done.preempted, len(done.looked)) == ([], [], len(system.queues))
    return seconds


def reclaim(settings: Settings, heads: int, size: Size = FULL) -> float:
    """One cycle with *heads* workloads of 8 GPUs whose queues lent all of their quota: each reclaims it from eight workloads of
    one GPU.

    Even queues use twice their quota, with four priorities; odd queues use nothing and reclaim theirs.
    """
    system = declared(size)
    lenders = len(system.queues) // 2
    preemptors = (
        pending(f"x{each:03}", system.queues[1 + 2 * (each * (lenders // heads))], each, GPUS_PER_POOL)
        for each in range(heads)
    )
    made = world(system, (*_borrowers(system), *preemptors), settings)
    seconds, done = timed_cycle(made, 1e6)
    targets = {each.workload for each in done.preempted}
    assert (len(done.preempted), len(targets)) == (8 * heads, 8 * heads), "no workload is preempted twice"
    assert done.admitted == []
    return seconds


def _borrowers(system: System) -> Iterator[Workload]:
    for at in range(0, len(system.queues), 2):
        for each in range(4 * GPUS_PER_POOL):
            flavor = FLAVORS[each // (2 * GPUS_PER_POOL)]
            yield running(f"w{at:04}-{each:02}", system.queues[at], at * 32 + each, flavor, each % 4)


MODES: Mapping[str, Settings] = {"": CLASSICAL_SETTINGS, "_fair": FAIR_SETTINGS}
"""Suffix of the scenario's name."""

_SCENARIOS: Mapping[str, Callable[[Settings], float]] = {
    "K1_admit10k": admit,
    "K2_nofit": nofit,
    "K3_reclaim_1": partial(reclaim, heads=1),
    "K3_reclaim_10": partial(reclaim, heads=10),
    "K3_reclaim_100": partial(reclaim, heads=100),
}
SCENARIOS: Mapping[str, Callable[[], float]] = {
    name + mode: partial(scenario, settings)
    for mode, settings in MODES.items()
    for name, scenario in _SCENARIOS.items()
}
"""Name, as in `reference` → seconds of one run."""
