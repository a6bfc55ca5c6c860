"""The quota tree and the gangs that the scenarios share.

Cohorts root → 5 → 25 → 125 without a quota of their own, eight pools below each of the 125: 1000 pools and 156 cohorts, two
flavors, three resources.  One unit of a gang is 1 GPU, 4 cores and 32 GiB.
"""

from collections.abc import Iterable
from time import perf_counter

from runrig.domain.gangs import Gang, PodSet, Priority
from runrig.domain.nodes import Flavor
from runrig.domain.plan import Decision, Queue
from runrig.domain.pools import Cohort, Pool, Quota, Quotas
from runrig.domain.quantities import CPU, GPU, MEMORY, FlavorResource, of_one_pod, requests_of
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.scheduling.admission import decide

FLAVORS = ("a100", "h100")
GPUS_PER_POOL = 8
UNIT = {CPU: 4000, MEMORY: 32 * 2**30, GPU: 1}
BRANCHES = (5, 5, 5)
POOLS_PER_COHORT = 8


def quotas(gpus: int = GPUS_PER_POOL) -> Quotas:
    """*gpus* of each flavor, and twice the cores and memory that they need, so that GPUs are the scarce resource."""
    per_gpu = {CPU: 8000, MEMORY: 64 * 2**30, GPU: 1}
    return {
        FlavorResource(flavor, resource): Quota(amount * gpus)
        for flavor in FLAVORS
        for resource, amount in per_gpu.items()
    }


def empty_ledger(cohorts: Iterable[Cohort], pools: Iterable[Pool]) -> Ledger:
    """Only quota limits what starts; the tree is built."""
    ledger = Ledger(place=False)
    ledger.set_flavors(Flavor(name, position=position) for position, name in enumerate(FLAVORS))
    for cohort in cohorts:
        ledger.put_cohort(cohort)
    for pool in pools:
        ledger.put_pool(pool)
    assert ledger.tree.root.active
    return ledger


def thousand_pools() -> tuple[Ledger, list[str]]:
    """The ledger, and the names of the pools in the order of the tree."""
    cohorts, deepest = [Cohort("root")], ["root"]
    for branches in BRANCHES:
        below = [(f"{parent}-{branch}", parent) for parent in deepest for branch in range(branches)]
        cohorts += [Cohort(name, parent) for name, parent in below]
        deepest = [name for name, _ in below]
    pools = [
        Pool(f"{parent}-q{each}", quotas(), cohort=parent) for parent in deepest for each in range(POOLS_PER_COHORT)
    ]
    assert (len(cohorts), len(pools)) == (156, 1000)
    return empty_ledger(cohorts, pools), [pool.name for pool in pools]


def gang(name: str, pool: str, priority: Priority, at: float, gpus: int = 1) -> Gang:
    """One pod of *gpus* units."""
    requests = of_one_pod(requests_of({resource: amount * gpus for resource, amount in UNIT.items()}))
    return Gang(name, pool, priority, at, (PodSet("main", 1, requests),))


def queue(ledger: Ledger, gangs: Iterable[Gang]) -> None:
    for each in gangs:
        ledger.apply(Queue(each), each.submitted_at)


def cycle(ledger: Ledger, at: float) -> list[Decision]:
    """The decisions of one cycle, applied."""
    made = []
    for decision in decide(ledger):
        if decision is not None:
            ledger.apply(decision, at)
            made.append(decision)
    return made


def timed_cycle(ledger: Ledger, at: float) -> tuple[float, list[Decision]]:
    start = perf_counter()
    made = cycle(ledger, at)
    return perf_counter() - start, made
