"""Do the answers of `why` agree with the next cycle?"""

from collections import Counter
from collections.abc import Iterator, Mapping

from runrig.domain.blockers import Blocker, Tier, Verdict
from runrig.domain.gangs import Gang, GangState, Placement, Priority
from runrig.domain.limits import EVERYWHERE
from runrig.domain.plan import Admit, Nominate
from runrig.domain.pools import Queueing, paused_through, top_level
from runrig.domain.reasons import Code
from runrig.domain.shown.sentence import first_of, first_stopping, not_upstream
from runrig.domain.shown.why import GroupWhy
from runrig.domain.steps import drained
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Status
from runrig.engine.explain.blockers import BEST_CHOICES
from runrig.engine.explain.headlines import Headline, headlines
from runrig.engine.explain.report import holding
from runrig.engine.explain.why import why
from runrig.engine.foresight.next_cycle import why_next
from runrig.engine.ledger.options import flavor_choices
from runrig.engine.ledger.queue import Entry
from runrig.engine.placement.partial import least_counts
from runrig.engine.scheduling.admission import decide
from runrig.engine.scheduling.verdicts import at_rest
from runrig.engine.state.state import State
from tests.properties.oracle import Oracle

WAITING_STATES = (GangState.PENDING, GangState.NOMINATED)
Whys = dict[str, tuple[GroupWhy, ...]]


def answers(whys: Whys) -> dict[str, GroupWhy]:
    """Returns the answer for every gang that waits or is nominated."""
    return {
        f"{workflow}/{group.group}": group
        for workflow, groups in whys.items()
        for group in groups
        if group.position is not None
    }


def starts(state: State) -> dict[str, Verdict]:
    """The gangs that start in the next cycle, and how. Runs it on *state*."""
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


def check_blockers(state: State, answered: dict[str, GroupWhy]) -> None:
    """Asks the second opinion: each blocker is one, and with all of a choice lifted nothing is in its way any more."""
    decided, empty = Oracle.decided(state), Oracle(state, [])
    for gang, answer in answered.items():
        entry = state.ledger.entries[gang]
        told: dict[tuple[str, ...], list[Blocker]] = {}
        for blocker in answer.blockers:
            told.setdefault(blocker.flavors, []).append(blocker)
        anyhow = {blocker.reason.code for blocker in told.pop((), [])}
        choices = list(flavor_choices(state.ledger, entry, least_counts(entry.gang.pod_sets)))
        for choice in choices:
            here = told.get(tuple(each.flavor for each in choice))
            if here is not None:
                check_quota(decided, entry, choice, here)
                check_submission(empty, entry, choice, here)
                in_the_way = any(blocker.tier is Tier.SHAPE for blocker in here)
                assert in_the_way is not decided.could_place(entry.gang, choice), (gang, here)
        if answer.blockers and entry.state is GangState.PENDING:
            assert (Code.BEHIND_HEAD in anyhow) is stands_behind(decided, state, entry), (gang, answer)
            if Code.COHORT_CYCLE not in anyhow:
                expected = min(BEST_CHOICES, len(choices))
                assert len(told) == expected or any(decided.has_room(entry.gang, choice) for choice in choices)


def check_quota(decided: Oracle, entry: Entry, choice: Placement, told: list[Blocker]) -> None:
    """With all quotas and limits lifted that are told, the others let it through; with all but one lifted that one does not.

    And that one lets through what it is said to have left, and no more.
    """
    lifts = {
        (blocker.reason.code, blocker.reason.where, blocker.reason.resource)
        for blocker in told
        if blocker.tier is Tier.QUOTA
    }
    assert decided.with_lifted(lifts).allows(entry.gang, choice), (entry.gang.id, told)
    asked = {str(key): (key, amount) for key, amount in decided.quota_part(entry.gang, choice).items()}
    for one in lifts:
        alone = decided.with_lifted(lifts - {one})
        assert not alone.allows(entry.gang, choice), (entry.gang.id, one, told)
        key, amount = asked[one[2]]
        said = [each.reason for each in told if (each.reason.code, each.reason.where, each.reason.resource) == one]
        assert {reason.need for reason in said} == {amount}
        have = min(reason.have for reason in said)
        assert have < 1 or alone.allows_amount(entry.gang, key, have), (entry.gang.id, one, told)
        assert not alone.allows_amount(entry.gang, key, max(0, have) + 1), (entry.gang.id, one, told)


def check_submission(empty: Oracle, entry: Entry, choice: Placement, told: list[Blocker]) -> None:
    """That it can never run is said if and only if nobody has to hold anything for it to be too much (law P3)."""
    said = {blocker.reason.resource for blocker in told if blocker.reason.code is Code.EXCEEDS_POTENTIAL}
    asked = empty.quota_part(entry.gang, choice)
    assert said == {str(key) for key, amount in asked.items() if not empty.could_ever(entry.gang, key, amount)}, told
    if any(blocker.reason.code is Code.NO_EMPTY_NODES for blocker in told):
        assert not empty.could_place(entry.gang, choice), (entry.gang.id, told)


