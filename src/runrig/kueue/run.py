"""Simulates Kueue manifests cycle by cycle. As in Kueue, a cycle considers one head per cluster queue."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from runrig.domain.kueue import Preemption, Settings, Warned
from runrig.kueue import decisions
from runrig.kueue.decisions import CycleReport
from runrig.kueue.declared import GATES as KNOWN_GATES
from runrig.kueue.declared import Granted, StopPolicy, Workload
from runrig.kueue.engine.scheduler_context import GATES, PREEMPTORS_FIRST
from runrig.kueue.engine.simulator import Simulator
from runrig.kueue.options import Options
from runrig.kueue.read import Manifests
from runrig.kueue.read.jobs import Changes, started, suspended
from runrig.wire.simulate import Admitted, Cycle, Moment, Outcome, PodSetStarted, TreeNode

_ALWAYS_ON = ("HierarchicalCohorts",)
MOST_IDLE = 250
"""A run without a fixed number of cycles stops after this many consecutive cycles without an admission or a preemption.
"""


def _without_effect(settings: Settings, said: Settings) -> Iterator[Warned]:
    """Yields a warning for each gate of *settings* that has no effect here. *said*: the settings given as options."""
    known = {*GATES, PREEMPTORS_FIRST} if settings.as_peer else set(GATES)
    for gate in sorted(set(settings.gates) - known):
        path = "--feature-gates" if gate in said.gates else "Configuration, featureGates"
        if gate in _ALWAYS_ON:
            if not settings.gates[gate]:
                yield Warned(0, path, f"{gate} cannot be turned off: the simulation always uses hierarchical cohorts")
            continue
        yield Warned(0, path, f"{gate} is ignored: the feature is not simulated")


def _together(said: Settings, found: Settings) -> Settings:
    """The settings of the options *said*, completed by those in the files, *found*, that affect admission."""
    gates = {name: on for name, on in found.gates.items() if name in KNOWN_GATES}
    strategies = found.strategies if said.strategies is None else said.strategies
    return Settings(strategies, {**gates, **said.gates}, said.as_peer)


class KueueRun:
    """One run. Cycle k takes place at T0 + k seconds; workloads preempted in a cycle stop before the next one."""

    def __init__(self, name: str, manifests: Manifests, options: Options) -> None:
        self._name = name
        self._manifests = manifests
        self._most = options.cycles
        self._said = options.settings
        self._settings = _together(options.settings, manifests.settings)
        self._gates = {**GATES, **self._settings.gates}
        self._world = Simulator(manifests.system, self._settings)
        self._workloads = {each.name: each for each in manifests.system.workloads}
        self._jobs = {each.workload: each for each in manifests.jobs}
        self._cycles: list[Cycle] = []
        self._circle = 0
        self._turns = False  # preempted workloads may preempt in turn, so that states can repeat
        self._before = _moment(self._world)

    def steps(self) -> Iterator[int]:
        """Runs the simulation; after each cycle, yields the number of cycles so far."""
        seen, idle = {self._state(): 0}, 0
        while True:
            done = len(self._cycles) + 1
            report = self._world.cycle(self._manifests.system.now + done)
            self._cycles.append(self._cycle(report))
            yield done
            if done == self._most:
                return
            gone = self._world.carry_out()
            if self._most:
                continue
            idle = 0 if report.admitted or report.preempted or gone else idle + 1
            self._turns |= self._settings.as_peer and bool(report.preempted)
            if not idle and not self._turns:
                seen.clear()  # earlier states cannot occur again
            state = self._state()
            if state in seen or idle > MOST_IDLE:
                since = seen.get(state, done)
                if any(each.admitted or each.preempted for each in self._cycles[since:]):
                    self._circle = since + 1
                return
            seen[state] = done

    def _state(self) -> int:
        """A hash of the state. If it is equal after two cycles, the run repeats the cycles between them forever."""
        return hash((self._world.queued(), self._world.held() if self._turns else None))

    def outcome(self) -> Outcome:
        """The result of the cycles run so far."""
        return Outcome(
            scenario=self._name,
            tree=tuple(TreeNode(*each) for each in self._world.tree()),
            before=self._before,
            after=_moment(self._world),
            cycles=tuple(self._cycles),
            inactive=self._world.inactive(),
            warnings=(*self._manifests.warnings, *_without_effect(self._settings, self._said), *self._circle_warning()),
        )

    # ------------------------------------------------------------ output

    def _circle_warning(self) -> Iterator[Warned]:
        if self._circle:
            last = len(self._cycles)
            yield Warned(
                0, "--as-peer", f"cycles {self._circle} to {last} repeat forever: work is evicted and admitted in turn"
            )

    def _cycle(self, report: CycleReport) -> Cycle:
        return Cycle(
            admitted=tuple(self._admitted(each) for each in report.admitted),
            preempted=tuple(self._preempted(each) for each in report.preempted),
            pending=tuple(
                replace(each, note=_held_back(self._workloads[each.workload], self._gates)) for each in report.pending
            ),
            skipped=report.skipped,
        )

    def _admitted(self, admission: decisions.Admission) -> Admitted:
        workload = self._workloads[admission.workload]
        pod_sets = tuple(_started(workload, each) for each in admission.granted)
        return Admitted(admission.workload, admission.queue, pod_sets, admission.reserved_only, self._job(admission))

    def _job(self, admission: decisions.Admission) -> Changes | None:
        """The patch that starts its job; None if it has none, or while admission checks keep it suspended."""
        job = self._jobs.get(admission.workload)
        if job is None or admission.reserved_only:
            return None
        return started(job, {each.pod_set: each.count for each in admission.granted})

    def _preempted(self, preemption: Preemption) -> Preemption:
        job = self._jobs.get(preemption.workload)
        return preemption if job is None else replace(preemption, job=suspended(job))


def _started(workload: Workload, granted: Granted) -> PodSetStarted:
    asked = next(each.count for each in workload.pod_sets if each.name == granted.pod_set)
    return PodSetStarted(
        granted.pod_set,
        granted.count,
        asked,
        granted.flavors,
        nodes=tuple((each.domain[-1], each.count) for each in granted.placement),
        placement=tuple((each.domain, each.count) for each in granted.placement),
    )


def _held_back(workload: Workload, gates: Mapping[str, bool]) -> str:
    """Why no cycle will consider it; empty if one may."""
    if workload.problem:
        return workload.problem
    if not workload.active:
        return "it is not active"
    if workload.held and (gates["AdmissionGatedBy"] or not workload.gated):
        return workload.held
    return "" if workload.stop is StopPolicy.NONE else f"its local queue is stopped ({workload.stop.value})"


def _moment(simulator: Simulator) -> Moment:
    return Moment(simulator.quotas(), simulator.shares())
