"""Limits of the GPUs that one user uses at the same time, in a pool and over all pools (rule W6), in the queue. Histories are
drawn by seed, as in `test_sleeping`, with users and limits.
"""

from collections import Counter
from dataclasses import replace

import pytest

from runrig.domain.changes import Who
from runrig.domain.errors import InvalidInput, Refused
from runrig.domain.gangs import Gang, GangState, Placement
from runrig.domain.limits import EVERYWHERE, Limits
from runrig.domain.plan import Admit, Decision, Nominate, Queue
from runrig.domain.pools import Pool, Queueing, top_level
from runrig.domain.records import GangRow
from runrig.domain.steps import drained
from runrig.engine.explain.pool_why import pool_why
from runrig.engine.foresight.dry_run import dry_run
from runrig.engine.foresight.would_start import starting_changes
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.lifecycle import pools
from runrig.engine.lifecycle.gangs import gang_of
from runrig.engine.lifecycle.limits import put_limits
from runrig.engine.scheduling.admission import decide
from tests.engine.scheduling.test_sleeping import CYCLES, PRIORITIES, History, forsaken, loaded
from tests.exploring import EXPLORING, tries
from tests.worlds.engine import HIGH, LOW, NORMAL, World, gpu_quota, subpool, task, workflow

USERS = ("ann", "bob", "cy")


class Limited(History):
    """A history in which pools limit the GPUs of one user, most of the time, and often are STRICT_FIFO."""

    def _declare_pool(self, name: str, cohort: str | None) -> None:
        super()._declare_pool(name, cohort)
        strict = self.mix.random() < 0.4
        for pool in self._family(name):
            queueing = Queueing.STRICT_FIFO if strict else Queueing.BEST_EFFORT_FIFO
            self.ledger.put_pool(replace(pool, queueing=queueing))
        self._limit(name)

    def _family(self, name: str) -> list[Pool]:
        return [each for each in self.ledger.pools.values() if name in (each.name, each.parent)]

    def _limit(self, name: str) -> None:
        most = self.mix.choice((None, 1, 2, 4, 4, 6, 8) if name != "p0" else (1, 2, 4))
        for pool in self._family(name):
            self.ledger.put_pool(replace(pool, user_gpus=most))

    def _submit(self) -> None:
        self.number += 1
        pod_sets = tuple(self._pod_set(name) for name in self.mix.choice((["x"], ["x"], ["x"], ["x", "y"])))
        pool, priority = self.mix.choice(sorted(self.ledger.pools)), self.mix.choice(PRIORITIES)
        at, user = float(self.mix.randrange(self.number + 3)), self.mix.choice(USERS)
        self.ledger.apply(Queue(Gang(f"g{self.number:04}", pool, priority, at, pod_sets, user=user)), self.now)

    def _declare(self) -> None:
        if self.mix.random() < 0.2:
            self.ledger.put_limits(Limits(user=self.mix.choice(USERS), gpus=self.mix.choice((None, 1, 3, 5))))
        elif self.mix.random() < 0.3:
            self._limit(self.mix.choice(sorted(self.ledger.pools)).partition("--")[0])
        else:
            super()._declare()


def gpus_of(gang: Gang, placement: Placement) -> int:
    return gang.gpus([each.count for each in placement])


def recounted(ledger: Ledger) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for entry in ledger.entries.values():
        if entry.state is not GangState.PENDING:
            for pool in (top_level(entry.gang.pool), EVERYWHERE):
                found[pool, entry.gang.user] += gpus_of(entry.gang, entry.placement)
    return +found


def checked_cycle(ledger: Ledger, now: float) -> list[Decision]:
    """The decisions of a cycle. Nothing that is pending takes its user above the limit; counts equal a recount."""
    made = []
    for decision in decide(ledger):
        if decision is None:
            continue
        if isinstance(decision, Admit | Nominate):
            entry = ledger.entries[decision.gang]
            user, gpus = entry.gang.user, gpus_of(entry.gang, decision.placement)
            in_pool, over_all = ledger.pools[entry.gang.pool].user_gpus, ledger.users.limits_of(user).gpus
            for pool, most in ((top_level(entry.gang.pool), in_pool), (EVERYWHERE, over_all)):
                if most is not None and entry.state is GangState.PENDING:
                    assert recounted(ledger)[pool, user] + gpus <= most, decision
        ledger.apply(decision, now)
        made.append(decision)
        assert ledger.users.held == recounted(ledger)
    return made


