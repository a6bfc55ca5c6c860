"""Small systems by chance, the same for the same number: few queues and a lender, work that never ends.

Flat or deep, classical or fair with each list of strategies, limits, weights, StrictFIFO mixed with BestEffortFIFO,
every legal mix of policies.  One in four also has a second flavor and pod sets with a minimum.
"""

from fractions import Fraction
from random import Random

from runrig.domain.kueue import Settings, Strategy
from runrig.domain.pools import Queueing, Quota, Quotas
from runrig.domain.quantities import FlavorResource
from runrig.kueue.declared import (
    ClusterQueue,
    Fungibility,
    Policies,
    Policy,
    Preference,
    QueueCohort,
    ResourceFlavor,
    ResourceGroup,
    System,
    Workload,
    WorkloadPodSet,
)

FINAL, INITIAL = Strategy.FINAL_SHARE, Strategy.INITIAL_SHARE
MODES = (None, (FINAL, INITIAL), (FINAL,), (INITIAL,))
CORE = 1000


def case(number: int) -> tuple[System, Settings]:
    """The system of *number*: modes and shapes take turns."""
    chance = Random(number)
    strategies = MODES[number % 4]
    deep = number // 4 % 2 == 1
    flavors = ("f", "g") if number // 8 % 4 == 3 else ("f",)
    parents = ("m0", "m1") if deep else ("c",)
    active = [f"q{n}" for n in range(chance.randint(2, 3))]
    queues = [_queue(chance, name, chance.choice(parents), flavors) for name in active]
    bank = ClusterQueue("bank", (_group(flavors),), _quotas(chance, flavors, 1, 6, limits=False), "c")
    cohorts = _cohorts(chance, flavors) if deep else ()
    work = tuple(_work(chance, n, active, rich=len(flavors) > 1) for n in range(chance.choice((3, 4, 5, 6, 7, 8, 8))))
    made = System(cohorts, (*queues, bank), tuple(map(ResourceFlavor, flavors)), work, now=float(len(work)))
    return made, Settings(strategies)


def _cohorts(chance: Random, flavors: tuple[str, ...]) -> tuple[QueueCohort, ...]:
    inner = (
        QueueCohort(name, "c", _quotas(chance, flavors, 0, 2, limits=True), Fraction(chance.choice((1, 1, 2))))
        for name in ("m0", "m1")
    )
    return (QueueCohort("c"), *inner)


def _queue(chance: Random, name: str, cohort: str, flavors: tuple[str, ...]) -> ClusterQueue:
    both = (True, True) if chance.random() < 0.2 else (chance.random() < 0.3, chance.random() < 0.7)
    preference = chance.choice(tuple(Preference)) if all(both) else Preference.BORROWING_OVER_PREEMPTION
    return ClusterQueue(
        name,
        (_group(flavors),),
        _quotas(chance, flavors, 0, 3, limits=True),
        cohort,
        Queueing.STRICT_FIFO if chance.random() < 0.2 else Queueing.BEST_EFFORT_FIFO,
        _policies(chance),
        Fungibility(*both, preference),
        Fraction(chance.choice(("1", "1", "1", "2", "3", "0.5", "0"))),
    )


def _policies(chance: Random) -> Policies:
    within = chance.choice((Policy.NEVER, Policy.LOWER, Policy.LOWER_OR_NEWER, Policy.LOWER_OR_NEWER))
    reclaim = chance.choice((Policy.NEVER, Policy.LOWER, Policy.ANY, Policy.ANY, Policy.ANY))
    borrows = reclaim is not Policy.NEVER and chance.random() < 0.5
    threshold = chance.choice((None, None, 0, 1)) if borrows else None
    return Policies(within, reclaim, Policy.LOWER if borrows else Policy.NEVER, threshold)


def _quotas(chance: Random, flavors: tuple[str, ...], least: int, most: int, *, limits: bool) -> Quotas:
    return {FlavorResource(flavor, "cpu"): _quota(chance, chance.randint(least, most), limits) for flavor in flavors}


def _quota(chance: Random, nominal: int, limits: bool) -> Quota:
    borrow = chance.randint(0, 4) * CORE if limits and chance.random() < 0.2 else None
    lend = chance.randint(0, nominal) * CORE if limits and chance.random() < 0.2 else None
    return Quota(nominal * CORE, borrow, lend)


def _group(flavors: tuple[str, ...]) -> ResourceGroup:
    return ResourceGroup(("cpu",), flavors)


def _work(chance: Random, number: int, queues: list[str], *, rich: bool) -> Workload:
    count = chance.randint(1, 4) if rich else 1
    least = chance.randint(1, count) if count > 1 and chance.random() < 0.5 else None
    size = chance.randint(1, 3 if rich else 5) * CORE
    return Workload(
        name=f"default/w{number}",
        queue=chance.choice(queues),
        pod_sets=(WorkloadPodSet("main", count, least, (("cpu", size),)),),
        priority=chance.randint(0, 2),
        created_at=float(number),
        queued_at=float(number),
        uid=f"w{number}",
    )
