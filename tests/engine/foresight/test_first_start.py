"""When a gang starts without a change: what the branch tells is what then happens."""

from dataclasses import replace

import pytest

from runrig.domain.steps import drained
from runrig.engine.foresight import first_start
from runrig.engine.foresight.first_start import first_starts
from runrig.engine.state.state import State
from tests.worlds.engine import LOW, NORMAL, World, task, workflow


def world() -> World:
    return World({"a": 4, "b": 4}, {"n0": 4, "n1": 4})


def submit(it: World, name: str, gpus: int, limit_s: float | None, pool: str = "a", priority: object = NORMAL) -> None:
    spec = replace(workflow(name, task("t", gpus)), exec_timeout_s=limit_s)
    it.submit(name, pool, priority, spec=spec)  # type: ignore[arg-type]


def foreseen(it: World, name: str) -> list[tuple[float, tuple[str, ...]]]:
    """The answer of a branch, which is a copy: the world stays as it is."""
    copy = State.load(it.state.rows())
    return [(at, after) for _, at, after in drained(first_starts(copy, f"{name}-1", it.now))]


def happens(it: World, name: str) -> tuple[float, tuple[str, ...]]:
    """When it really starts, and who has reached their limit just before, one second after another."""
    ended: set[str] = set()
    while not it.running() & {f"{name}-1"}:
        assert it.now < 10_000
        before = it.running()
        it.cycle()
        ended = before - it.running() or ended
    return it.now, tuple(sorted(ended))


def test_it_starts_when_the_work_in_its_way_reaches_its_limit() -> None:
    it = world()
    submit(it, "long", 4, 900.0)
    submit(it, "short", 2, 300.0, "b")
    it.cycle()
    submit(it, "w", 4, None)
    it.cycle()
    ((moment, after),) = foreseen(it, "w")
    started = it.state.groups["long-1", "t-group"].start_time
    assert started is not None
    assert (moment, after) == (started + 900.0, ("long-1",))
    assert happens(it, "w")[1] == ("long-1",)
    assert moment <= it.now <= moment + 2


def test_gangs_ahead_start_first_and_their_limits_count() -> None:
    it = world()
    submit(it, "runs", 4, 100.0)
    it.cycle()
    submit(it, "ahead", 4, 500.0)
    submit(it, "w", 4, None)
    it.cycle()
    ((moment, after),) = foreseen(it, "w")
    assert after == ("ahead-1",)
    assert 600 <= moment < 610
    assert happens(it, "w")[1] == ("ahead-1",)
    assert moment <= it.now <= moment + 4


def test_work_without_a_limit_has_no_end() -> None:
    it = world()
    submit(it, "endless", 4, None)
    it.cycle()
    submit(it, "w", 4, 100.0)
    it.cycle()
    assert foreseen(it, "w") == []
    assert foreseen(it, "gone") == []  # as one that has ended and was removed


def test_what_the_next_cycle_starts_has_no_time_of_its_own() -> None:
    it = world()
    submit(it, "low", 4, None, priority=LOW)
    submit(it, "low2", 4, None, "b", priority=LOW)
    it.cycle()
    submit(it, "w", 4, None)
    assert foreseen(it, "w") == []


def test_a_workflow_that_cannot_be_decided_ends_the_run() -> None:
    it = world()
    submit(it, "runs", 4, 100.0)
    it.cycle()
    submit(it, "w", 4, None)
    it.cycle()
    copy = State.load(it.state.rows())
    del copy.specs["hash of runs"]
    assert drained(first_starts(copy, "w-1", it.now)) == ()


def test_a_run_that_needs_too_many_deadlines_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    it = world()
    submit(it, "runs", 4, 100.0)
    it.cycle()
    submit(it, "w", 4, None)
    it.cycle()
    monkeypatch.setattr(first_start, "MOST_DEADLINES", 1)
    assert foreseen(it, "w") == []
