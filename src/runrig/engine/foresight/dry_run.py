"""Dry runs: the effect of the next cycle on a workflow that is not submitted, or would be changed. Its gangs are queued
in a what-if run.
"""

from collections.abc import Sequence
from itertools import chain, islice

from runrig.domain.blockers import Verdict
from runrig.domain.gangs import IN_QUEUE, Gang, nodes_of
from runrig.domain.plan import Admit, Nominate, Preempt, Queue, Unqueue
from runrig.domain.pools import paused_through
from runrig.domain.reasons import Reason
from runrig.domain.shown.dry_run import GroupDryRun
from runrig.domain.shown.why import reason_paused
from runrig.domain.steps import Steps, drained
from runrig.engine.explain.why import explain, of_budgets
from runrig.engine.foresight.on_trial import OnTrial
from runrig.engine.state.state import State

MOST_LOOKS = 2_000
"""Maximum number of gangs evaluated; the verdict on gangs behind them is NOT_PROVEN."""


def dry_run(
    state: State, gangs: Sequence[Gang], now: float, *, most_looks: int = MOST_LOOKS
) -> Steps[tuple[GroupDryRun, ...]]:
    """One result per gang of *gangs*, which belong to one workflow. Gangs of it that are waiting are replaced by these.

    Empty if it has started in the meantime, or if another workflow has its name. Does not change *state*.
    """
    ledger = state.ledger
    there = [ledger.entries[gang.id] for gang in gangs if gang.id in ledger.entries]
    if any(entry.gang.submitted_at != gangs[0].submitted_at or entry.state not in IN_QUEUE for entry in there):
        return ()
    groups = {gang.id: gang.id.partition("/")[2] for gang in gangs}
    found = {gang.id: GroupDryRun(groups[gang.id], Verdict.NOT_PROVEN) for gang in gangs}
    looks = 0
    outside = _outside(state, gangs[0]) if gangs else ()
    if outside:
        return tuple(GroupDryRun(name, Verdict.WAITS, reasons=outside) for name in groups.values())
    yield
    with OnTrial(ledger, now) as trial:
        for entry in there:
            trial.apply(Unqueue(entry.gang.id))
        for gang in gangs:
            trial.apply(Queue(gang))
        for action in trial.cycle():
            match action:
                case None:
                    looks += 1
                case Admit(name, placement) if name in found:
                    found[name] = GroupDryRun(groups[name], Verdict.STARTS, nodes_of(placement))
                case Nominate(name, placement, stops) if name in found:
                    found[name] = GroupDryRun(
                        groups[name], Verdict.STARTS_AFTER_STOPS, nodes_of(placement), tuple(stops)
                    )
                case Preempt(name) if name in found:  # by its own sibling, so it counts as not started
                    found[name] = GroupDryRun(groups[name], Verdict.NOT_PROVEN)
            if looks > most_looks or all(each.verdict.starts for each in found.values()):
                break
        else:
            for name in [name for name, each in found.items() if each.verdict is Verdict.NOT_PROVEN]:
                found[name] = GroupDryRun(
                    groups[name], Verdict.WAITS, reasons=drained(explain(ledger, ledger.entries[name]))
                )
    return tuple(found.values())


def _outside(state: State, gang: Gang) -> tuple[Reason, ...]:
    """Why a gang like this would not be in the queue."""
    paused = paused_through(state.pools, gang.pool)
    reached = of_budgets(state, gang.pool, gang.user, gang.priority)
    return tuple(islice(chain(() if paused is None else (reason_paused(paused),), reached), 1))
