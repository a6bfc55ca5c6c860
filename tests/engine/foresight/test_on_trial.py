"""What-if runs leave no trace: ledger, tree, nodes and sleepers are restored, whatever was tried, even after an error."""

import random
from dataclasses import replace

import pytest

from runrig.domain.gangs import Gang, GangState, PodSet, Priority
from runrig.domain.nodes import Flavor, Node
from runrig.domain.plan import Admit, Decision, Nominate, PutCohort, PutNode, PutPool, Queue, Release, Stop
from runrig.domain.pools import Cohort, Pool, PoolState, Queueing, Quota
from runrig.domain.quantities import GPU, FlavorResource, of_one_pod, requests_of
from runrig.domain.workflows import Status
from runrig.engine.foresight.on_trial import OnTrial, TrialEdit
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.searches import Searched
from tests.engine.scheduling.test_sleeping import History, cycle, loaded
from tests.engine.scheduling.test_user_limits import Limited
from tests.exploring import tries
from tests.properties.ledgers import ledger_portrait, sleepers_portrait
from tests.worlds.engine import World

pytestmark = pytest.mark.explored


def drawn_step(mix: random.Random, history: History) -> Decision | TrialEdit | None:
    """A possible next step; None if there is none of the kind that was drawn."""
    ledger = history.ledger
    kind = mix.choice(("end", "end", "again", "stop", "pool", "pool", "cohort", "node", "queueing", "drain", "limit"))
    match kind:
        case "end":
            return Release(mix.choice(sorted(ledger.entries))) if ledger.entries else None
        case "again":  # a change by the owner: the gang is queued again with another setting
            waiting = sorted(name for name, each in ledger.entries.items() if each.state is GangState.PENDING)
            if not waiting:
                return None
            gang = ledger.entries[mix.choice(waiting)].gang
            live = sorted(pool.name for pool in ledger.pools.values() if pool.state is PoolState.ACTIVE)
            return Queue(replace(gang, id=f"again{mix.random()}", pool=mix.choice(live)))
        case "stop":
            running = sorted(name for name, each in ledger.entries.items() if each.state is GangState.ADMITTED)
            return Stop(mix.choice(running), Status.FAILED_CANCELED) if running else None
        case "cohort":
            cohort = ledger.cohorts[mix.choice(sorted(ledger.cohorts))]
            return PutCohort(replace(cohort, quotas=history._other(cohort.quotas, -2)))
        case "node":
            node = ledger.nodes.by_name[mix.choice(sorted(ledger.nodes.by_name))].node
            return PutNode(mix.choice((replace(node, ready=not node.ready), replace(node, resources={GPU: 3}))))
    return drawn_edit_of_pool(mix, history, kind)


def drawn_edit_of_pool(mix: random.Random, history: History, kind: str) -> PutPool | None:
    ledger = history.ledger
    pool = ledger.pools[mix.choice(sorted(ledger.pools))]
    if kind == "queueing":
        return PutPool(replace(pool, queueing=mix.choice(tuple(Queueing))))
    if kind == "limit":
        return PutPool(replace(pool, user_gpus=mix.choice((None, 1, 3))))
    if kind == "drain":
        idle = not any(each.gang.pool == pool.name for each in ledger.entries.values())
        return PutPool(replace(pool, state=PoolState.ARCHIVED)) if pool.parent and idle else None
    if pool.parent is None:
        return PutPool(replace(pool, quotas=history._other(pool.quotas, 0)))
    return PutPool(replace(pool, quotas={key: Quota(mix.randrange(4)) for key in pool.quotas}))


def whole(ledger: Ledger) -> dict[str, object]:
    portrait = ledger_portrait(ledger)
    found: dict[str, object] = {"sleepers": sleepers_portrait(ledger.sleepers), "effort": ledger.effort}
    searches = ledger.searches
    found["searches"] = searches.so_far(), {**searches.nominations}, [*searches.unproven()]
    return portrait | found


