"""Gangs with topology on 10,000 nodes: placement, whole cycles, preemption, fewer pods, and why one waits.

Each scenario checks that the decisions are valid; the tables show how few hosts, racks and blocks the gangs use.
"""

from collections.abc import Iterable, Iterator, Mapping
from statistics import median
from time import perf_counter
from typing import NamedTuple

from bench.growth import Point
from bench.racks import FULL, GPUS, OTHERS, POOL, Cluster, Used, check, gang, hold, host_of, made, pool, queued
from bench.timing import Times, timed
from bench.world import UNIT, queue, timed_cycle
from runrig.domain.gangs import Placement, Priority, Requirement
from runrig.domain.plan import Admit, Queue, Release, Submit
from runrig.domain.quantities import requests_of
from runrig.domain.reasons import Code
from runrig.domain.steps import drained
from runrig.domain.workflows import Group, GroupSpec, TaskSpec, Workflow, WorkflowSpec
from runrig.engine.explain.blockers import blockers
from runrig.engine.explain.why import why
from runrig.engine.ledger.fit import find_place
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.queue import Entry
from runrig.engine.preemption.targets import Targets, find_targets
from runrig.engine.state.state import State

CALLS = 20
"""Calls per run if a call takes less than a millisecond.  The median counts, so the first call, one after the collector, and one
that another process interrupts do not.  The reference is the minimum of single calls.
"""
T4_SMALL = Cluster(5 * 13 * 16, racks=13)
NOWHERE = Used(0, 0, 0)


class Measured(NamedTuple):
    """*cold*: seconds of the first call for this shape.  *changed*: of the first calls after another gang started or ended.
    *used*: the domains of the gang, or of all.  *many*: gangs or pods, depending on the scenario.
    """

    cold: float
    times: Times
    used: Used = NOWHERE
    changed: Times | None = None
    many: int = 0


# ---------------------------------------------------------------- T1: where one gang goes


class Asked(NamedTuple):
    pods: int
    near: tuple[Requirement, ...] = ()
    gpus: int = 1
    busy: bool = False


def required(level: str, slice_size: int | None = None) -> Requirement:
    return Requirement(level, slice_size=slice_size)


def preferred(level: str) -> Requirement:
    return Requirement(level, required=False)


_IN_BLOCK, _IN_RACK, _NEAR_RACK = (required("block"),), (required("rack"),), (preferred("rack"),)
_SLICED = (required("block"), required("rack", 64))

PLACES: Mapping[str, Asked] = {
    "A": Asked(512, _IN_BLOCK),
    "B": Asked(512, _IN_BLOCK, busy=True),
    "C": Asked(512, _NEAR_RACK),
    "D": Asked(512, _NEAR_RACK, busy=True),
    "E": Asked(512),
    "F": Asked(512, busy=True),
    "G": Asked(512, _SLICED),
    "H": Asked(512, _SLICED, busy=True),
    "I": Asked(4096, _IN_BLOCK),
    "J": Asked(512, (preferred("block"),), GPUS),
    "K": Asked(128, _IN_RACK),
    "L": Asked(64, _IN_RACK, busy=True),
    "M": Asked(512, (*_SLICED, required("host", GPUS))),
    "N": Asked(512, _NEAR_RACK),
    "O": Asked(512, _NEAR_RACK, busy=True),
    "P": Asked(1, (preferred("host"),), GPUS, busy=True),
}
"""Name, as in `reference` → what is asked.  N and O: the reference spreads pods evenly there, and runrig packs them anyway."""


def place(asked: Asked, runs: int, cluster: Cluster = FULL, state: State | None = None) -> Measured:
    """Finding a placement for one gang; nothing is admitted except between the calls of *changed*."""
    cluster = cluster._replace(busy=asked.busy)
    ledger = (state or made(cluster)).ledger
    entry = queued(ledger, gang("asked-1/g", asked.pods, asked.near, gpus=asked.gpus))
    cold, placement = _timed_place(ledger, entry)
    times = timed(lambda: median(_timed_place(ledger, entry)[0] for _ in range(CALLS)), runs)
    assert _timed_place(ledger, entry)[1] == placement, "the same question has the same answer"
    changed = timed(lambda: median(_after_changes(ledger, entry)), min(runs, 2))
    ledger.apply(Release(entry.gang.id), 0)
    used = NOWHERE if placement is None else check(cluster, [(entry.gang, placement)])
    return Measured(cold, times, used, changed)


def _timed_place(ledger: Ledger, entry: Entry) -> tuple[float, Placement | None]:
    start = perf_counter()
    found = find_place(ledger, entry, entry.bucket.counts)
    return perf_counter() - start, found


