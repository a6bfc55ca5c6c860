"""A day's work through imported queues in virtual time: how long decisions take, and how long work waits.

The clock jumps from one instant with an end or a submission to the next, and decisions take no virtual time.  At each instant,
first all due work ends, then all due work is submitted, then cycles run until no head is left.  Preempted work leaves and waits
again before the next cycle.  A workload starts from zero each time it is admitted.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from time import perf_counter
from typing import NamedTuple

from bench.kueue import MODES
from runrig.domain.kueue import Settings
from runrig.domain.pools import Quota
from runrig.domain.quantities import CPU, FlavorResource
from runrig.kueue.declared import (
    ClusterQueue,
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

FLAVOR = "default"
CORE = 1000


@dataclass(frozen=True, slots=True)
class Batch:
    """Each queue gets *count* equal workloads, one every *interval_ms*; each runs for *runtime_ms* once it is admitted."""

    kind: str
    count: int
    interval_ms: int
    runtime_ms: int
    priority: int
    cores: int


class Trace(NamedTuple):
    """Queues of 20 cores that can borrow 100 more."""

    cohorts: int
    queues_per_cohort: int
    batches: tuple[Batch, ...]


BASELINE = Trace(
    5,
    6,
    (
        Batch("small", 350, 100, 200, 50, 1),
        Batch("medium", 100, 500, 500, 100, 5),
        Batch("large", 50, 1200, 1000, 200, 20),
    ),
)
LARGE_SCALE = Trace(
    10,
    100,
    (
        Batch("small", 35, 60, 150, 50, 1),
        Batch("medium", 11, 300, 350, 100, 5),
        Batch("large", 4, 700, 700, 200, 20),
    ),
)


class Arrival(NamedTuple):
    at_ms: int
    batch: Batch
    workload: Workload


@dataclass
class Outcome:
    """*idle*: cycles that neither admitted nor preempted.  *waits_first*, *waits_last*: by kind, mean ms from submission.
    *seconds*: of decisions.  *around*: of the work between cycles.  *slowest*: of one cycle.
    """

    makespan_ms: int = 0
    cycles: int = 0
    idle: int = 0
    admissions: int = 0
    evictions: int = 0
    waits_first: dict[str, float] = field(default_factory=dict)
    waits_last: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    around: float = 0.0
    slowest: float = 0.0


def replay(settings: Settings, trace: Trace) -> Outcome:
    """Runs *trace* until everything has ended."""
    run = _Run(trace, settings)
    run.to_the_end()
    return run.outcome()


def queues(trace: Trace) -> list[ClusterQueue]:
    group = ResourceGroup((CPU,), (FLAVOR,))
    quotas = {FlavorResource(FLAVOR, CPU): Quota(20 * CORE, 100 * CORE)}
    policies = Policies(within_queue=Policy.LOWER, reclaim=Policy.ANY)
    return [
        ClusterQueue(f"c{cohort:02}-q{each:03}", (group,), quotas, f"c{cohort:02}", policies=policies)
        for cohort in range(trace.cohorts)
        for each in range(trace.queues_per_cohort)
    ]


def arrivals(trace: Trace) -> list[Arrival]:
    """Returns the arrivals by time; within an instant by batch, then by queue."""
    targets = queues(trace)
    return sorted(
        (
            Arrival((each + 1) * batch.interval_ms, batch, _workload(batch, queue, each))
            for batch in trace.batches
            for each in range(batch.count)
            for queue in targets
        ),
        key=lambda arrival: arrival.at_ms,
    )


def _workload(batch: Batch, queue: ClusterQueue, number: int) -> Workload:
    at = (number + 1) * batch.interval_ms / 1000
    name = f"{queue.name}-{batch.kind}-{number:04}"
    pod_sets = (WorkloadPodSet(requests=((CPU, batch.cores * CORE),)),)
    return Workload(name, queue.name, pod_sets, batch.priority, created_at=at, queued_at=at, uid=name)


class _Run:
    def __init__(self, trace: Trace, settings: Settings) -> None:
        self._arrivals = arrivals(trace)
        self._by_name = {each.workload.name: each for each in self._arrivals}
        cohorts = tuple(QueueCohort(f"c{each:02}") for each in range(trace.cohorts))
        self._world = Simulator(System(cohorts, tuple(queues(trace)), (ResourceFlavor(FLAVOR),)), settings)
        self._ends: list[tuple[int, str]] = []
        self._runs_until: dict[str, int] = {}
        self._first: dict[str, int] = {}
        self._last: dict[str, int] = {}
        self._done = Outcome()
        self._now_ms = 0

    def to_the_end(self) -> None:
        waiting: Iterator[Arrival] = iter(self._arrivals)
        arrival = next(waiting, None)
        while arrival is not None or self._ends:
            due = [arrival.at_ms] if arrival is not None else []
            self._now_ms = min(due + [at_ms for at_ms, _ in self._ends[:1]])
            start = perf_counter()
            while self._ends and self._ends[0][0] == self._now_ms:
                self._end(*heappop(self._ends))
            while arrival is not None and arrival.at_ms == self._now_ms:
                self._world.submit(arrival.workload)
                arrival = next(waiting, None)
            self._done.around += perf_counter() - start
            while self._cycle():
                pass
        assert len(self._last) == len(self._arrivals), "each queue has its turn"
        assert not self._runs_until

    def _end(self, at_ms: int, name: str) -> None:
        if self._runs_until.get(name) == at_ms:  # otherwise it was preempted
            del self._runs_until[name]
            self._world.finish(name)
            self._done.makespan_ms = at_ms

    def _cycle(self) -> bool:
        """True if a head was evaluated."""
        done, start = self._done, perf_counter()
        cycle = self._world.decide(self._now_ms / 1000)
        seconds = perf_counter() - start
        if not cycle.looked:
            return False
        done.seconds += seconds
        done.slowest = max(done.slowest, seconds)
        done.cycles += 1
        for admission in cycle.admitted:
            self._starts(admission.workload)
        if cycle.preempted:
            start = perf_counter()
            gone = self._world.carry_out()
            done.around += perf_counter() - start
            assert set(gone) == {each.workload for each in cycle.preempted}
            for name in gone:
                del self._runs_until[name]
            done.evictions += len(gone)
        done.idle += not (cycle.admitted or cycle.preempted)
        return True

    def _starts(self, name: str) -> None:
        arrival = self._by_name[name]
        ends = self._now_ms + arrival.batch.runtime_ms
        self._first.setdefault(name, self._now_ms - arrival.at_ms)
        self._last[name] = self._now_ms - arrival.at_ms
        self._runs_until[name] = ends
        heappush(self._ends, (ends, name))
        self._done.admissions += 1

    def outcome(self) -> Outcome:
        done = self._done
        done.waits_first, done.waits_last = self._means(self._first), self._means(self._last)
        assert done.admissions == len(self._arrivals) + done.evictions, "each workload ends once"
        return done

    def _means(self, waits: Mapping[str, int]) -> dict[str, float]:
        """Returns the mean wait of each kind."""
        sums: dict[str, list[int]] = {}
        for name, wait in waits.items():
            sums.setdefault(self._by_name[name].batch.kind, []).append(wait)
        return {kind: sum(each) / len(each) for kind, each in sums.items()}


REPLAYS: Mapping[str, Callable[[], Outcome]] = {
    name + mode: partial(replay, settings, trace)
    for mode, settings in MODES.items()
    for name, trace in {"replay_baseline": BASELINE, "replay_large_scale": LARGE_SCALE}.items()
}
