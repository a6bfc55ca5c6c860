"""The cost of a cycle with many waiting gangs: the first one, one after a gang has ended, one with nothing to do, and one after a
node or a quota has changed.

A thousand pools in cohorts; half of the inner cohorts have a borrowing limit, and a third of the pools lend at most half.  Gangs
of all priorities and many shapes: about 34 buckets per pool with 100,000 gangs.
"""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from statistics import median
from time import process_time
from typing import NamedTuple

from bench.racks import GPUS, KEYS, Cluster, gang, made
from bench.section import Cell, verdict
from bench.timing import as_served
from bench.world import cycle, queue
from runrig.domain.gangs import Gang, GangState, Priority, Requirement
from runrig.domain.nodes import DEFAULT_FLAVOR
from runrig.domain.plan import Admit, PutCohort, PutPool, Release
from runrig.domain.pools import Cohort, Pool, Quota
from runrig.domain.quantities import GPU, FlavorResource
from runrig.domain.steps import drained
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.scheduling.queue_order import ahead_of
from runrig.engine.state.state import State

SIZES = ((1_000, 1_000), (1_000, 10_000), (10_000, 10_000), (10_000, 100_000))
"""Nodes, and waiting gangs."""
POOLS, POOLS_PER_COHORT = 1000, 10
KEY = FlavorResource(DEFAULT_FLAVOR, GPU)
PRIORITIES = (Priority.HIGH, Priority.NORMAL, Priority.NORMAL, Priority.LOW, Priority.LOW, Priority.LOW)
SHAPES = ((1, 1), (1, 1), (1, 2), (1, 4), (1, 8), (1, 8), (2, 8), (4, 8), (8, 4), (8, 8))
"""Pods, and GPUs of each."""
NEAR: tuple[tuple[Requirement, ...], ...] = ((), (), (Requirement("rack", required=False),), (Requirement("rack"),))
FIRST_MS, AFTER_MS = 10_000.0, 5.0
"""Targets with 100,000 waiting; processor time."""
OLD: dict[tuple[int, int], tuple[float, float, float]] = {
    (1_000, 10_000): (1357, 55, 41),
    (10_000, 100_000): (7071, 390, 190),
}
"""Milliseconds of the first cycle, one after an end, and one at rest, when every bucket was evaluated; the first profiled."""

OLD_LENDER = {(1_000, 10_000): 241}
"""Milliseconds of a cycle after a pool that keeps some of its quota got more, when that woke all buckets."""

KINDS = (
    *((Priority.HIGH, gpus) for gpus in (1, 2)),
    *((Priority.NORMAL, gpus) for gpus in (1, 2, 4)),
    *((Priority.LOW, gpus) for gpus in (1, 2, 3, 4, 5, 8)),
)
"""The kinds of gangs, all with one pod: 11,000 buckets in 1,000 pools."""
POSITION_MS = 7.0
OLD_POSITION = {Priority.HIGH: (38, 2.8), Priority.NORMAL: (41, 4.8), Priority.LOW: (54, 15)}
"""When each bucket was evaluated anew, and when each was looked at."""

ABOUT_POSITION = "the place of one gang among 100,000 that wait in 11,000 buckets, processor ms; old: each bucket asked anew, looked at"
ABOUT_WAITING = "a cycle with 1,000 pools, ms of processor time; old: when every bucket was looked at"


class Measured(NamedTuple):
    """Milliseconds of processor time; *after*: of each cycle after an end, *rest*: of each with nothing to do.

    *node*, *quota*, *lender*: of each after a node changed its readiness, and after a pool got more quota that lends all of it,
    or keeps some.  The cost of declaring these is in `edits`.
    """

    first: float
    after: list[float]
    rest: list[float]
    node: list[float]
    quota: list[float]
    lender: list[float]


def world(nodes: int) -> Ledger:
    return cluster(nodes).ledger