def _after_changes(ledger: Ledger, entry: Entry) -> Iterator[float]:
    """A gang of one pod starts on the first host, which is empty, and ends."""
    for _ in range(CALLS):
        hold(ledger, gang("passing-1/g", 1, pool=OTHERS), {0: 1}, 0)
        yield _timed_place(ledger, entry)[0]
        ledger.apply(Release("passing-1/g"), 0)
        yield _timed_place(ledger, entry)[0]


# ---------------------------------------------------------------- T3: a thousand gangs from a hundred pools


class Stream(NamedTuple):
    """*at_once*: all gangs wait for the first cycle; else a gang of each pool comes before each."""

    near: tuple[Requirement, ...]
    at_once: bool = False


STREAMS: Mapping[str, Stream] = {
    "required rack": Stream(_IN_RACK),
    "preferred rack": Stream(_NEAR_RACK),
    "unconstrained": Stream(()),
    "required rack, one cycle": Stream(_IN_RACK, at_once=True),
}


def throughput(stream: Stream, cluster: Cluster = FULL, pools: int = 100, gangs: int = 1000) -> tuple[float, Used]:
    """Seconds of all cycles until all *gangs* of 8 whole nodes are admitted, and the domains that they use."""
    names = [f"p{each:03}" for each in range(pools)]
    ledger = made(cluster, [pool(name, 800, "all") for name in names]).ledger
    waiting = [
        gang(f"w{each:04}-1/g", GPUS, stream.near, gpus=GPUS, pool=names[each % pools], at=each)
        for each in range(gangs)
    ]
    total, placed, step = 0.0, dict[str, Placement](), gangs if stream.at_once else pools
    for first in range(0, gangs, step):
        queue(ledger, waiting[first : first + step])
        seconds, decisions = timed_cycle(ledger, gangs + first)
        total += seconds
        placed |= {each.gang: each.placement for each in decisions if isinstance(each, Admit)}
    assert len(placed) == gangs, f"{len(placed)} of {gangs} started"
    return total, check(cluster, ((each, placed[each.id]) for each in waiting))


def streamed(stream: Stream, runs: int) -> Measured:
    found: list[Used] = []

    def measure() -> float:
        seconds, used = throughput(stream)
        found.append(used)
        return seconds

    times = timed(measure, runs)
    return Measured(times.seconds[0], times, found[0])


# ---------------------------------------------------------------- T4: who stops


class Blocked(NamedTuple):
    """*told*: how many gangs must stop."""

    near: tuple[Requirement, ...]
    pods: int
    told: int
    cluster: Cluster = FULL


BLOCKED: Mapping[str, Blocked] = {
    "1k required block 64x8": Blocked(_IN_BLOCK, 64, 8, T4_SMALL),
    "10k required block 64x8": Blocked(_IN_BLOCK, 64, 8),
    "10k required rack 16x8": Blocked(_IN_RACK, 16, 2),
    "10k preferred rack 64x8": Blocked(_NEAR_RACK, 64, 8),
}


