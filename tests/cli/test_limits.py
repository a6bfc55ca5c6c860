"""`runrig limits`, and what `why` says about a limit, against the application on a port."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.worlds.served import Served, served
from tests.worlds.service import one_task


@pytest.fixture
def it(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as it:
        for name in ("one", "two"):
            it.submit(one_task(name), "--pool", "pool1")
        it.desk.later(0)
        yield it


def test_limits_are_set_listed_nearest_first_and_explained(it: Served) -> None:
    set_first = it.runrig("limits", "set", "--user", "ann", "--gpus", "1", "--dry-run")
    assert set_first.out == (
        "Dry run: nothing was changed.\n"
        "user ann, over all pools: at most 1 GPU at the same time (no limit before)\n"
        "ann has 2 GPUs at the same time, above the limit of 1; nothing is stopped\n"
    )
    assert it.runrig("limits", "show").out == "ann has no limits.\n"
    it.json("limits", "set", "--user", "ann", "--gpus", "2")
    changed = it.runrig("limits", "set", "--pool", "pool1", "--waiting", "3")
    assert changed.out == "each user of pool pool1: at most 3 workflows waiting (no limit before)\n"
    assert [line.split() for line in it.runrig("limits", "list").out.splitlines()[2:]] == [
        ["ann", "all", "pools", "GPUs", "at", "the", "same", "time", "2", "2", "0"],
        ["each", "user", "pool1", "workflows", "waiting", "-", "3", "-"],
    ]
    waits = it.submit(one_task("three"), "--pool", "pool2")
    it.desk.later(0)
    told = it.runrig("why", waits).out
    assert "ann uses 2 GPUs; the limit of ann over all pools is 2" in " ".join(told.split())
    assert "It can start as your other work ends, or with a higher limit: see `runrig limits show`." in told
    more = it.runrig("why", waits, "-v").out
    assert "admin  raise the limit of ann to 3 GPUs (now 2)\n  wait   until one-1 has finished" in more


def test_budgets_are_set_counted_and_explained(it: Served) -> None:
    """W7. Two GPUs for three hours."""
    it.json("limits", "set", "--pool", "pool1", "--budget", "2")
    waits = it.submit(one_task("three"), "--pool", "pool1")
    for seconds in (0, 3 * 3600, 1):
        it.desk.later(seconds)
    dry = "Dry run: nothing was changed.\nuser ann, over all pools: at most {} GPU-hours this month (no limit before)\n{}\n"
    assert it.runrig("limits", "set", "--user", "ann", "--budget", "500", "--dry-run").out == dry.format(
        500, "6.0 of 500 GPU-hours used this month, 494.0 left; it renews on 2027-02-01 00:00:00 UTC"
    )
    assert it.runrig("limits", "set", "--user", "ann", "--budget", "6", "--dry-run").out == dry.format(
        6,
        "6.0 of 6 GPU-hours used this month, so it would be reached: nothing new starts until 2027-02-01 00:00:00 UTC; "
        "three-1 would wait",
    )
    higher = " ".join(it.runrig("pool", "update", "pool1", "--budget", "7", "--dry-run").out.split())
    assert higher.startswith("~ pool pool1 budget: 2 -> 7 ")
    assert "Budget: 6.0 of 7 GPU-hours used this month, 1.0 left; it renews on 2027-02-01 00:00:00 UTC." in higher
    assert it.runrig("limits", "set", "--user", "ann", "--budget", "500").out == (
        "user ann, over all pools: at most 500 GPU-hours this month (no limit before)\n"
    )
    it.desk.later(1)
    assert [line.split() for line in it.runrig("limits", "list").out.splitlines()[2:]] == [
        ["all", "users", "pool1", "GPU-hours", "this", "month", "6", "2", "0", "2027-02-01"],
        ["ann", "all", "pools", "GPU-hours", "this", "month", "6", "500", "494", "2027-02-01"],
    ]
    reached = "the budget of pool pool1 is reached: none of its 2 GPU-hours are left this month; it renews on 2027-02-01 00:00:00 UTC"
    assert f"three-1 is waiting: {reached}." in " ".join(it.runrig("why", waits).out.split())
    changed = it.runrig("pool", "update", "pool1", "--budget-reached", "borrow").out
    assert changed.startswith("pool pool1: budget reached none → BORROW\n")
    it.desk.later(1)
    assert f"{reached}; until then only LOW work starts." in " ".join(it.runrig("why", waits).out.split())
    assert it.runrig("pool", "update", "pool1", "--budget", "none").out.startswith(
        "pool pool1: budget of GPU-hours per month 2 → none\n"
    )
    it.desk.later(1)
    assert it.desk.status(waits) == "RUNNING"


def test_invalid_limits_are_refused_in_one_sentence(it: Served) -> None:
    for args, code, words in (
        (["set", "--gpus", "1"], 2, "specify --user or --pool"),
        (["set", "--user", "ann", "--pool", "pool1", "--gpus", "1"], 2, "specify --user or --pool, not both"),
        (["set", "--user", "ann"], 2, "nothing to change. Specify a limit, such as --gpus 8"),
        (
            ["set", "--user", "ann", "--gpus", "0"],
            2,
            "'0' is not a limit. Use a whole number from 1 to 1000000, or none.",
        ),
        (["set", "--user", "amn", "--gpus", "1"], 2, "user 'amn' not found. List users with `runrig user list`"),
        (["list", "--pool", "pool9"], 2, "unknown pool 'pool9'"),
    ):
        done = it.runrig("limits", *args)
        assert (done.code, words in done.err) == (code, True), done


def test_a_changed_limit_of_a_pool_is_reported_in_words(it: Served) -> None:
    told = it.runrig("pool", "update", "pool1", "--user-gpus", "2").out
    assert told.startswith("pool pool1: limit of GPUs per user none → 2\n")
