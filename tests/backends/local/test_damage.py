"""Tasks that lay hands on their own folder: they harm themselves at most, and hold nobody up."""

import os
from pathlib import Path

import pytest

from runrig.backends.local.attempt import Attempt
from runrig.backends.local.backend import LocalBackend
from runrig.domain.observed import Phase, TaskFact
from runrig.domain.workflows import ExitCode
from runrig.ports.backend import Desired, Launch
from tests.patience import until

from .launches import ended, launch, local, output_of, processes_of, python, run_to_end, running, stopping, until_phase

RUNNING = TaskFact(Phase.RUNNING)
CONTROL = ("claim", "ended", "ended.new", "launch", "started", "started.new", "stop", "stop.new", "supervisor.log")
DAMAGE = {
    "pipe": "os.mkfifo(path)",
    "folder": "os.mkdir(path)",
    "link": "os.symlink('nowhere', path)",
    "garbage": "open(path, 'wb').write(b'\\xff' * 100_000)",
    "number": "open(path, 'w').write('1')",
}
"""What stands in the place of each of the CONTROL files afterwards."""


def vandal(damage: str, last: str = "time.sleep(3600)") -> Launch:
    """Puts something else in place of every file of its supervisor, says that it did, and goes on."""
    code = f"""
import os, time
while not os.path.exists('../started'):
    time.sleep(0.005)
for path in ('../' + name for name in {CONTROL!r}):
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    {damage}
os.mkdir('../output/done')
{last}
"""
    return python(code, task="vandal", grace_s=0.2)


def done(folder: Path, task: Launch) -> Path:
    return folder / "data/tasks/wf-1" / task.key.task / "0/output/done"


def test_end_written_by_a_task_is_ignored_while_its_supervisor_is_alive(tmp_path: Path) -> None:
    told = "printf '0\\nall is well' > ../ended.x; mv ../ended.x ../ended; mkdir ../output/done"
    task = launch("sh", "-c", f"{told}; while [ ! -e ../go ]; do sleep 0.02; done; exit 7")
    with local(tmp_path) as backend:
        backend.sync(running(task))
        until(done(tmp_path, task).exists)
        for _ in range(3):
            assert until_phase(backend, Phase.RUNNING, task) == {task.key: RUNNING}
        successor = LocalBackend(tmp_path / "data", 4)
        successor.sync(running(task))
        assert until_phase(successor, Phase.RUNNING, task) == {task.key: RUNNING}
        successor.close()
        (tmp_path / "data/tasks/wf-1/train/0/go").touch()
        assert until_phase(backend, Phase.ENDED, task) == {task.key: ended(7)}


@pytest.mark.parametrize("damage", DAMAGE)
def test_tampered_files_do_not_affect_other_tasks_and_the_task_can_be_stopped(tmp_path: Path, damage: str) -> None:
    task, other = vandal(DAMAGE[damage]), launch("sh", "-c", "echo fine")
    with local(tmp_path) as backend:
        backend.sync(running(task))
        until(done(tmp_path, task).exists)
        assert until_phase(backend, Phase.RUNNING, task) == {task.key: RUNNING}
        backend.sync(running(task, other))
        assert until_phase(backend, Phase.ENDED, other) == {task.key: RUNNING, other.key: ended(0)}
        backend.sync(stopping(task))
        assert until_phase(backend, Phase.ENDED, task)[task.key].exit_code in (
            ExitCode.BACKEND_ERROR,
            128 + 15,
            128 + 9,
        )
        until(lambda: processes_of(tmp_path) == [])


@pytest.mark.parametrize("damage", DAMAGE)
def test_tampered_files_do_not_prevent_a_new_server_from_starting(tmp_path: Path, damage: str) -> None:
    task, other = vandal(DAMAGE[damage]), launch("sh", "-c", "echo fine")
    with local(tmp_path) as backend:
        backend.sync(running(task))
        until(done(tmp_path, task).exists)
        successor = LocalBackend(tmp_path / "data", 4)
        successor.sync(running(task, other))
        assert until_phase(successor, Phase.ENDED, other)[other.key] == ended(0)
        successor.sync(stopping(task))
        until_phase(successor, Phase.ENDED, task)
        until(lambda: processes_of(tmp_path) == [])
        successor.close()


def test_task_cannot_make_the_server_stop_another_process(tmp_path: Path) -> None:
    bystander = launch("sh", "-c", "trap 'echo hit' TERM; while [ ! -e ../go ]; do sleep 0.02; done", task="other")
    with local(tmp_path) as backend:
        backend.sync(running(bystander))
        until_phase(backend, Phase.RUNNING, bystander)
        folder = tmp_path / "data/tasks/wf-1/other/0"
        pid = (folder / "started").read_text().split()[0]
        task = launch(
            "sh", "-c", f"printf {pid} > ../claim; mkdir ../output/done; sleep 3600", task="vandal", grace_s=0.2
        )
        backend.sync(running(bystander, task))
        until(done(tmp_path, task).exists)
        backend.sync(Desired(run={bystander.key: bystander}, stop={task.key: task}))
        until_phase(backend, Phase.ENDED, task)
        (folder / "go").touch()
        until_phase(backend, Phase.ENDED, bystander)
        assert output_of(backend, bystander) == ""


def test_task_that_moves_its_folder_ends_like_any_other(tmp_path: Path) -> None:
    aside = tmp_path / "aside"
    task = launch("sh", "-c", f"mv ../../0 {aside}; exit 5")
    with local(tmp_path) as backend:
        assert run_to_end(backend, task).exit_code in (5, ExitCode.BACKEND_ERROR)
        assert os.path.isdir(aside)


@pytest.mark.parametrize("act", ["ask_to_stop", "ended", "supervised"])
def test_bug_in_one_attempt_does_not_stop_others(
    act: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is told once, and tried again until it works."""
    bad, good = launch("sleep", "60", task="bad"), launch("sleep", "60", task="good")
    with local(tmp_path) as backend:
        backend.sync(running(bad, good))
        until_phase(backend, Phase.RUNNING, bad, good)
        sound = getattr(Attempt, act)

        def told() -> list[str]:
            return [each.message.split()[0] for each in caplog.records if each.exc_info]

        def fails(attempt: Attempt, *args: object) -> object:
            if attempt.key == bad.key:
                raise TypeError("a mistake")
            return sound(attempt, *args)

        monkeypatch.setattr(Attempt, act, fails)
        backend.sync(stopping(bad, good))
        until_phase(backend, Phase.ENDED, good)
        until(lambda: backend.observe().tasks[bad.key].phase is Phase.RUNNING and told())
        monkeypatch.setattr(Attempt, act, sound)
        until_phase(backend, Phase.ENDED, bad)
    assert told() == ["event=attempt_failed"]
