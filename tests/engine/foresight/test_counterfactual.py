"""Would it start if: every answer matches a ledger that is loaded from rows and edited, and no smaller value works. The
brute force uses no what-if runs or refutation: it loads the rows for each value, edits them and runs a cycle.
"""

import random
from collections.abc import Sequence

import pytest

from runrig.domain.blockers import Verdict
from runrig.domain.changes import Change, Ended, Fate, FewerPods, MoreNominal, MoveToPool
from runrig.domain.gangs import GangState
from runrig.domain.plan import Admit, Decision, Nominate, Preempt, PutCohort, PutLimits, PutNode, PutPool, Withdraw
from runrig.domain.pools import PoolState
from runrig.domain.shown.changes import TriedDial
from runrig.engine.foresight.counterfactual import Counterfactual, Foreseen, Search
from runrig.engine.foresight.dials import Dial, Reach, dials, edits_of
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.queue import Entry
from tests.engine.foresight.test_on_trial import whole
from tests.engine.scheduling.test_sleeping import History, cycle, loaded
from tests.exploring import tries

pytestmark = pytest.mark.explored

NOW = 99.0
PASSED_BY = 53
"""A world in which somebody who would start next no longer does after a change."""


def next_cycle(ledger: Ledger, gang: str, changes: Sequence[Change]) -> list[Decision]:
    """The decisions of the next cycle on a ledger that is loaded from rows and edited."""
    twin = loaded(ledger)
    for edit in edits_of(twin, twin.entries[gang].gang, changes):
        match edit:
            case PutPool(pool):
                twin.put_pool(pool)
            case PutLimits(limits):
                twin.put_limits(limits)
            case PutCohort(cohort):
                twin.put_cohort(cohort)
            case PutNode(node):
                twin.put_node(node)
            case _:
                twin.apply(edit, NOW)
    return cycle(twin, NOW)


def decided(ledger: Ledger, gang: str, changes: Sequence[Change]) -> tuple[Verdict, tuple[int, ...], tuple[str, ...]]:
    """The decision of the next cycle on *gang* after *changes*: verdict, counts and targets."""
    verdict, counts, stops = Verdict.WAITS, tuple[int, ...](), []
    for action in next_cycle(ledger, gang, changes):
        if isinstance(action, Admit | Nominate) and action.gang == gang:
            verdict = Verdict.STARTS if isinstance(action, Admit) else Verdict.STARTS_AFTER_STOPS
            counts = tuple(each.count for each in action.placement)
        if isinstance(action, Preempt) and action.by == gang:
            stops.append(action.gang)
    return verdict, counts, tuple(stops)


def instead(ledger: Ledger, gang: str, told: Counterfactual) -> dict[str, Fate]:
    """The effects of the changes on other gangs, without its targets, itself and ended gangs."""
    before, after = (_fates(next_cycle(ledger, gang, changes)) for changes in ((), told.changes))
    gone = {name for change in told.changes if isinstance(change, Ended) for name in change.workflows}
    others = [name for name in {**before, **after} if name not in (gang, *told.stops) and name not in gone]
    otherwise = {Fate.STARTS: Fate.WAITS, Fate.STOPS: Fate.STAYS, Fate.WAITS: Fate.STAYS}
    return {
        name: after[name] if name in after else otherwise[before[name]]
        for name in sorted(others)
        if before.get(name) is not after.get(name)
    }


def _fates(decisions: Sequence[Decision]) -> dict[str, Fate]:
    kinds = {Admit: Fate.STARTS, Nominate: Fate.STARTS, Preempt: Fate.STOPS, Withdraw: Fate.WAITS}
    return {
        each.gang: kinds[type(each)] for each in decisions if isinstance(each, Admit | Nominate | Preempt | Withdraw)
    }