@pytest.mark.parametrize("seed", range(tries(16)))
@pytest.mark.parametrize("of", [History, Limited], ids=["plain", "limits"])
def test_a_what_if_run_leaves_no_trace(seed: int, of: type[History]) -> None:
    history, mix = of(seed), random.Random(seed)
    for at in range(12):
        history.something_happens()
        if at % 3:
            cycle(history.ledger, float(at))
        before, decides = whole(history.ledger), [repr(each) for each in cycle(loaded(history.ledger), 99.0)]
        with OnTrial(history.ledger, 99.0) as trial:
            for _ in range(mix.randrange(1, 5)):
                step = drawn_step(mix, history)
                if step is not None:
                    trial.apply(step)
                if mix.random() < 0.6:
                    for _ in zip(range(mix.choice((1, 3, 10**6))), trial.cycle(), strict=False):
                        pass  # sometimes it stops half-way
        check_no_trace(history.ledger, before, same_nodes=trial.same_nodes)
        with OnTrial(history.ledger, 99.0) as trial:
            assert [repr(each) for each in trial.cycle() if each is not None] == decides
        assert trial.same_nodes


def check_no_trace(ledger: Ledger, before: dict[str, object], *, same_nodes: bool) -> None:
    """If nodes of the tree were created, all gangs are evaluated again; otherwise only those affected."""
    after = whole(ledger)
    if same_nodes:
        assert after == before
    else:
        assert {**after, "sleepers": None} == {**before, "sleepers": None}
        assert not ledger.sleepers.asleep


def test_the_log_does_not_count_searches_of_a_what_if_run() -> None:
    world = World({"a": 2, "b": 2}, {"n0": 4})
    for name in "wxyz":
        world.submit(name, "a", Priority.LOW)
    world.cycle()
    world.submit("v", "b")
    searches = world.state.ledger.searches
    with OnTrial(world.state.ledger, 99.0) as trial:
        assert any(isinstance(each, Nominate) for each in trial.cycle())
    assert (searches.nominations, searches.so_far()) == ({}, Searched())
    world.cycle()
    assert [*searches.nominations] == ["v-1/t-group"]


class Broken(Exception):
    pass


def test_a_what_if_run_that_fails_leaves_no_trace() -> None:
    history = History(32)
    for _ in range(20):
        history.something_happens()
    cycle(history.ledger, 1.0)
    before = whole(history.ledger)
    pool = history.ledger.pools["p0"]

    def breaks() -> None:
        with OnTrial(history.ledger, 2.0) as trial:
            trial.apply(PutPool(replace(pool, quotas={key: Quota(20) for key in pool.quotas})))
            next(action for action in trial.cycle() if isinstance(action, Admit))
            raise Broken

    with pytest.raises(Broken):
        breaks()
    assert whole(history.ledger) == before


def test_gangs_admitted_in_a_what_if_run_are_those_of_the_next_cycle_after_the_edit() -> None:
    for seed in range(30):
        history = History(seed)
        for at in range(25):
            history.something_happens()
            if at % 3:
                cycle(history.ledger, float(at))
        pool = history.ledger.pools["p0"]
        edit = PutPool(replace(pool, quotas={FlavorResource("a", GPU): Quota(12)}))
        twin = loaded(history.ledger)
        twin.put_pool(edit.pool)
        expected = [repr(each) for each in cycle(twin, 99.0)]
        with OnTrial(history.ledger, 99.0) as trial:
            trial.apply(edit)
            assert [repr(each) for each in trial.cycle() if each is not None] == expected


def shares_quota(mix: random.Random, ledger: Ledger) -> PutCohort:
    """Another quota and other limits for some cohort, often its first."""
    cohort = ledger.cohorts[mix.choice(sorted(ledger.cohorts))]
    return PutCohort(
        replace(
            cohort,
            quotas={
                key: Quota(mix.choice((0, 2, 4, 8)), mix.choice((None, 4)), mix.choice((None, None, 0, 2)))
                for key in ledger.tree.keys
            },
        )
    )


