"""Law W2 on the local backend: the server may die at any moment; nothing runs twice, and no exit code is lost."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runrig.backends.local import LocalBackend, supervisor
from runrig.domain.observed import Phase, TaskFact
from runrig.ports.backend import Desired
from tests.patience import until

from . import crash_points, server
from .launches import ended, launch, local, output_of, processes_of, running, stopped, stopping, until_phase

pytestmark = pytest.mark.slow

_ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_whenever_the_server_is_killed_each_task_runs_once_and_keeps_its_exit_code(tmp_path: Path, seed: int) -> None:
    """W2."""
    chance = random.Random(seed)
    for _ in range(4):
        _serve_and_kill(tmp_path, chance.random() * 0.15)
    last = server.desired(tmp_path, 1000)
    with local(tmp_path) as backend:
        backend.sync(last)
        tasks = (*last.run.values(), *last.stop.values())
        facts = until_phase(backend, Phase.ENDED, *tasks)
    numbers = range(server.TASKS)
    assert {int(key.task[1:]): fact.exit_code for key, fact in facts.items()} == {
        number: 143 if number % 4 == 3 else number for number in numbers
    }
    ran = sorted(int(line) for line in (tmp_path / "ran").read_text().split())
    assert [number for number in ran if number % 4 != 3] == [number for number in numbers if number % 4 != 3]
    assert len(ran) == len(set(ran))


def _serve_and_kill(folder: Path, after_s: float) -> None:
    command = [sys.executable, "-m", server.__name__, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=_ENVIRONMENT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        try:
            process.wait(after_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        process.wait()
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("first", [1, 2, 3])
def test_server_killed_before_any_of_its_system_calls_is_replaced(tmp_path: Path, first: int) -> None:
    """W2: every third point per case."""
    command = [sys.executable, "-m", crash_points.__name__, str(tmp_path), str(first), "3"]
    done = subprocess.run(command, env=_ENVIRONMENT, capture_output=True, text=True, check=True)
    found = [line.split(" ", 1)[1] for line in done.stdout.splitlines()]
    assert len(found) > 10
    assert set(found) <= {
        *("0 3 143 / first second", "0 3 143 / first"),
        *("1 3 143 / first second", "1 3 143 / first"),
        *("2 seen before / first second", "2 seen before / first"),
    }


def test_new_server_finds_running_and_finished_attempts(tmp_path: Path) -> None:
    long, short = launch("sleep", "3600", task="long"), launch("sh", "-c", "echo once; exit 9", task="short")
    with local(tmp_path) as backend:
        backend.sync(running(long, short))
        until_phase(backend, Phase.ENDED, short)
        until_phase(backend, Phase.RUNNING, long)
        successor = LocalBackend(tmp_path / "data", 4)
        found = {long.key: TaskFact(Phase.RUNNING), short.key: ended(9)}
        assert successor.observe().tasks == found
        successor.sync(running(long, short))
        assert successor.observe().tasks == found
        assert output_of(successor, short) == "once\n"
        successor.sync(stopping(long))
        assert until_phase(successor, Phase.ENDED, long)[long.key] == stopped(143)
        successor.close()


def test_finished_attempt_is_not_run_again_even_if_requested_again(tmp_path: Path) -> None:
    task = launch("sh", "-c", "echo once; exit 9")
    with local(tmp_path) as backend:
        backend.sync(running(task))
        until_phase(backend, Phase.ENDED, task)
        backend.sync(Desired())
        backend.sync(running(task))
        assert until_phase(backend, Phase.ENDED, task) == {task.key: ended(9)}
        assert output_of(backend, task) == "once\n"


def test_incomplete_folder_is_created_again(tmp_path: Path) -> None:
    half = tmp_path / "data/tasks/wf-1/train/0/work"
    half.mkdir(parents=True)
    (half / "leftover").touch()
    task = launch("ls")
    with local(tmp_path) as backend:
        backend.sync(running(task))
        assert until_phase(backend, Phase.ENDED, task) == {task.key: ended(0)}
        assert output_of(backend, task) == ""


def test_additional_supervisors_for_one_attempt_change_nothing(tmp_path: Path) -> None:
    attempt = tmp_path / "data/tasks/wf-1/train/0"
    again = [sys.executable, "-I", "-S", supervisor.__file__, str(attempt)]
    task = launch("sh", "-c", "echo once; while [ ! -e ../go ]; do sleep 0.02; done")
    with local(tmp_path) as backend:
        backend.sync(running(task))
        rivals = [subprocess.Popen(again) for _ in range(3)]  # one of them may have started it
        until_phase(backend, Phase.RUNNING, task)
        subprocess.run(again, check=True)
        (attempt / "go").touch()
        assert until_phase(backend, Phase.ENDED, task) == {task.key: ended(0)}
        subprocess.run(again, check=True)
        assert [rival.wait() for rival in rivals] == [0, 0, 0]
        assert output_of(backend, task) == "once\n"


def test_machine_restart_loses_running_attempts_but_not_finished_ones(tmp_path: Path) -> None:
    done, cut_off = launch("true", task="done"), launch("true", task="cut-off")
    with local(tmp_path) as backend:
        backend.sync(running(done))
        until_phase(backend, Phase.ENDED, done)
    (boot,) = (tmp_path / "data/live").iterdir()
    boot.rename(boot.with_name("an-earlier-boot"))
    (tmp_path / "data/live/an-earlier-boot/wf-1:cut-off:0").touch()
    with local(tmp_path) as backend:
        backend.sync(running(done, cut_off))
        assert backend.observe().tasks == {
            done.key: ended(0),
            cut_off.key: stopped(3001, "the machine restarted while it was running"),
        }
    assert [path.name for path in (tmp_path / "data/live").iterdir()] == [boot.name]


def test_new_server_kills_processes_without_a_supervisor(tmp_path: Path) -> None:
    task = launch("sh", "-c", "setsid sleep 3600 & wait")
    with local(tmp_path) as backend:
        backend.sync(running(task))
        until_phase(backend, Phase.RUNNING, task)
        claim = tmp_path / "data/tasks/wf-1/train/0/claim"
        subprocess.run(["kill", "-KILL", claim.read_text()], check=True)
        successor = LocalBackend(tmp_path / "data", 4)
        assert until_phase(successor, Phase.ENDED, task)[task.key].exit_code == 3001
        until(lambda: processes_of(tmp_path) == [])
        successor.close()