def stands_behind(decided: Oracle, state: State, entry: Entry) -> bool:
    """Its STRICT_FIFO pool has a head, and that is another (law P4).  Those that a limit of their user stops are passed over (law W6)."""
    pool = state.pools[entry.gang.pool]
    if pool.queueing is not Queueing.STRICT_FIFO:
        return False
    here = [each for each in state.ledger.entries.values() if each.gang.pool == pool.name]
    heads = [each for each in here if each.state is GangState.NOMINATED]
    heads = heads or [each for each in here if each.state is GangState.PENDING and not stopped_by_user(state, each)]
    first = min((_place_in_line(decided, state, each) for each in heads), default=None)
    if first is None or entry in heads:
        return first is not None and first < _place_in_line(decided, state, entry)
    return not stopped_by_user(state, entry) or first < _place_in_line(decided, state, entry)


def stopped_by_user(state: State, entry: Entry) -> bool:
    """Even with its fewest pods its user would hold more than the pool or the user's own limit allows (law W6)."""
    least = entry.gang.gpus(least_counts(entry.gang.pod_sets))
    return any(held + least > most for held, most in gpus_held_beside(state, entry.gang))


def gpus_held_beside(state: State, gang: Gang) -> Iterator[tuple[int, int]]:
    """For each limit of the user of *gang*, which is pending: the GPUs held, counted one by one, and the limit."""
    user, top = state.workflows[gang.workflow].submitted_by, top_level(gang.pool)
    held = [
        (top_level(each.gang.pool), each.gang.gpus([part.count for part in each.placement]))
        for each in state.ledger.entries.values()
        if each.state is not GangState.PENDING and state.workflows[each.gang.workflow].submitted_by == user
    ]
    own = {each.user: each.gpus for each in state.rows().limits}.get(user)
    for most, gpus in (
        (state.pools[gang.pool].user_gpus, [n for at, n in held if at == top]),
        (own, [n for _, n in held]),
    ):
        if most is not None:
            yield sum(gpus), most


def _place_in_line(decided: Oracle, state: State, entry: Entry) -> tuple[int, bool, float, str]:
    gang = entry.gang
    first = next(flavor_choices(state.ledger, entry, tuple(each.count for each in gang.pod_sets)), ())
    borrows = gang.priority.may_borrow and decided.would_borrow(gang, first)
    return list(Priority).index(gang.priority), borrows, gang.submitted_at, gang.id


def check_on_trial(state: State, told: Mapping[str, GroupWhy], does: Mapping[str, Verdict]) -> None:
    """Compares gangs behind somebody who starts, too: what the next cycle does with them, and why it leaves them waiting."""
    unknown = dict.fromkeys(gang.partition("/")[0] for gang, answer in told.items() if answer.verdict is None)
    for workflow in unknown:
        for each in drained(why_next(state, workflow)):
            gang = f"{workflow}/{each.group}"
            if gang in told:
                assert each.verdict is does.get(gang, Verdict.WAITS), f"{gang}: {each}, but {does.get(gang)}"
                assert bool(each.reasons) is not each.verdict.starts, each


def check_headlines(state: State, whys: Whys) -> None:
    """What a list says, of all workflows at once, is the first that `why` says of each."""
    found = drained(headlines(state, sorted(state.workflows)))
    for workflow, groups in whys.items():
        ending = first_stopping(groups)
        group = first_of(groups if ending is None else not_upstream(groups))
        expected = None if ending is None else Headline(None, ending=ending)
        if group is not None:
            expected = Headline(group.verdict, next(iter(group.reasons), None), group.stops)
        if holding(state, workflow) is not None:
            expected = None
        assert found.get(workflow) == expected, workflow
        assert expected is None or expected.words


def check_held(state: State, whys: Whys) -> None:
    """Laws W3, S8: what has not started of a held workflow or in a paused pool is in no queue, and says so; nobody else does."""
    for workflow, groups in whys.items():
        for group in groups:
            entry = state.ledger.entries.get(f"{workflow}/{group.group}")
            outside = workflow in state.on_hold and group.state is Status.WAITING
            assert [each.code for each in group.reasons if each.code is Code.HELD] == [Code.HELD] * outside, group
            paused = paused_through(state.pools, state.workflows[workflow].pool) is not None
            told = paused and group.state is Status.WAITING and workflow not in state.aside
            said = [each.reason.code for each in group.blockers if each.reason.code is Code.PAUSED]
            assert said == [Code.PAUSED] * told, group
            outside = paused or workflow in state.on_hold
            assert not (outside and entry is not None and entry.state in WAITING_STATES), group


def check_agreement(state: State, twin: State) -> None:
    """*twin*: the same, loaded from rows; spoilt afterwards."""
    whys: Whys = {workflow: why(state, workflow) for workflow in sorted(state.workflows)}
    told, resting = answers(whys), at_rest(state.ledger)
    check_blockers(state, told)
    check_headlines(state, whys)
    check_held(state, whys)
    does = starts(twin)
    for gang, answer in told.items():
        assert answer.verdict in (None, does.get(gang, Verdict.WAITS)), f"{gang}: {answer}, but {does.get(gang)}"
        assert bool(answer.reasons) == (answer.verdict is None or not answer.verdict.starts), answer
    check_on_trial(state, told, does)
    waiting = [each for each in state.workflows.values() if each.status is WorkflowStatus.PENDING]
    pools = Counter((each.pool.partition("--")[0], each.submitted_by) for each in waiting)
    assert +state.waiting == pools + Counter((EVERYWHERE, each.submitted_by) for each in waiting)
    if resting:
        assert does == {}
        assert all(answer.verdict is Verdict.WAITS for answer in told.values())
