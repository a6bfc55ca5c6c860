"""The simulated backend: tasks that are only a time at which they end, in virtual time."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from runrig.backends.clock import ServerClock
from runrig.backends.simulated import SimulatedBackend, SimulatedClock
from runrig.domain.nodes import Node
from runrig.domain.observed import Observation, Phase, TaskFact
from runrig.domain.workflows import TaskKey
from runrig.ports.backend import Desired
from tests.backends.local.launches import ended, launch, running, stopped, stopping

NODES = (Node("n0", {"gpu": 8}), Node("n1", {"gpu": 8}))
RUNNING = TaskFact(Phase.RUNNING)


@dataclass
class RealTime:
    """A wall clock that is moved by hand."""

    at: float = 1000.0

    def __call__(self) -> float:
        return self.at


def simulated(time: RealTime, folder: Path | None = None, speed: float = 1.0) -> SimulatedBackend:
    return SimulatedBackend(NODES, SimulatedClock(speed, folder, real_time=time), folder)


def facts(backend: SimulatedBackend) -> dict[TaskKey, TaskFact]:
    """What it says of each task that it has."""
    seen = backend.observe()
    return {**dict.fromkeys(seen.running, RUNNING), **seen.tasks}


def test_task_starts_immediately_and_ends_after_its_duration() -> None:
    time = RealTime()
    backend = simulated(time)
    short, usual = launch(task="short", duration_s=5.0), launch(task="usual")
    backend.sync(running(short, usual))
    assert backend.observe() == Observation(nodes=NODES, running={short.key, usual.key})
    time.at += 5
    assert backend.observe() == Observation({short.key: ended(0)}, running={usual.key})
    time.at += 55
    backend.sync(running(short, usual))
    assert backend.observe() == Observation({short.key: ended(0), usual.key: ended(0)})
    backend.sync(Desired())
    assert backend.observe() == Observation()


@pytest.mark.parametrize(("grace_s", "after_s"), [(0.0, 0.0), (0.5, 0.5), (30.0, 1.0)])
def test_stopped_task_ends_within_a_second(grace_s: float, after_s: float) -> None:
    time = RealTime()
    backend = simulated(time)
    task = launch(grace_s=grace_s)
    backend.sync(running(task))
    backend.sync(stopping(task))
    time.at += after_s - 0.001
    assert facts(backend) == {task.key: stopped(143) if after_s == 0 else RUNNING}
    backend.sync(stopping(task))
    time.at += 0.001
    assert facts(backend) == {task.key: stopped(143)}


@pytest.mark.parametrize(("asked_at", "fact"), [(6, ended(0)), (4.9, stopped(0))])
def test_task_that_ended_before_its_stop_keeps_its_exit_code_and_an_end_during_it_is_ambiguous(
    asked_at: float, fact: TaskFact
) -> None:
    time = RealTime()
    backend = simulated(time)
    task = launch(duration_s=5.0)
    backend.sync(running(task))
    time.at += asked_at
    backend.sync(stopping(task))
    time.at += 1
    assert facts(backend) == {task.key: fact}


def test_task_stopped_before_its_start_never_starts() -> None:
    backend = simulated(RealTime())
    task = launch()
    backend.sync(stopping(task))
    backend.sync(running(task))
    assert facts(backend) == {task.key: stopped(143)}


def test_task_that_restarts_runs_for_its_full_duration_again() -> None:
    time = RealTime()
    backend = simulated(time)
    task, other = launch(duration_s=5.0), launch(task="other", duration_s=8.0)
    backend.sync(running(task, other))
    backend.sync(running(other))
    time.at += 3
    backend.sync(running(task, other))
    time.at += 3
    assert facts(backend) == {task.key: RUNNING, other.key: RUNNING}
    time.at += 2
    assert facts(backend) == {task.key: ended(0), other.key: ended(0)}


def test_tasks_stopped_early_leave_nothing_behind() -> None:
    time = RealTime()
    backend = simulated(time)
    stays = launch(duration_s=10.0)
    for at in range(3000):
        backend.sync(running(stays, launch(task=f"t{at}", duration_s=1e6)))
    assert facts(backend) == {stays.key: RUNNING, launch(task="t2999").key: RUNNING}
    time.at += 10
    assert facts(backend) == {stays.key: ended(0), launch(task="t2999").key: RUNNING}


def test_time_has_the_requested_speed_in_whole_microseconds_and_never_decreases() -> None:
    time = RealTime(at=1000.0)
    clock = SimulatedClock(60.0, real_time=time)
    assert clock.now() == 1000.0
    time.at += 1 / 3
    assert clock.now() == 1020.0
    time.at += 1e-9
    assert clock.now() == round(clock.now(), 6)
    time.at = 0.0
    assert clock.now() >= 1020.0


def test_speed_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="invalid speed 0"):
        SimulatedClock(0)


def test_tasks_and_time_continue_while_the_server_is_down(tmp_path: Path) -> None:
    time = RealTime()
    first = simulated(time, tmp_path, speed=10.0)
    short, long = launch(task="short", duration_s=50.0), launch(task="long", duration_s=500.0)
    first.sync(running(short, long))
    time.at += 6
    second = simulated(time, tmp_path, speed=100.0)
    assert second.observe() == Observation({short.key: stopped(0)}, NODES, running={long.key})
    time.at += 4.4
    assert SimulatedClock(100.0, tmp_path, real_time=time).now() == 1500.0
    assert facts(second) == {short.key: stopped(0), long.key: stopped(0)}


def test_changes_are_appended_and_found_after_a_restart(tmp_path: Path) -> None:
    time = RealTime()
    first = simulated(time, tmp_path)
    short, long, late = launch(task="short"), launch(task="long"), launch(task="late")
    first.sync(running(short, long))
    whole = (tmp_path / "tasks.json").read_text()
    first.sync(running(long, late))
    first.sync(Desired(run=running(long).run, stop=stopping(late).stop))
    after = (tmp_path / "tasks.json").read_text()
    assert after.startswith(whole), "all was written again"
    assert len(after.splitlines()) == 4, "one went, one came, one stops"
    with (tmp_path / "tasks.json").open("a") as file:
        file.write('[["late')  # the machine crashed during the write
    time.at += 2
    assert facts(simulated(time, tmp_path)) == {long.key: RUNNING, late.key: stopped(143)}


def test_file_of_tasks_does_not_grow_forever(tmp_path: Path) -> None:
    backend = simulated(RealTime(), tmp_path)
    lines = 0
    for at in range(600):
        backend.sync(running(launch(task=f"t{at}")))
        lines = max(lines, len((tmp_path / "tasks.json").read_text().splitlines()))
    assert lines == 1001, "the list of all and 1,000 changes; with more it is written anew"
    assert facts(simulated(RealTime(), tmp_path)).keys() == {launch(task="t599").key}


def test_wait_ends_with_the_next_task_or_when_woken() -> None:
    backend = SimulatedBackend(NODES, SimulatedClock(1000.0))
    task = launch(duration_s=20.0)
    backend.sync(running(task))
    backend.wait(0.0)
    while facts(backend)[task.key] == RUNNING:
        backend.wait(1e9)
    backend.wake()
    backend.wait(1e9)


def test_log_says_that_nothing_ran(tmp_path: Path) -> None:
    backend = simulated(RealTime(), tmp_path)
    output = backend.output(launch().key)
    assert output is not None
    assert output.stdout is not None
    assert Path(output.stdout.path).read_text() == "This task is simulated. Nothing ran, so there is no output.\n"
    assert (output.stderr, output.order) == (None, None)
    assert simulated(RealTime()).output(launch().key) is None


def test_the_system_clock_has_whole_microseconds() -> None:
    now = ServerClock().now()
    assert now == round(now, 6)


def test_task_of_another_workflow_with_its_name_is_not_mistaken_for_it(tmp_path: Path) -> None:
    """The database was exchanged for one in which another workflow has the id; an earlier version notes no workflow."""
    time = RealTime()
    tasks = [launch(task=name, duration_s=5.0) for name in ("same", "another", "earlier")]
    backend = simulated(time, tmp_path)
    backend.sync(running(*tasks))
    backend.close()
    file = tmp_path / "tasks.json"
    rows = json.loads(file.read_text())
    assert [row[0][1] for row in rows] == ["another", "earlier", "same"]
    rows[0][3] = "another workflow"
    del rows[1][3:]
    file.write_text(json.dumps(rows) + "\n")
    time.at += 6
    again = simulated(time, tmp_path)
    again.sync(running(*tasks))
    same, another, earlier = (task.key for task in tasks)
    assert facts(again) == {same: ended(0), another: RUNNING, earlier: ended(0)}
    time.at += 5
    assert facts(simulated(time, tmp_path))[another] == stopped(0)
