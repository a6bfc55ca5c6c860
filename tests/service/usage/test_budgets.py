"""Budgets on a server: what is counted is what usage counts, also after restarts (rule W7)."""

from pathlib import Path

from runrig.domain.budgets import HOUR, Owner, month_of, next_month
from runrig.domain.gangs import Priority
from runrig.domain.pools import BudgetReached
from runrig.domain.usage import MICROSECONDS
from runrig.service.commands.edits import PoolEdit
from runrig.service.queries.visibility import ALL
from runrig.service.runtime.reconciler import UNCOUNTED_S
from runrig.service.usage.usage_queries import UsageQuery
from tests.worlds.service import Desk, desk

POOL1 = (Owner.POOL, "pool1")
DAY = 86_400.0


def counted(there: Desk) -> int:
    """What the state counts for pool1 until now."""
    with there.service._transactor.reading() as state:
        return state.budgets.moved(POOL1, there.time[0]).held


def usage(there: Desk) -> int:
    """What usage has for pool1 in this month until now."""
    while there.service.usage.step():
        pass
    query = UsageQuery(since=month_of(there.time[0]), until=there.time[0] + 1, pools=("pool1",))
    return round(there.service.usage_queries.usage(query, ALL).total.held * MICROSECONDS)


def set_budget(there: Desk, budget: int | None, reached: BudgetReached = BudgetReached.STOP) -> None:
    edit = PoolEdit(settings={"budget": budget, "budget_reached": reached})
    there.service.declarations.update_pool("pool1", edit, user="ann")


def test_a_budget_counts_what_usage_counts_before_and_after_it_was_set(tmp_path: Path) -> None:
    """Also across restarts, a change of the month, and work that began in the month before."""
    with desk(tmp_path) as there:
        for name, pool, gpus, lasts, then in (
            ("first", "pool1", 2, 5_000.0, 9_000.0),
            ("other", "pool2", 2, 80_000.0, 1_000.0),
            ("long", "pool1", 1, 40 * DAY, 100.5),
        ):
            there.submit(name, pool, gpus=gpus, duration=lasts)
            there.later(0)
            there.later(then)
        set_budget(there, 10_000)
        there.later(0)
        assert counted(there) == usage(there) > 0
        there.submit("borrows", "pool1", Priority.LOW, gpus=2, duration=3_333.25)
        there.later(0)
        for seconds in (777.125, 5_000.0):
            there.later(seconds)
            assert counted(there) == usage(there)
        before, time = counted(there), there.time[0]
    with desk(tmp_path, time=time, cluster=None) as there:
        assert counted(there) == before
        there.later(20 * DAY)
        assert counted(there) == usage(there) == round((there.time[0] - month_of(there.time[0])) * MICROSECONDS)


def test_a_reached_budget_survives_a_restart_and_renews(tmp_path: Path) -> None:
    with desk(tmp_path) as there:
        set_budget(there, 1)
        running = there.submit("runs", gpus=1, duration=3 * DAY)
        there.later(0)
        there.later(3600)
        waits = there.submit("waits", gpus=1, duration=3600)
        there.later(0)
        assert (there.status(running), there.status(waits)) == ("RUNNING", "PENDING")
        time = there.time[0]
    with desk(tmp_path, time=time, cluster=None) as there:
        there.later(4 * DAY)
        assert (there.status(running), there.status(waits)) == ("COMPLETED", "PENDING")
        renews = next_month(month_of(there.time[0]))
        assert there.service._reconciler.sleep_s() <= renews - there.time[0]
        there.later(renews - there.time[0])
        assert there.status(waits) == "RUNNING"
        set_budget(there, None)
        there.later(0)
        assert there.store.load().spent == ()


def test_a_budget_waits_until_the_log_is_folded(tmp_path: Path) -> None:
    """Without usage it is not in force, and the server tries again soon."""
    with desk(tmp_path) as there:
        there.submit("runs", gpus=2, duration=DAY)
        there.later(0)
        there.later(3600)
        step, there.service.usage.step = there.service.usage.step, lambda: True  # type: ignore[method-assign]
        set_budget(there, 1)
        there.later(0)
        assert there.store.load().spent == ()
        assert there.service._reconciler.sleep_s() <= UNCOUNTED_S
        there.service.usage.step = step  # type: ignore[method-assign]
        there.later(0)
        (spent,) = there.store.load().spent
        assert (spent.held, spent.stops) == (2 * HOUR, BudgetReached.STOP)
