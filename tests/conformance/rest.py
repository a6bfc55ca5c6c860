"""Does a system come to rest?  A fixed set of work that never ends may cause only so many preemptions (law R5)."""

from collections import deque
from dataclasses import dataclass, replace

from runrig.domain.kueue import Settings
from runrig.kueue.decisions import CycleReport
from runrig.kueue.declared import System
from runrig.kueue.engine.simulator import Simulator


@dataclass(frozen=True, slots=True)
class Rest:
    """*cycles* until two woken rounds in a row saw no preemption, None if that did not happen within the bound."""

    cycles: int | None
    preemptions: int


def run(system: System, settings: Settings, *, patient: bool, bound: int, one_by_one: bool = False) -> Rest:
    """Work is submitted in order of creation; what is preempted is gone before the next cycle.

    After a quiet cycle everything parked is woken.  *patient*: a cycle that parks somebody is not quiet, so that each
    round looks at all work; else only one that admits or preempts.  *one_by_one*: one workload per cycle, else all at once.
    """
    world = Simulator(replace(system, workloads=()), settings)
    coming = deque(sorted(system.workloads, key=lambda each: (each.created_at, each.name)))
    preemptions, calm_rounds, calm, parked = 0, -1, True, frozenset[str]()
    for number in range(1, bound + 1):
        for _ in range(1 if one_by_one else len(coming)):
            if coming:
                world.submit(coming.popleft())
        report = world.cycle(system.now + number)
        world.carry_out()
        preemptions += len(report.preempted)
        calm = calm and not report.preempted
        before, parked = parked, _parked(report)
        if coming or report.admitted or report.preempted or (patient and parked != before):
            continue
        calm_rounds = calm_rounds + 1 if calm else 0
        if calm_rounds >= 2:
            return Rest(number, preemptions)
        world.wake()
        calm, parked = True, frozenset()
    return Rest(None, preemptions)


def _parked(report: CycleReport) -> frozenset[str]:
    return frozenset(each.workload for each in report.pending if each.parked)
