"""Why a workflow is waiting, if gangs ahead of it start first: runs the next cycle in a what-if run."""

from dataclasses import replace

from runrig.domain.blockers import Verdict
from runrig.domain.gangs import IN_QUEUE, GangState
from runrig.domain.plan import Admit, Nominate
from runrig.domain.shown.why import GroupWhy
from runrig.domain.steps import Steps, drained
from runrig.engine.explain.why import explain, why_in_steps
from runrig.engine.foresight.on_trial import OnTrial
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.queue import Entry
from runrig.engine.state.state import State

MOST_LOOKS = 500
"""Maximum number of gangs evaluated; the verdict on gangs behind them is NOT_PROVEN."""


def why_next(
    state: State, workflow: str, most_looks: int = MOST_LOOKS, element: str | None = None
) -> Steps[tuple[GroupWhy, ...]]:
    """`why`, with a verdict on each waiting group: NOT_PROVEN if more than *most_looks* gangs are ahead.

    If it waits only because gangs ahead start, *reasons* are those after this cycle, and *blockers* is empty: nothing blocks it
    yet. *element*: only this one of an array. Does not change *state*.
    """
    found = yield from why_in_steps(state, workflow, element)
    groups = []
    for each in found:
        yield
        groups.append(_settled(state.ledger, workflow, each, most_looks))
    return tuple(groups)


def _settled(ledger: Ledger, workflow: str, group: GroupWhy, most_looks: int) -> GroupWhy:
    entry = ledger.entries.get(f"{workflow}/{group.group}")
    if group.verdict is not None or entry is None or entry.state not in IN_QUEUE:
        return group
    return _on_trial(ledger, entry, group, most_looks)


def _on_trial(ledger: Ledger, entry: Entry, group: GroupWhy, most_looks: int) -> GroupWhy:
    looks = 0
    with OnTrial(ledger, float("inf")) as trial:  # gangs that start in the run count as started last
        for action in trial.cycle():
            match action:
                case None:
                    looks += 1
                case Admit(gang) if gang == entry.gang.id:
                    return replace(group, verdict=Verdict.STARTS, reasons=(), blockers=())
                case Nominate(gang, _, stops) if gang == entry.gang.id:
                    return replace(group, verdict=Verdict.STARTS_AFTER_STOPS, stops=tuple(stops), reasons=())
            if looks > most_looks:
                return replace(group, verdict=Verdict.NOT_PROVEN)
        if entry.state is GangState.NOMINATED:
            return replace(group, verdict=Verdict.WAITS)  # it waits for its targets, as reported
        return replace(group, verdict=Verdict.WAITS, reasons=drained(explain(ledger, entry)))
