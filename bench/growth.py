"""How the cost of decisions scales: with pools, with the depth of the tree, with the length of the queue."""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from bench.timing import Times, timed
from bench.world import FLAVORS, GPUS_PER_POOL, cycle, empty_ledger, gang, queue, quotas, thousand_pools, timed_cycle
from runrig.domain.gangs import Priority
from runrig.domain.plan import Release
from runrig.domain.pools import Cohort, Pool, Quota, Quotas
from runrig.domain.quantities import GPU, FlavorResource
from runrig.engine.ledger.ledger import Ledger

POOLS = (100, 1000, 4000)
DEPTHS = tuple(range(1, 9))
WAITING = (1_000, 10_000, 100_000)
GANGS_EACH = 4


class Point(NamedTuple):
    """*each*: decisions in one run, in *unit*."""

    series: str
    at: int
    times: Times
    each: int
    unit: str


def pools(runs: int) -> Iterator[Point]:
    """Admits four gangs per pool, eight pools in a cohort."""
    for count in POOLS:
        yield Point("pools", count, timed(partial(_admit_all, count, _flat(count)), runs), count * GANGS_EACH, "gang")


def depths(runs: int) -> Iterator[Point]:
    """Admits 4000 gangs in 1000 pools below chains of cohorts, once without limits and once with both at every cohort."""
    for series, limited in (("depth, no limits", False), ("depth, limits at every cohort", True)):
        for depth in DEPTHS:
            measure = partial(_admit_all, 1000, _chains(1000, depth, limited=limited))
            yield Point(series, depth, timed(measure, runs), 1000 * GANGS_EACH, "gang")


def queues(runs: int) -> Iterator[Point]:
    """One cycle over full pools, each with this many waiting gangs.

    *all looked at*: capacity may have grown since the last cycle, so every head is evaluated again.  *nothing new*: it has not.
    """
    for waiting in WAITING:
        ledger, names = _full_pools()
        queue(ledger, (gang(f"x{each:06}", names[each % 1000], Priority.NORMAL, each) for each in range(waiting)))
        cycle(ledger, 1)
        yield Point("queue, all looked at", waiting, timed(partial(_after_a_change, ledger), runs), 1, "cycle")
        yield Point(
            "queue, nothing new",
            waiting,
            timed(partial(_cycle_that_admits_nothing, ledger), runs),
            1,
            "cycle",
        )


def _admit_all(pools: int, world: tuple[list[Cohort], list[Pool]]) -> float:
    ledger = empty_ledger(*world)
    names = [pool.name for pool in world[1]]
    queue(ledger, (gang(f"w{at:06}", names[at % pools], Priority.NORMAL, at) for at in range(pools * GANGS_EACH)))
    seconds, made = timed_cycle(ledger, 0)
    assert len(made) == pools * GANGS_EACH, "all of them fit"
    return seconds


def _flat(count: int) -> tuple[list[Cohort], list[Pool]]:
    cohorts = [Cohort(f"c{each}") for each in range((count + 7) // 8)]
    return cohorts, [Pool(f"p{each:04}", quotas(), cohort=f"c{each // 8}") for each in range(count)]


def _chains(count: int, depth: int, *, limited: bool) -> tuple[list[Cohort], list[Pool]]:
    """A hundred pools at the end of each chain of *depth* cohorts."""
    cohorts = [
        Cohort(f"c{chain}-{at}", f"c{chain}-{at - 1}" if at else None, _limits(depth - at) if limited else {})
        for chain in range(count // 100)
        for at in range(depth)
    ]
    return cohorts, [Pool(f"p{each:04}", quotas(), cohort=f"c{each // 100}-{depth - 1}") for each in range(count)]


def _limits(height: int) -> Quotas:
    """Both limits, so high that they refuse nothing but must be checked: each cohort keeps one GPU of what it gets."""
    return {FlavorResource(flavor, GPU): Quota(0, 100, 100 * GPUS_PER_POOL - height) for flavor in FLAVORS}


def _full_pools() -> tuple[Ledger, list[str]]:
    ledger, names = thousand_pools()
    queue(ledger, (gang(f"w{each:05}", names[each % 1000], Priority.NORMAL, each) for each in range(16_000)))
    assert len(cycle(ledger, 0)) == 16_000
    return ledger, names


def _after_a_change(ledger: Ledger) -> float:
    """A gang starts and ends: what it used may fit another one, so every head is evaluated again."""
    queue(ledger, [gang("passing", next(iter(ledger.pools)), Priority.LOW, 0)])
    ledger.apply(Release("passing"), 0)
    return _cycle_that_admits_nothing(ledger)


def _cycle_that_admits_nothing(ledger: Ledger) -> float:
    seconds, made = timed_cycle(ledger, 2)
    assert made == []
    return seconds
