"""Do the answers of `why` agree with the next cycle?"""

from runrig.domain.blockers import Verdict
from runrig.domain.plan import Admit, Nominate
from runrig.engine.explain.why import GroupWhy, why
from runrig.engine.scheduling.admission import decide
from runrig.engine.scheduling.verdicts import at_rest
from runrig.engine.state.state import State


def answers(state: State) -> dict[str, GroupWhy]:
    """Of every gang that waits or is nominated."""
    return {
        f"{workflow}/{group.group}": group
        for workflow in sorted(state.workflows)
        for group in why(state, workflow).groups
        if f"{workflow}/{group.group}" in state.ledger.entries and group.position is not None
    }


def starts(state: State) -> dict[str, Verdict]:
    """Who starts in the next cycle, and how.  Runs it on *state*."""
    found: dict[str, Verdict] = {}
    for decision in decide(state.ledger):
        match decision:
            case Admit(gang):
                found[gang] = Verdict.STARTS
            case Nominate(gang):
                found[gang] = Verdict.STARTS_AFTER_STOPS
        if decision is not None:
            state.apply(decision, 0.0)
    return found


def check_agreement(state: State, twin: State) -> None:
    """*twin*: the same, loaded from rows; spoilt afterwards."""
    told, resting = answers(state), at_rest(state.ledger)
    does = starts(twin)
    for gang, answer in told.items():
        assert answer.verdict in (None, does.get(gang, Verdict.WAITS)), f"{gang}: {answer}, but {does.get(gang)}"
        assert bool(answer.reasons) == (answer.verdict is None or not answer.verdict.starts), answer
    if resting:
        assert does == {}
        assert all(answer.verdict is Verdict.WAITS for answer in told.values())