def without(ledger: Ledger, stopped: set[str]) -> Ledger:
    """*ledger* loaded from rows, without the gangs *stopped*."""
    again = loaded(ledger)
    kept = [each for each in ledger.entries.values() if each.gang.id not in stopped]
    for name in [*again.entries]:
        again.take_out(again.entries.pop(name))
    again.restore(
        GangRow(each.gang, each.state, each.placement, each.waits_for, each.admitted_at, each.preempted_by, each.law)
        for each in kept
    )
    return again


@pytest.mark.explored
@pytest.mark.parametrize("seed", range(3, 3 + tries(36)))
def test_no_user_exceeds_a_limit_and_others_are_not_delayed(seed: int) -> None:
    history, limited = Limited(seed), 0
    for _ in range(CYCLES):
        for _ in range(history.mix.choice((1, 1, 1, 2, 6))):
            history.something_happens()
        history.now += 1
        ledger = history.ledger
        stopped = {each.gang.id for each in ledger.entries.values() if stops(ledger, each.gang.id)}
        limited += len(stopped)
        everybody_awake = checked_cycle(loaded(ledger), history.now)
        if (
            not ledger.nominated and not ledger.tree.weighted
        ):  # a nomination may end and free GPUs; see rule P4 for weights
            assert checked_cycle(without(ledger, stopped), history.now) == everybody_awake
        assert checked_cycle(ledger, history.now) == everybody_awake
        assert checked_cycle(loaded(ledger), history.now) == [], "a full cycle leaves nothing to decide (rule P5)"
        assert forsaken(ledger) == []
        limited += sum(stops(ledger, name) for name in ledger.entries)
    assert limited or EXPLORING, "a limit stops somebody, else this compares nothing"


def stops(ledger: Ledger, gang: str) -> bool:
    entry = ledger.entries[gang]
    return entry.state is GangState.PENDING and ledger.user_holds_too_much(entry.bucket)


def lab(most: int | None, *, strict: bool = False, nodes: int = 8) -> World:
    queueing = Queueing.STRICT_FIFO if strict else Queueing.BEST_EFFORT_FIFO
    pool = Pool("lab", gpu_quota(8), queueing=queueing, user_gpus=most)
    world = World({"lab": pool}, {"n0": nodes})
    sub = subpool("lab", "a", 2)
    world.do(*pools.put_pool(world.state, sub, create=True).actions)
    return world


def limited_to(world: World, most: int | None) -> None:
    changed = replace(world.state.pools["lab"], user_gpus=most)
    world.do(*pools.put_pool(world.state, changed, create=False).actions)


def test_why_of_a_pool_names_users_at_a_limit() -> None:
    for strict in (False, True):
        world = lab(2, strict=strict)
        for name, user, gpus in (("a", "cy", 2), ("b", "cy", 2), ("c", "ann", 2), ("d", "ann", 1), ("e", "cy", 1)):
            world.submit(name, "lab", NORMAL, gpus, user=user)
        world.cycle()
        found = drained(pool_why(world.state, "lab"))
        assert sorted((str(each.reason), each.gangs) for each in found.held) == [
            ("ann uses 2 GPUs; the limit of lab for one user is 2", 1),
            ("cy uses 2 GPUs; the limit of lab for one user is 2", 2),
        ]


def test_a_limit_is_never_a_reason_to_preempt() -> None:
    """Its own LOW work counts, so NORMAL work of the same user waits for it; another user preempts it."""
    world = lab(4, nodes=4)
    world.submit("low", "lab", LOW, 4, user="cy")
    world.cycle()
    world.submit("firm", "lab", HIGH, 2, user="cy")
    assert world.cycle() == []
    world.submit("other", "lab", NORMAL, 2, user="ann")
    assert world.cycle() == ["nominate other", "preempt low for other (PRIORITY)"]


def test_reserved_work_starts_and_running_work_continues_after_a_limit_is_lowered() -> None:
    world = lab(None, nodes=4)
    world.submit("low", "lab", LOW, 4, user="ann")
    world.cycle()
    world.submit("firm", "lab", NORMAL, 3, user="cy")
    assert world.cycle() == ["nominate firm", "preempt low for firm (PRIORITY)"]
    limited_to(world, 2)
    assert world.cycle() == ["admit firm"]
    world.submit("late", "lab", NORMAL, 1, user="cy")
    assert world.cycle() == []
    assert world.state.ledger.users.held == {("lab", "cy"): 3, (EVERYWHERE, "cy"): 3}