def cluster(nodes: int) -> State:
    """Nothing runs and nothing waits."""
    each = nodes * GPUS // POOLS
    limit = {KEY: Quota(0, POOLS_PER_COHORT * each // 2)}
    inner = [Cohort(f"c{at}", f"top{at // 10}", limit if at % 2 else {}) for at in range(POOLS // POOLS_PER_COHORT)]
    state = made(Cluster(nodes), [Pool("team", {KEY: Quota(0)})])
    state.apply(PutPool(Pool("others", {KEY: Quota(0)})), 0)
    for cohort in (*(Cohort(f"top{at}") for at in range(len(inner) // 10)), *inner):
        state.apply(PutCohort(cohort), 0)
    for at in range(POOLS):
        quota = Quota(each, None, each // 2 if at % 3 == 0 else None)
        state.apply(
            PutPool(Pool(f"p{at:04}", {KEY: quota}, cohort=f"c{at // POOLS_PER_COHORT}", topology_keys=KEYS)), 0
        )
    return state


def gangs(count: int) -> Iterator[Gang]:
    mix = Random(1)
    for at in range(count):
        pods, gpus = mix.choice(SHAPES)
        near = mix.choice(NEAR) if pods > 1 else ()
        pool, priority = f"p{mix.randrange(POOLS):04}", mix.choice(PRIORITIES)
        yield gang(f"g{at:06}/g", pods, near, gpus=gpus, pool=pool, priority=priority, at=float(at))


def measured(nodes: int, waiting: int, runs: int) -> Measured:
    """The first cycle over an empty cluster; then gangs end one by one, each followed by two cycles."""
    ledger = world(nodes)
    assert ledger.tree.root.active
    queue(ledger, gangs(waiting))
    with as_served():
        first, started = _timed(ledger, 1)
        assert started, "some gangs start in an empty cluster"
        assert _timed(ledger, 2)[1] == 0
        mix = Random(2)
        after, rest = [], []
        for at in range(max(runs, 5)):
            held = sorted(name for name, entry in ledger.entries.items() if entry.state is GangState.ADMITTED)
            ledger.apply(Release(mix.choice(held)), 3 + at)
            after.append(_timed(ledger, 3 + at)[0])
            milliseconds, started = _timed(ledger, 3 + at)
            assert started == 0, "one cycle decides all that can be decided"
            rest.append(milliseconds)
        return Measured(first, after, rest, *_declared(ledger, mix, max(runs, 5)))


def _declared(ledger: Ledger, mix: Random, runs: int) -> tuple[list[float], list[float], list[float]]:
    node: list[float] = []
    quota: tuple[list[float], list[float]] = ([], [])
    for _ in range(runs):
        changed = ledger.nodes.by_name[mix.choice(sorted(ledger.nodes.by_name))].node
        for each in (replace(changed, ready=False), changed):
            ledger.put_node(each)
            node.append(_timed(ledger, 10)[0])
        for lends, times in enumerate(quota):
            pool = ledger.pools[f"p{3 * mix.randrange(POOLS // 3) + 1 - lends:04}"]
            more = replace(pool.quotas[KEY], nominal=pool.quotas[KEY].nominal + GPUS)
            ledger.put_pool(replace(pool, quotas={KEY: more}))
            times.append(_timed(ledger, 10)[0])
    return node, *quota


def _timed(ledger: Ledger, at: float) -> tuple[float, int]:
    """Milliseconds, and how many gangs started."""
    start = process_time()
    decided = cycle(ledger, at)
    return (process_time() - start) * 1000, sum(isinstance(each, Admit) for each in decided)


def waiting_rows(runs: int) -> Iterator[dict[str, Cell]]:
    for nodes, many in SIZES:
        found, old = measured(nodes, many, runs), OLD.get((nodes, many), ("-", "-", "-"))
        after = median(found.after)
        row: dict[str, Cell] = {"nodes": nodes, "waiting": many, "first": found.first, "old first": old[0]}
        row |= {"after an end": after, "slowest": max(found.after), "old after": old[1]}
        row |= {"after a node": median(found.node), "after a quota": median(found.quota)}
        row |= {"after a lender's": median(found.lender), "old after a lender's": OLD_LENDER.get((nodes, many), "-")}
        row |= {"at rest": median(found.rest), "old at rest": old[2], "target": f"{FIRST_MS:g}, {AFTER_MS:g}"}
        yield row | {"is": verdict(found.first <= FIRST_MS and after <= AFTER_MS)}


def position_rows(runs: int) -> Iterator[dict[str, Cell]]:
    """Measures some gangs of each priority, one after another; the first LOW gang also evaluates its bucket."""
    ledger, mix = world(1_000), Random(1)
    for at in range(100_000):
        pool, (priority, gpus) = f"p{mix.randrange(POOLS):04}", mix.choice(KINDS)
        queue(ledger, [gang(f"g{at:06}/g", 1, (), gpus=gpus, pool=pool, priority=priority, at=float(at))])
    cycle(ledger, 1)
    with as_served():
        for priority in Priority:
            waits = [
                each for bucket in ledger.pending.values() for each in bucket.waiting if each.gang.priority is priority
            ]
            times = []
            for entry in mix.sample(waits, max(runs, 15)):
                start = process_time()
                drained(ahead_of(ledger, entry))
                times.append((process_time() - start) * 1000)
            row: dict[str, Cell] = {
                "of": priority.value,
                "waiting": len(waits),
                "buckets": len(ledger.pending),
            }
            row |= {"median": median(times), "slowest": max(times), "target": POSITION_MS}
            row |= {"old": ", ".join(f"{each:g}" for each in OLD_POSITION[priority])}
            yield row | {"is": verdict(median(times) <= POSITION_MS)}