def first_answer(ledger: Ledger, gang: str, dial: Dial, reach: Reach) -> tuple[Verdict, Change | None]:
    """By brute force, the first value that starts it, otherwise the first that starts it after stops."""
    second: Change | None = None
    for number in range(dial.size):
        change = dial.at(number)
        if isinstance(change, MoveToPool) and ledger.pools[change.pool].state is not PoolState.ACTIVE:
            continue
        verdict, _, _ = decided(ledger, gang, (change,))
        if verdict is Verdict.STARTS:
            return verdict, change
        if verdict is Verdict.STARTS_AFTER_STOPS and second is None:
            second = change
    return (Verdict.WAITS, None) if second is None else (Verdict.STARTS_AFTER_STOPS, second)


def search(ledger: Ledger, entry: Entry, *, depth: int = 1) -> tuple[Foreseen, Reach]:
    reach = Reach(tuple(sorted(name for name, pool in ledger.pools.items() if pool.state is PoolState.ACTIVE)))
    steps = Search(ledger, entry, reach, NOW).run(depth=depth)
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            found: Foreseen = ended.value
            return found, reach


def world(seed: int) -> Ledger:
    history, mix = History(seed), random.Random(seed)
    for at in range(mix.choice((6, 12, 25))):
        history.something_happens()
        if at % 3:
            cycle(history.ledger, float(at))
    if mix.random() < 0.7:
        cycle(history.ledger, 50.0)  # at rest
    return history.ledger


def waiting(ledger: Ledger, most: int) -> list[Entry]:
    found = [each for _, each in sorted(ledger.entries.items()) if each.state is GangState.PENDING]
    return found[:most]


def check(ledger: Ledger, entry: Entry) -> int:
    gang = entry.gang.id
    before = whole(ledger)
    found, reach = search(ledger, entry)
    if found_nothing_new := not found.tried:
        assert decided(ledger, gang, ())[0].starts or found_nothing_new
        return 0
    turned = list(dials(ledger, ledger.entries[gang], reach))
    assert [each.name for each in turned] == [each.dial for each in found.tried]
    answers = iter(found.answers)
    for dial, tried in zip(turned, found.tried, strict=True):
        answer = next(answers) if tried.verdict.starts else None
        check_dial(ledger, gang, reach, dial, tried, answer)
    after = whole(ledger)
    assert {**after, "sleepers": None} == {**before, "sleepers": None}
    return len(found.answers)


def check_dial(
    ledger: Ledger, gang: str, reach: Reach, dial: Dial, tried: TriedDial, answer: Counterfactual | None
) -> None:
    if answer is not None:
        assert decided(ledger, gang, answer.changes) == (answer.verdict, answer.counts, answer.stops)
        assert {effect.gang: effect.becomes for effect in answer.instead_of} == instead(ledger, gang, answer)
    if answer is not None and isinstance(answer.changes[0], Ended) and len(answer.changes[0].workflows) > 1:
        check_irreducible(ledger, gang, answer.changes[0])
        return
    if tried.verdict is Verdict.NOT_PROVEN:
        assert tried.run == 64
        return
    expected = first_answer(ledger, gang, dial, reach)
    assert (tried.verdict, None if answer is None else answer.changes[0]) == expected, dial.name


def check_irreducible(ledger: Ledger, gang: str, change: Ended) -> None:
    for name in change.workflows:
        fewer = tuple(other for other in change.workflows if other != name)
        assert not decided(ledger, gang, (Ended(fewer),))[0].starts


@pytest.mark.parametrize("seed", sorted({*range(tries(10)), PASSED_BY}))
def test_each_change_ends_with_the_first_value_that_starts_the_gang(seed: int) -> None:
    ledger = world(seed)
    for entry in waiting(ledger, 3):
        check(ledger, entry)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1000, 3000))
def test_each_change_ends_with_the_first_value_in_two_thousand_worlds(seed: int) -> None:
    ledger = world(seed)
    for entry in waiting(ledger, 2):
        check(ledger, entry)


def test_the_worlds_have_answers_of_all_kinds() -> None:
    kinds = set()
    for seed in range(40):
        ledger = world(seed)
        for entry in waiting(ledger, 2):
            kinds |= {type(each.changes[0]) for each in search(ledger, entry)[0].answers}
    assert {FewerPods, MoreNominal, Ended} <= kinds