def test_a_dry_run_of_a_submission_counts_towards_the_limit_of_its_user() -> None:
    world = lab(2)
    world.submit("a", "lab", NORMAL, 2, user="cy")
    world.cycle()
    spec = workflow("new", task("t", 1))
    for user, words in (("cy", ["cy uses 2 GPUs; the limit of lab for one user is 2"]), ("ann", [])):
        like = replace(world.state.workflows["a-1"], id="new-1", name="new", submit_time=99.0, submitted_by=user)
        (found,) = drained(dry_run(world.state, [gang_of(like, spec.groups[0])], 99.0))
        assert [str(each) for each in found.reasons] == words
        assert found.verdict.starts == (user == "ann")


def two_labs() -> World:
    world = World({"lab": 4, "shop": 4}, {"n0": 8})
    limit(world, Limits(user="cy", gpus=3))
    return world


def limit(world: World, limits: Limits) -> None:
    world.do(*put_limits(world.state, limits).actions)


def test_changing_a_limit_over_all_pools_affects_only_waiting_work() -> None:
    world = two_labs()
    for name, pool in (("a", "lab"), ("b", "shop"), ("c", "lab"), ("d", "shop")):
        world.submit(name, pool, NORMAL, 1, user="cy")
    assert world.cycle() == ["admit a", "admit b", "admit c"]
    limit(world, Limits(user="cy", gpus=1))
    assert world.cycle() == []
    world.finish("a-1")
    assert world.cycle() == []
    limit(world, Limits(user="cy"))
    assert (world.cycle(), world.state.ledger.users.declared) == (["admit d"], {})


def test_work_beyond_the_limits_of_its_user_is_refused_even_if_it_would_only_wait() -> None:
    world = two_labs()
    limit(world, Limits(user="cy", gpus=2, waiting=1, gpus_per_workflow=3))
    submissions = (
        (
            "a",
            workflow("a", task("t", 3)),
            "a needs 3 GPUs at the same time, but the limit of cy is 2 GPUs over all pools",
        ),
        (
            "b",
            workflow("b", task("t", 2), task("u", 2)),
            "b needs 4 GPUs in all of its task groups, but the limit of cy is 3",
        ),
    )
    for name, spec, words in submissions:
        with pytest.raises(Refused, match=words):
            world.submit(name, "lab", spec=spec, user="cy")
    world.submit("c", "lab", NORMAL, 1, user="cy")
    with pytest.raises(Refused, match="cy already has 1 workflow waiting over all pools; the limit is 1"):
        world.submit("d", "shop", NORMAL, 1, user="cy")
    world.submit("e", "shop", NORMAL, 3, user="ann")
    assert world.cycle() == ["admit c", "admit e"]


def test_limits_out_of_range_and_changes_without_effect_are_reported() -> None:
    world = two_labs()
    assert put_limits(world.state, Limits(user="cy", gpus=3)).actions == ()
    with pytest.raises(InvalidInput, match="waiting: 0 is out of range: use a whole number from 1 to 1000000"):
        put_limits(world.state, Limits(user="cy", waiting=0))


def test_work_stopped_by_a_limit_of_its_user_starts_after_a_change_or_when_other_work_ends() -> None:
    world = two_labs()
    world.submit("a", "lab", NORMAL, 3, user="cy")
    world.cycle()
    world.submit("b", "shop", NORMAL, 2, user="cy")
    world.cycle()
    ((_, found),) = drained(starting_changes(world.state, "b-1", (), tuple(Who), 1, world.now))
    assert [(each.who.value, *map(str, each.changes)) for each in found.answers] == [
        ("admin", "raise the limit of cy to 5 GPUs (now 3)"),
        ("wait", "until a-1 has finished"),
    ]
    limit(world, Limits(user="cy"))
    limited_in(world, "shop", 1)
    ((_, found),) = drained(starting_changes(world.state, "b-1", (), (Who.ADMIN,), 1, world.now))
    assert [(each.who.value, *map(str, each.changes)) for each in found.answers] == [
        ("admin", "raise the limit of pool shop for one user to 2 GPUs (now 1)")
    ]


def limited_in(world: World, pool: str, most: int) -> None:
    changed = replace(world.state.pools[pool], user_gpus=most)
    world.do(*pools.put_pool(world.state, changed, create=False).actions)
