"""Random systems like those that Kueue decided itself (`tests/conformance/data/peer.jsonl.gz`), reproducible by number.
They have trees of cohorts with limits and weights, several flavors in one or two groups, and every mix of policies and
fungibility. They also have over-committed trees, zeros, uncovered resources and minimum counts; half of them use fair
sharing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from random import Random

from runrig.domain.kueue import FAIR, Settings, Strategy
from runrig.domain.nodes import Taint
from runrig.domain.pools import Queueing, Quota, Quotas
from runrig.domain.quantities import CPU, FlavorResource
from runrig.kueue.declared import (
    ClusterQueue,
    Fungibility,
    Granted,
    LabelSelector,
    MatchExpression,
    NodeChoice,
    Policies,
    Policy,
    Preference,
    QueueCohort,
    ResourceFlavor,
    ResourceGroup,
    StopPolicy,
    System,
    Toleration,
    Workload,
    WorkloadPodSet,
)

MEMORY, GPU, ODD = "memory", "nvidia.com/gpu", "example.com/odd"
CORE = 1000
STRATEGIES = (FAIR, FAIR, (Strategy.FINAL_SHARE,), (Strategy.INITIAL_SHARE,))
WEIGHTS = (*(Fraction(1),) * 4, Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(3, 2), Fraction(2), Fraction(3))
START = 200.0


def case(number: int) -> tuple[System, Settings]:
    """The system with this *number*; classical and fair ones alternate."""
    chance = Random(number)
    flavors = tuple(_flavor(chance, f"f{at}") for at in range(chance.randint(1, 3)))
    resources = chance.choice(((CPU,), (CPU,), (CPU, MEMORY), (CPU, GPU), (CPU, MEMORY, GPU)))
    cohorts = _cohorts(chance, flavors, resources)
    homes = ["c0", *(cohort.name for cohort in cohorts)]
    queues = tuple(_queue(chance, f"q{at}", homes, flavors, resources) for at in range(chance.randint(1, 6)))
    running = [_running(chance, f"r{at}", chance.choice(queues)) for at in range(chance.randint(0, 11))]
    waiting = [_waiting(chance, f"p{at}", chance.choice(queues), flavors) for at in range(chance.randint(1, 9))]
    work = tuple(workload for workload in (*running, *waiting) if workload is not None)
    system = System(cohorts, queues, flavors, work, namespaces={"default": {}}, now=START)
    return system, Settings(chance.choice(STRATEGIES) if number % 2 else None)


def _flavor(chance: Random, name: str) -> ResourceFlavor:
    labels = {"kind": name, **({"zone": chance.choice("ab")} if chance.random() < 0.3 else {})}
    effect = chance.choice(("NoSchedule", "NoSchedule", "NoExecute", "PreferNoSchedule"))
    taints = (Taint("t", name, effect),) if chance.random() < 0.15 else ()
    return ResourceFlavor(name, labels if chance.random() < 0.7 else {}, taints=taints)


# ---------------------------------------------------------------- the tree


def _cohorts(chance: Random, flavors: Sequence[ResourceFlavor], resources: Sequence[str]) -> tuple[QueueCohort, ...]:
    """Most are below an earlier one; the first is sometimes only named."""
    made: list[QueueCohort] = []
    for at in range(chance.choice((1, 2, 2, 3, 4, 6))):
        parent = f"c{chance.randrange(at)}" if at and chance.random() < 0.85 else None
        quotas: Quotas = {}
        if chance.random() < 0.35:
            some = chance.sample(list(flavors), chance.randint(1, len(flavors)))
            quotas = {
                FlavorResource(flavor.name, resource): _quota(chance, 4, limited=parent is not None)
                for flavor in some
                for resource in resources
            }
        made.append(QueueCohort(f"c{at}", parent, quotas, chance.choice(WEIGHTS)))
    return tuple(made[chance.random() < 0.2 :])


def _queue(
    chance: Random, name: str, homes: Sequence[str], flavors: Sequence[ResourceFlavor], resources: Sequence[str]
) -> ClusterQueue:
    home = chance.choice(homes) if chance.random() < 0.92 else None
    groups = _groups(chance, [flavor.name for flavor in flavors], resources)
    quotas = {
        FlavorResource(flavor, resource): _quota(chance, 6, limited=home is not None, queue=True)
        for group in groups
        for flavor in group.flavors
        for resource in group.resources
    }
    return ClusterQueue(
        name,
        groups,
        quotas,
        home,
        Queueing.STRICT_FIFO if chance.random() < 0.25 else Queueing.BEST_EFFORT_FIFO,
        _policies(chance),
        _fungibility(chance),
        chance.choice(WEIGHTS),
        StopPolicy.HOLD if chance.random() < 0.04 else StopPolicy.NONE,
        LabelSelector(),
    )


def _groups(chance: Random, flavors: list[str], resources: Sequence[str]) -> tuple[ResourceGroup, ...]:
    """One group for all resources, or two that share the flavors."""
    order = chance.sample(flavors, len(flavors))
    if len(resources) > 1 and len(order) > 1 and chance.random() < 0.35:
        first, of_first = chance.randrange(1, len(resources)), chance.randrange(1, len(order))
        return (
            ResourceGroup(tuple(resources[:first]), tuple(order[:of_first])),
            ResourceGroup(tuple(resources[first:]), tuple(order[of_first:])),
        )
    return (ResourceGroup(tuple(resources), tuple(order[: chance.randint(1, len(order))])),)


def _quota(chance: Random, most: int, *, limited: bool, queue: bool = False) -> Quota:
    nominal = chance.choice((0, chance.randint(0, most), chance.randint(0, most), chance.randint(most, 2 * most)))
    borrow = chance.randint(0, 4) * CORE if limited and chance.random() < 0.12 else None
    lend = chance.randint(0, nominal if queue else most) * CORE if limited and chance.random() < 0.12 else None
    return Quota(nominal * CORE, borrow, lend)


def _policies(chance: Random) -> Policies:
    within = chance.choice((Policy.NEVER, Policy.LOWER, Policy.LOWER, Policy.LOWER_OR_NEWER))
    reclaim = chance.choice((Policy.NEVER, Policy.LOWER, Policy.ANY, Policy.ANY))
    borrows = reclaim is not Policy.NEVER and chance.random() < 0.4
    threshold = chance.choice((None, None, -1, 0, 3)) if borrows else None
    return Policies(within, reclaim, Policy.LOWER if borrows else Policy.NEVER, threshold)


def _fungibility(chance: Random) -> Fungibility:
    borrows, preempts = chance.random() < 0.4, chance.random() < 0.7
    both = borrows and preempts and chance.random() < 0.5
    return Fungibility(
        borrows, preempts, chance.choice(tuple(Preference)) if both else Preference.BORROWING_OVER_PREEMPTION
    )


# ---------------------------------------------------------------- the work


def _requests(chance: Random, queue: ClusterQueue, *, odd: bool) -> dict[str, int]:
    covered = [resource for group in queue.groups for resource in group.resources]
    asked = {
        resource: chance.choice((0, 1, 1, 1, 2, 2, 3, 5))
        * CORE
        // (2 if resource == CPU and chance.random() < 0.1 else 1)
        for resource in covered
        if chance.random() < 0.85
    }
    return {**asked, **({ODD: chance.randint(0, 1)} if odd and chance.random() < 0.05 else {})}


def _work(chance: Random, name: str, queue: ClusterQueue, created: float) -> Workload:
    return Workload(
        f"default/{name}",
        queue.name,
        (),
        chance.randint(0, 3),
        created_at=created,
        queued_at=created,
        uid=f"u{chance.randrange(1000):03d}",
        namespace="default",
    )


def _running(chance: Random, name: str, queue: ClusterQueue) -> Workload:
    """It uses what it requests, whether that fits or not."""
    work = _work(chance, name, queue, float(chance.randint(0, 60)))
    pod_sets, granted = [], []
    for pod_set in ("main", "s1")[: 1 if chance.random() < 0.75 else 2]:
        asked, count = _requests(chance, queue, odd=False), chance.randint(1, 3)
        flavor = {group.resources: chance.choice(group.flavors) for group in queue.groups}
        flavors = {resource: flavor[group.resources] for group in queue.groups for resource in group.resources}
        pod_sets.append(WorkloadPodSet(pod_set, count, requests=_sorted(asked)))
        usage = {resource: amount * count for resource, amount in asked.items()}
        taken = {resource: flavors[resource] for resource in asked}
        granted.append(Granted(pod_set, count, tuple(sorted(taken.items())), _sorted(usage)))
    at = work.created_at + chance.randint(0, 40)
    return replace(work, pod_sets=tuple(pod_sets), granted=tuple(granted), reserved_at=at)


def _waiting(chance: Random, name: str, queue: ClusterQueue, flavors: Sequence[ResourceFlavor]) -> Workload:
    work = _work(chance, name, queue, float(chance.randint(61, 199)))
    pod_sets, shrinks = [], chance.random() < 0.4
    for pod_set in ("main", "s1")[: 1 if chance.random() < 0.75 else 2]:
        count = chance.choice((1, 1, 2, 3, 4, 8))
        least = chance.randint(1, count) if shrinks else None
        shrinks = False
        asked = _requests(chance, queue, odd=True)
        pod_sets.append(WorkloadPodSet(pod_set, count, least, _sorted(asked), _nodes(chance, flavors)))
    return replace(work, pod_sets=tuple(pod_sets))


def _nodes(chance: Random, flavors: Sequence[ResourceFlavor]) -> NodeChoice:
    name = chance.choice(flavors).name
    return chance.choice(
        (
            *(NodeChoice(),) * 10,
            NodeChoice((("kind", name),)),
            NodeChoice((("zone", "b"),)),
            NodeChoice(tolerations=(Toleration(operator="Exists"),)),
            NodeChoice(tolerations=(Toleration("t", value=name, effect="NoSchedule"),)),
            NodeChoice(terms=((MatchExpression("kind", "NotIn", (name,)),),)),
        )
    )


def _sorted(amounts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(amounts.items()))