def preempt(blocked: Blocked, runs: int) -> Measured:
    """One HIGH gang on a cluster full of LOW gangs of half a rack each: it does not fit, so which gangs stop?"""
    cluster = blocked.cluster
    ledger = made(cluster).ledger
    _fill(ledger, cluster.nodes // GPUS)
    head = gang("head-1/g", blocked.pods, blocked.near, gpus=GPUS, priority=Priority.HIGH)
    entry = queued(ledger, head)
    cold, targets = _timed_targets(ledger, entry)
    calls = CALLS if cluster is T4_SMALL else 1
    times = timed(lambda: median(_timed_targets(ledger, entry)[0] for _ in range(calls)), runs)
    assert _timed_targets(ledger, entry)[1] == targets, "the trial left everything as it was"
    assert targets is not None
    told = {each.gang for each in targets.targets}
    held = {f"low{host_of(share.node) // GPUS:04}-1/g" for share in targets.placement[0].shares}
    assert told == set(targets.gangs) == held, "it starts where they were, and no other gang stops"
    assert len(targets.targets) == blocked.told, len(targets.targets)
    return Measured(cold, times, check(cluster, [(head, targets.placement)]), many=len(told))


def _fill(ledger: Ledger, gangs: int) -> None:
    """Gang i is on hosts 8i to 8i + 7.

    The reference has priorities, (37 i) mod 100; runrig has one LOW, where the latest start is preempted first, so gangs start in
    the opposite order.
    """
    first_to_go = sorted(range(gangs), key=lambda each: (37 * each % 100, -each))
    for at, each in enumerate(reversed(first_to_go), start=1):
        low = gang(f"low{each:04}-1/g", GPUS, gpus=GPUS, priority=Priority.LOW)
        hold(ledger, low, dict.fromkeys(range(GPUS * each, GPUS * each + GPUS), 1), at)


def _timed_targets(ledger: Ledger, entry: Entry) -> tuple[float, Targets | None]:
    """As in a cycle: first searches for free nodes, without success."""
    start = perf_counter()
    placed = find_place(ledger, entry, entry.bucket.counts)
    found = find_targets(ledger, entry, entry.bucket.counts)
    seconds = perf_counter() - start
    assert placed is None
    return seconds, found


# ---------------------------------------------------------------- T5: fewer pods


def fewer(runs: int, cluster: Cluster = FULL, state: State | None = None) -> Measured:
    """A cycle with one gang of 512 pods in a rack with room for fewer: one pod starts per GPU of the rack."""
    ledger = (state or made(cluster)).ledger
    head = gang("head-1/g", 512, _IN_RACK, least=1)
    found: list[Placement] = []

    def measure() -> float:
        queue(ledger, [head])
        seconds, decisions = timed_cycle(ledger, 0)
        found.extend(each.placement for each in decisions if isinstance(each, Admit))
        ledger.apply(Release(head.id), 0)
        return seconds

    cold = measure()
    times = timed(measure, runs)
    pods = {placement[0].count for placement in found}
    assert (len(found), pods) == (runs + 1, {cluster.hosts * GPUS}), pods
    return Measured(cold, times, check(cluster, [(head, found[0])]), many=pods.pop())


# ---------------------------------------------------------------- why one waits

WAITING = (0, 50_000)
"""Gangs ahead of the one that is explained."""


def explain(waiting: int, runs: int, cluster: Cluster = FULL, state: State | None = None) -> Measured:
    """Why a gang waits that needs more pods in a rack than any rack has GPUs, behind *waiting* others."""
    cluster = cluster._replace(busy=True)
    state = state or made(cluster)
    before = (gang(f"w{each:05}-1/g", 1, gpus=GPUS, pool=OTHERS, at=each) for each in range(waiting))
    queue(state.ledger, before)
    asker = _submitted(state, cluster.hosts * GPUS * 25 // 16, waiting)

    def measure() -> float:
        start = perf_counter()
        (found,) = why(state, asker)
        blocked = drained(blockers(state.ledger, state.ledger.entries[f"{asker}/{found.group}"]))
        seconds = perf_counter() - start
        assert (found.position, found.ahead) == (1, waiting), found
        codes = {each.reason.code for each in blocked}  # not even empty racks hold it
        assert {Code.NO_EMPTY_NODES, Code.NO_DOMAIN_FITS} <= codes, blocked
        assert Code.PLACEMENT_NOT_PROVEN not in codes
        return seconds

    return Measured(measure(), timed(measure, runs), many=waiting)


def _submitted(state: State, pods: int, at: float) -> str:
    requests = requests_of(UNIT)
    task = TaskSpec("main", "image", ("true",), requests=requests, count=pods, topology=_IN_RACK)
    state.specs["hash"] = WorkflowSpec("asker", (GroupSpec("g", (task,)),))
    workflow = Workflow("asker-1", "uuid", "asker", 1, POOL, Priority.NORMAL, "user", at, "hash")
    state.apply(Submit(workflow, (Group(workflow.id, "g"),)), at)
    state.apply(Queue(gang("asker-1/g", pods, _IN_RACK, at=at)), at)
    return workflow.id


# ---------------------------------------------------------------- growth

NODES = (1_000, 10_000, 100_000)


def growth(runs: int, nodes: Iterable[int] = NODES) -> Iterator[Point]:
    """Blocks keep their size and their number grows; of 1000 nodes, the last block and its last rack are half full."""
    found = [
        Point(series, count, times, 1, "call")
        for count in nodes
        for busy in (False, True)
        for series, times in _series(min(runs, 3), Cluster(count, busy=busy))
    ]
    yield from sorted(found, key=lambda point: point.series)


def _series(runs: int, cluster: Cluster) -> Iterator[tuple[str, Times]]:
    """All on one state, which takes longest to build."""
    name, state = "B" if cluster.busy else "A", made(cluster)
    found = place(PLACES[name], runs, cluster, state)
    assert found.changed is not None
    yield f"place {name}", found.times
    yield f"place {name}, after a change", found.changed
    if cluster.busy:
        yield "why", explain(0, runs, cluster, state).times
    else:
        yield "T5", fewer(runs, cluster, state).times
