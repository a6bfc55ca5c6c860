"""The rest lemma: in a settled state, evaluating a gang after a change by its owner gives the result of a complete
cycle. Waiting gangs use nothing, so gangs ahead fail as before. The evaluation runs on the live ledger with the gang
queued again; the cycle runs on a ledger loaded from rows. The exception is the head of a STRICT_FIFO pool: if it moves
back, gangs behind it are evaluated for the first time and may take what it needs.
"""

import random
from collections.abc import Iterator

import pytest

from runrig.domain.blockers import Verdict
from runrig.domain.changes import Change, MoveToPool, Reprioritise
from runrig.domain.gangs import Gang, GangState, PodSet, Priority
from runrig.domain.nodes import DEFAULT_FLAVOR, Flavor, Node
from runrig.domain.plan import Queue, Release
from runrig.domain.pools import Pool, PoolState, Queueing, Quota
from runrig.domain.quantities import GPU, FlavorResource, of_one_pod, requests_of
from runrig.engine.explain.blockers import strict_head
from runrig.engine.foresight.dials import Reach, changed_gang, own_dials
from runrig.engine.foresight.on_trial import OnTrial
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.preemption.targets import Targets
from runrig.engine.scheduling.admission import look_at
from tests.engine.foresight.test_counterfactual import NOW, decided, search
from tests.engine.scheduling.test_sleeping import History, cycle
from tests.exploring import tries

pytestmark = pytest.mark.explored

Found = tuple[Verdict, tuple[int, ...], tuple[str, ...]]
"""Verdict, pods of each pod set that start, and who stops for it."""


def at_rest(seed: int) -> Ledger:
    history, mix = History(seed), random.Random(seed)
    for at in range(mix.choice((8, 15, 30))):
        history.something_happens()
        if at % 4 == 0:
            cycle(history.ledger, float(at))
    while cycle(history.ledger, 60.0):
        for name in sorted(history.ledger.stopping):
            history.ledger.apply(Release(name), 61.0)
    return history.ledger


def looked(ledger: Ledger, gang: str, change: Change) -> Found:
    """Evaluates *gang* after *change* on the live ledger; gangs behind the head of a STRICT_FIFO pool are skipped."""
    with OnTrial(ledger, NOW) as trial:
        changed = changed_gang(ledger.entries[gang].gang, change)
        trial.apply(Release(gang))
        trial.apply(Queue(changed))
        entry = ledger.entries[gang]
        start = look_at(ledger, entry) if strict_head(ledger, changed.pool) in (None, entry) else None
        if start is None:
            return Verdict.WAITS, (), ()
        stops, placement = (start.targets, start.placement) if isinstance(start, Targets) else ((), start)
        verdict = Verdict.STARTS_AFTER_STOPS if isinstance(start, Targets) else Verdict.STARTS
        return verdict, tuple(each.count for each in placement), tuple(each.gang for each in stops)


def leads_and_moves(ledger: Ledger, gang: str, change: Change) -> bool:
    """The exception: the head of a STRICT_FIFO pool moves behind others of the pool, or to another pool."""
    entry = ledger.entries[gang]
    return isinstance(change, MoveToPool | Reprioritise) and strict_head(ledger, entry.gang.pool) is entry


def own_changes(ledger: Ledger, gang: str) -> Iterator[Change]:
    live = tuple(sorted(name for name, pool in ledger.pools.items() if pool.state is PoolState.ACTIVE))
    for dial in own_dials(ledger, ledger.entries[gang], Reach(live)):
        yield from (dial.at(number) for number in range(dial.size))


def waiting(ledger: Ledger) -> list[str]:
    return sorted(name for name, each in ledger.entries.items() if each.state is GangState.PENDING)


@pytest.mark.parametrize("seed", range(tries(50)))
def test_an_evaluation_gives_the_result_of_a_complete_cycle(seed: int) -> None:
    ledger = at_rest(seed)
    for gang in waiting(ledger)[:4]:
        assert decided(ledger, gang, ()) == (Verdict.WAITS, (), ())
        for change in own_changes(ledger, gang):
            if not leads_and_moves(ledger, gang, change):
                assert looked(ledger, gang, change) == decided(ledger, gang, (change,)), (gang, change)


def test_the_worlds_have_results_of_all_kinds() -> None:
    found = {
        (type(change).__name__, looked(ledger, gang, change)[0])
        for ledger in map(at_rest, range(300))
        for gang in waiting(ledger)[:4]
        for change in own_changes(ledger, gang)
    }
    assert {verdict for _, verdict in found} == {Verdict.STARTS, Verdict.STARTS_AFTER_STOPS, Verdict.WAITS}
    kinds = {"FewerPods", "FewerGpus", "Prefer", "NoTopology", "TakeFlavor", "MoveToPool", "Reprioritise"}
    assert {name for name, verdict in found if verdict is Verdict.STARTS} >= kinds


# ---------------------------------------------------------------- the deliberate exception


def led(*gangs: tuple[str, Priority, int]) -> Ledger:
    """A STRICT_FIFO pool with a quota of 4, of which 2 are in use, and 4 GPUs without guarantee. *gangs* wait in it, by
    name, priority and GPUs.
    """
    ledger = Ledger()
    ledger.set_flavors([Flavor(DEFAULT_FLAVOR)])
    ledger.put_node(Node("n", {GPU: 5}, flavor=DEFAULT_FLAVOR))
    ledger.put_pool(Pool("p", {FlavorResource(DEFAULT_FLAVOR, GPU): Quota(4)}, queueing=Queueing.STRICT_FIFO))
    for at, (name, priority, gpus) in enumerate((("holds", Priority.NORMAL, 2), *gangs)):
        pod_set = PodSet("x", 1, of_one_pod(requests_of({GPU: gpus})))
        ledger.apply(Queue(Gang(name, "p", priority, float(at), (pod_set,))), 0.0)
        cycle(ledger, float(at))
    return ledger


HEAD, BEHIND = ("head", Priority.NORMAL, 3), ("behind", Priority.NORMAL, 1)
BACK = Reprioritise(Priority.LOW)


def test_a_head_that_moves_back_is_passed_by_gangs_behind_it() -> None:
    """Evaluated alone, it could borrow idle quota. The cycle first evaluates the gang that was behind it, which takes
    some of that.
    """
    ledger = led(HEAD, BEHIND)
    assert waiting(ledger) == ["behind", "head"]
    assert leads_and_moves(ledger, "head", BACK)
    alone = changed_gang(ledger.entries["head"].gang, BACK)
    with OnTrial(ledger, NOW) as trial:
        trial.apply(Release("head"))
        trial.apply(Queue(alone))
        assert look_at(ledger, ledger.entries["head"]) is not None
    assert decided(ledger, "head", (BACK,))[0] is Verdict.WAITS
    found, _ = search(ledger, ledger.entries["head"])
    assert BACK not in [change for each in found.answers for change in each.changes]
    assert ("priority", Verdict.WAITS) in [(each.dial, each.verdict) for each in found.tried]


def test_without_gangs_behind_it_the_same_change_starts_it() -> None:
    ledger = led(HEAD)
    assert decided(ledger, "head", (BACK,))[0] is Verdict.STARTS
    found, _ = search(ledger, ledger.entries["head"])
    assert BACK in [change for each in found.answers for change in each.changes]
