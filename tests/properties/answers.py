"""Do the answers of `why` agree with the next cycle?"""

from runrig.domain.blockers import Blocker, Tier, Verdict
from runrig.domain.plan import Admit, Nominate
from runrig.domain.reasons import Code
from runrig.engine.explain.why import GroupWhy, why
from runrig.engine.ledger.options import flavor_choices
from runrig.engine.placement.partial import least_counts
from runrig.engine.scheduling.admission import decide
from runrig.engine.scheduling.verdicts import at_rest
from runrig.engine.state.state import State
from tests.properties.oracle import Oracle


def answers(state: State) -> dict[str, GroupWhy]:
    """Returns the answer for every gang that waits or is nominated."""
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


def check_blockers(state: State) -> None:
    """Asks the second opinion: quota blocks a choice if and only if quota does not allow it; the same for nodes."""
    decided = Oracle.decided(state)
    for gang, answer in answers(state).items():
        entry = state.ledger.entries[gang]
        told: dict[tuple[str, ...], list[Blocker]] = {}
        for blocker in answer.blockers:
            if blocker.flavors:
                told.setdefault(blocker.flavors, []).append(blocker)
        for choice in flavor_choices(state.ledger, entry, least_counts(entry.gang.pod_sets)):
            here = told.get(tuple(each.flavor for each in choice))
            if here is None:
                continue
            tiers = {blocker.tier for blocker in here}
            assert (Tier.QUOTA in tiers) is not decided.allows(entry.gang, choice), (gang, here)
            assert (Tier.SHAPE in tiers) is not decided.could_place(entry.gang, choice), (gang, here)
            promised = all(
                decided.promised(entry.gang.pool, key, amount)
                for key, amount in decided.quota_part(entry.gang, choice).items()
            )
            beyond = any(blocker.reason.code is Code.QUOTA_FULL for blocker in here)
            assert beyond is (entry.bucket.firm and not promised), (gang, here)


def check_agreement(state: State, twin: State) -> None:
    """*twin*: the same, loaded from rows; spoilt afterwards."""
    told, resting = answers(state), at_rest(state.ledger)
    check_blockers(state)
    does = starts(twin)
    for gang, answer in told.items():
        assert answer.verdict in (None, does.get(gang, Verdict.WAITS)), f"{gang}: {answer}, but {does.get(gang)}"
        assert bool(answer.reasons) == (answer.verdict is None or not answer.verdict.starts), answer
    if resting:
        assert does == {}
        assert all(answer.verdict is Verdict.WAITS for answer in told.values())
