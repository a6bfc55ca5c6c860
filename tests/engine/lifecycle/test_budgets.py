"""Budgets of pools and users (rule W7)."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from runrig.domain.budgets import HOUR, HeldBefore, Owner, Spent, month_of, next_month
from runrig.domain.limits import Limits
from runrig.domain.observed import Observation
from runrig.domain.plan import Action, SetSpent
from runrig.domain.pools import BudgetReached, Pool
from runrig.domain.reasons import Code
from runrig.domain.steps import drained
from runrig.domain.workflows import Status
from runrig.engine import cycle
from runrig.engine.explain.pool_why import pool_why
from runrig.engine.explain.why import why
from runrig.engine.lifecycle import limits, pools
from runrig.engine.lifecycle.budgets import preview
from runrig.engine.lifecycle.contradictions import contradiction
from runrig.engine.lifecycle.reassignments import reassign
from runrig.engine.lifecycle.workflows import next_deadline
from runrig.engine.state.state import State
from tests.worlds.engine import LOW, NORMAL, STRICT, World, gpu_quota

DAY = 86_400.0
NOVEMBER = datetime(2026, 11, 1, tzinfo=UTC).timestamp()
DECEMBER = datetime(2026, 12, 1, tzinfo=UTC).timestamp()
VISION = (Owner.POOL, "vision")
NOTHING = HeldBefore(NOVEMBER, {})


class Month(World):
    """8 GPUs of pool vision in November 2026, with a budget. *known*: what usage knows."""

    def __init__(self, budget: int | None = 16, known: HeldBefore | None = NOTHING, **settings: object) -> None:
        super().__init__({"vision": Pool("vision", gpu_quota(8), budget=budget, **settings), "free": 4}, {"n0": 12})  # type: ignore[arg-type]
        self.now, self.known = NOVEMBER + 10 * DAY, known
        self.said: list[SetSpent] = []

    def observe(self) -> Observation:
        return replace(super().observe(), held=self.known)

    def plan(self) -> list[Action]:
        actions = list(cycle.run(self.state, self.observe(), self.now).actions)
        self.state.take_changes()  # Drops finished work.
        assert contradiction(self.state.rows()) is None
        self.said += [each for each in actions if isinstance(each, SetSpent)]
        return actions

    def later(self, hours: float) -> list[Action]:
        self.now += hours * 3600
        return self.plan()

    def put(self, pool: Pool) -> None:
        self.do(*pools.put_pool(self.state, pool, create=False).actions)

    def spent(self) -> Spent:
        return self.state.budgets.moved(VISION, self.now)


def test_months_are_those_of_the_calendar_in_utc() -> None:
    assert month_of(DECEMBER - 0.001) == NOVEMBER
    assert [next_month(each) for each in (NOVEMBER, DECEMBER)] == [
        DECEMBER,
        datetime(2027, 1, 1, tzinfo=UTC).timestamp(),
    ]
    assert next_month(datetime(2028, 2, 1, tzinfo=UTC).timestamp()) == datetime(2028, 3, 1, tzinfo=UTC).timestamp()


def test_a_reached_budget_starts_nothing_new_and_what_runs_continues_until_it_renews() -> None:
    world = Month()
    runs = world.submit("runs", "vision", NORMAL, 4)
    world.plan()
    assert world.status(runs) == [Status.INITIALIZING]
    waits = world.submit("waits", "vision", NORMAL, 8)
    # 16 GPU-hours: 4 GPUs for 4 hours. The server looks at it at that moment.
    world.later(3.9)
    began = world.said[0].spent.since
    assert next_deadline(world.state) == began + 4 * 3600
    world.now = began + 4 * 3600
    world.plan()
    assert world.said[-1] == SetSpent(Spent(*VISION, NOVEMBER, 16 * HOUR, world.now, BudgetReached.STOP), 16)
    assert world.status(waits) == [Status.WAITING]
    assert world.status(runs) == [Status.RUNNING]
    late = world.submit("late", "vision", LOW, 1)
    world.finish(runs)
    world.later(1)
    assert world.status(late) == world.status(waits) == [Status.WAITING]
    assert world.spent().held == 20 * HOUR + 4_000_000  # the submission took a second
    assert next_deadline(world.state) == DECEMBER
    world.now = DECEMBER
    world.plan()
    assert world.said[-1] == SetSpent(Spent(*VISION, DECEMBER, 0, DECEMBER), 16)
    assert world.status(waits) == [Status.INITIALIZING]


def test_others_pass_in_the_queue_and_borrow_what_is_idle() -> None:
    world = Month(1, HeldBefore(NOVEMBER + 10 * DAY, {VISION: HOUR}), queueing=STRICT)
    world.plan()
    world.submit("head", "vision", NORMAL, 8)
    guest = world.submit("guest", "free", LOW, 12)
    world.plan()
    assert world.status(guest) == [Status.INITIALIZING]


def test_borrow_lets_low_work_start() -> None:
    world = Month(1, HeldBefore(NOVEMBER + 10 * DAY, {VISION: HOUR}), budget_reached=BudgetReached.BORROW)
    firm, low = world.submit("firm", "vision", NORMAL, 2), world.submit("low", "vision", LOW, 2)
    world.plan()
    assert (world.status(firm), world.status(low)) == ([Status.WAITING], [Status.INITIALIZING])
    world.do(*reassign(world.state, firm, priority=LOW).actions)
    world.plan()
    assert world.status(firm) == [Status.INITIALIZING]
    other = world.submit("other", "vision", LOW, 2)
    world.put(replace(world.state.pools["vision"], budget_reached=BudgetReached.STOP))
    world.plan()
    assert world.status(other) == [Status.WAITING]


def test_a_new_budget_counts_what_usage_knows_and_what_runs_since() -> None:
    world = Month(None)
    runs = world.submit("runs", "vision", NORMAL, 4)
    world.plan()
    began = world.now
    world.put(replace(world.state.pools["vision"], budget=100))
    world.known = HeldBefore(began + 3600, {VISION: 50 * HOUR})
    world.now = began + 2 * 3600
    world.plan()
    assert world.said == [SetSpent(Spent(*VISION, NOVEMBER, 54 * HOUR, world.now), 100)]
    world.finish(runs)
    world.later(1)
    assert world.state.budgets.spent[VISION].held == 58 * HOUR
    world.later(5)
    assert world.spent().held == 58 * HOUR


def test_a_new_budget_is_not_in_force_before_usage_is_known() -> None:
    world = Month(1, None)
    runs = world.submit("runs", "vision", NORMAL, 4)
    world.later(5)
    assert world.status(runs) == [Status.INITIALIZING]
    assert (world.said, next_deadline(world.state)) == ([], None)


def test_a_higher_budget_starts_what_waits_and_without_one_nothing_is_counted() -> None:
    world = Month(1, HeldBefore(NOVEMBER + 10 * DAY, {VISION: HOUR}))
    first, second = (world.submit(name, "vision", NORMAL, 4) for name in ("first", "second"))
    world.plan()
    assert world.status(first) == [Status.WAITING]
    world.put(replace(world.state.pools["vision"], budget=2))
    world.plan()
    assert world.status(first) == world.status(second) == [Status.INITIALIZING]
    assert next_deadline(world.state) == world.now + 3600 / 8
    third = world.submit("third", "vision", NORMAL, 1)
    world.later(1)
    assert world.status(third) == [Status.WAITING]
    world.finish(first)
    world.put(replace(world.state.pools["vision"], budget=None))
    world.plan()
    assert world.status(third) == [Status.INITIALIZING]
    assert (world.state.budgets.spent, world.state.budgets.due, next_deadline(world.state)) == ({}, {}, None)


def test_a_budget_that_ends_in_the_same_cycle_as_work_is_noticed() -> None:
    """The count of what ended must not put off a look at the budget that was raised."""
    world = Month(2)
    runs = world.submit("runs", "vision", NORMAL, 2)
    world.plan()
    world.later(1)
    waits = world.submit("waits", "vision", NORMAL, 2)
    world.plan()
    assert world.status(waits) == [Status.WAITING]
    world.put(replace(world.state.pools["vision"], budget=50))
    world.finish(runs)
    world.plan()
    assert world.status(waits) == [Status.INITIALIZING]


def test_a_user_has_a_budget_over_all_pools() -> None:
    world = Month(None)
    world.do(*limits.put_limits(world.state, Limits(user="cy", budget=2)).actions)
    for pool in ("vision", "free"):
        world.submit(f"runs-{pool}", pool, NORMAL, 1, user="cy")
    world.plan()
    world.later(1)
    mine, theirs = (
        world.submit("mine", "free", NORMAL, 1, user="cy"),
        world.submit("theirs", "free", NORMAL, 1, user="bo"),
    )
    world.plan()
    assert (world.status(mine), world.status(theirs)) == ([Status.WAITING], [Status.INITIALIZING])
    (reason,) = why(world.state, mine)[0].reasons
    assert str(reason) == (
        "the budget of cy is reached: none of its 2 GPU-hours are left this month; it renews on 2026-12-01 00:00:00 UTC"
    )


@pytest.mark.parametrize(
    ("budget", "reached", "stops", "waits", "words"),
    [
        (2, BudgetReached.STOP, BudgetReached.STOP, ("waits-1", "low-1"), "waits-1 and low-1 would wait; 1 running"),
        (2, BudgetReached.BORROW, BudgetReached.BORROW, ("waits-1",), "only LOW work starts until 2026-12-01"),
        (9, BudgetReached.STOP, None, (), "2.5 of 9 GPU-hours used this month, 6.5 left; it renews on 2026-12-01"),
    ],
)
def test_a_preview_names_what_is_left_and_what_would_wait(
    budget: int, reached: BudgetReached, stops: BudgetReached | None, waits: tuple[str, ...], words: str
) -> None:
    world = Month(None)
    for name, priority in (("runs", NORMAL), ("waits", NORMAL), ("low", LOW)):
        world.submit(name, "vision", priority, 8)
        world.later(1)
    held = HeldBefore(world.now, {VISION: 5 * HOUR // 2})
    found = preview(world.state, VISION, (budget, reached), world.now, held)
    assert (found.used, found.stops, found.waits, found.running) == (2.5, stops, waits, 1)
    assert words in found.sentence


def test_why_says_that_nothing_is_left_and_when_it_renews() -> None:
    world = Month(1, HeldBefore(NOVEMBER + 10 * DAY, {VISION: 1_500 * HOUR}), budget_reached=BudgetReached.BORROW)
    id = world.submit("w", "vision", NORMAL, 2)
    world.plan()
    (reason,) = why(world.state, id)[0].reasons
    assert (reason.code, reason.law) == (Code.BUDGET, "W7")
    assert str(reason) == (
        "the budget of pool vision is reached: none of its 1 GPU-hour is left this month; it renews on 2026-12-01 00:00:00 UTC; "
        "until then only LOW work starts"
    )
    assert reason.headline == "budget reached: none of 1 GPU-hour left in vision"
    (alike,) = drained(pool_why(world.state, "vision")).held
    assert (alike.reason, alike.gangs, alike.gpus) == (reason, 1, 2)


@pytest.mark.parametrize("hours", [1.0, 3.0])
def test_a_state_loaded_from_rows_keeps_counting(hours: float) -> None:
    world = Month()
    world.submit("runs", "vision", NORMAL, 8)
    world.plan()
    world.submit("waits", "vision", NORMAL, 1)
    world.later(hours)
    world.state, uncut = State.load(world.state.rows()), world.state
    assert next_deadline(world.state) == next_deadline(uncut)
    at = world.now + 3600
    assert cycle.run(world.state, world.observe(), at) == cycle.run(uncut, world.observe(), at)
    assert world.state.rows() == uncut.rows()