def test_gangs_skipped_in_a_what_if_run_would_not_have_started() -> None:
    """Each of its cycles decides like a ledger loaded from rows, in which no bucket sleeps."""
    looked_at = slept_on = 0
    for seed in range(tries(12)):
        history, mix = History(seed), random.Random(seed)
        for at in range(24):
            for _ in range(3):
                history.something_happens()
            cycle(history.ledger, float(at))
            with OnTrial(history.ledger, 99.0) as trial:
                for _ in range(mix.randrange(1, 4)):
                    for _ in range(mix.randrange(3)):
                        if (step := drawn_step(mix, history)) is not None:
                            trial.apply(step)
                    trial.apply(shares_quota(mix, history.ledger))
                    sleepers = history.ledger.sleepers
                    slept = {each: each.before for pool in sleepers.put_off for each in sleepers.asleep_in(pool)}
                    everybody_awake = [repr(each) for each in cycle(loaded(history.ledger), 99.0)]
                    assert [repr(each) for each in trial.cycle() if each is not None] == everybody_awake
                    still = sum(bucket.before is before for bucket, before in slept.items())
                    looked_at, slept_on = looked_at + len(slept) - still, slept_on + still
    assert looked_at > 10, looked_at
    assert slept_on > 10, slept_on


KEY = FlavorResource("a", GPU)


def queued(ledger: Ledger, *gangs: tuple[str, str, int]) -> None:
    """(id, pool, GPUs) of each; they start immediately if possible."""
    for at, (name, pool, gpus) in enumerate(gangs):
        pod_set = PodSet("x", 1, of_one_pod(requests_of({GPU: gpus})))
        ledger.apply(Queue(Gang(name, pool, Priority.NORMAL, float(at), (pod_set,))), 0.0)
    cycle(ledger, 1.0)


def small_ledger(pools: dict[str, int], *, node: int | None = None, shared: int = 0) -> Ledger:
    """*pools*: their quota, all in one cohort. *node*: GPUs of the only node; None: quota alone decides."""
    ledger = Ledger(place=node is not None)
    ledger.set_flavors([Flavor("a")])
    ledger.put_cohort(Cohort("c", None, {KEY: Quota(shared)}))
    for name, nominal in pools.items():
        ledger.put_pool(Pool(name, {KEY: Quota(nominal)}, cohort="c"))
    if node is not None:
        ledger.put_node(Node("n", {GPU: node}, flavor="a"))
    return ledger


def test_a_first_quota_in_a_what_if_run_wakes_only_gangs_that_it_is_enough_for() -> None:
    ledger = small_ledger({"few": 4, "more": 4})
    queued(ledger, ("runs in few", "few", 4), ("runs in more", "more", 2))
    queued(ledger, ("of few", "few", 4), ("of more", "more", 4))
    slept = ledger.entries["of few"].bucket.before
    with OnTrial(ledger, 2.0) as trial:
        trial.apply(PutCohort(Cohort("c", None, {KEY: Quota(2)})))
        assert [each.gang for each in trial.cycle() if isinstance(each, Admit)] == ["of more"]
        assert ledger.entries["of few"].bucket.before is slept


def test_stopping_work_returns_its_guarantee_in_the_cycle_of_a_what_if_run() -> None:
    """Once it is claimed, its shared quota is available to a gang that had none left at the start of the cycle."""
    ledger = small_ledger({"claims": 4, "draws": 4, "waits": 0}, node=8, shared=4)
    queued(ledger, ("drew", "draws", 8))
    ledger.put_cohort(Cohort("c"))
    queued(ledger, ("first", "claims", 4), ("second", "waits", 4))
    with OnTrial(ledger, 2.0) as trial:
        trial.apply(Stop("drew", Status.FAILED_CANCELED))
        trial.apply(PutCohort(Cohort("c", None, {KEY: Quota(4)})))
        everybody_awake = [repr(each) for each in cycle(loaded(ledger), 2.0)]
        decided = [each for each in trial.cycle() if each is not None]
    assert [repr(each) for each in decided] == everybody_awake
    assert [each.gang for each in decided if isinstance(each, Nominate)] == ["first", "second"]


def test_a_what_if_run_creates_no_pools() -> None:
    history = History(0)
    with OnTrial(history.ledger, 0.0) as trial, pytest.raises(AssertionError, match="do not create pools"):
        trial.apply(PutPool(Pool("new")))
