"""Attempts of workflows that have the same id and are not the same: a database was lost, exchanged, or an earlier one restored."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from runrig.backends.local import LocalBackend
from runrig.domain.errors import ServerFault
from runrig.domain.observed import Phase, TaskFact
from runrig.ports.backend import Desired, Launch
from tests.patience import until

from .launches import alive, ended, launch, local, output_of, processes_of, run_to_end, running, until_phase

RUNNING = TaskFact(Phase.RUNNING)
WAITS = ("sh", "-c", "while [ ! -e ../go ]; do sleep 0.02; done; exit 9")


def of_another(task: Launch, uuid: str = "b7c2") -> Launch:
    """The same attempt by name, of another workflow; it prints NEW and ends with 7."""
    return replace(task, workflow_uuid=uuid, command=("sh", "-c", "echo NEW; exit 7"))


def by_an_earlier_version(folder: Path) -> None:
    """Takes off what only this version writes."""
    for file in (folder / "data/tasks").glob("*/.uuid"):
        file.unlink()


def aside(folder: Path) -> dict[str, str]:
    """What the attempts that were put aside have printed."""
    top = folder / "data/aside"
    return {str(file.relative_to(top).parent): file.read_text() for file in sorted(top.glob("*/*/*/stdout.log"))}


@pytest.mark.parametrize("version", ["this", "an earlier one"])
@pytest.mark.parametrize("server", ["the same", "the next"])
def test_workflow_runs_even_if_one_with_its_name_has_ended(tmp_path: Path, version: str, server: str) -> None:
    old = launch("sh", "-c", "echo OLD OUTPUT")
    with local(tmp_path) as backend:
        assert run_to_end(backend, old) == ended(0)
        backend.sync(Desired())
        if version != "this":
            by_an_earlier_version(tmp_path)
        if server == "the same":
            backend._owners.clear()  # like a server that never saw the old one
        next_one = backend if server == "the same" else LocalBackend(tmp_path / "data", 4)
        new = of_another(old)
        assert run_to_end(next_one, new) == ended(7)
        assert output_of(next_one, new) == "NEW\n"
        assert aside(tmp_path) == {"wf-1.1/train/0": "OLD OUTPUT\n"}


def test_each_earlier_workflow_of_a_name_is_moved_to_its_own_folder(tmp_path: Path) -> None:
    with local(tmp_path) as backend:
        for uuid in ("a", "b", "c"):
            task = launch("sh", "-c", f"echo {uuid}", workflow_uuid=uuid)
            assert run_to_end(backend, task) == ended(0)
            backend.sync(Desired())
        assert aside(tmp_path) == {"wf-1.1/train/0": "a\n", "wf-1.2/train/0": "b\n"}


def test_remaining_processes_of_an_earlier_workflow_end_before_the_new_one_starts(tmp_path: Path) -> None:
    """Two tasks and a retry of the old one live when the new one is wanted, with a database that knows only the new one."""
    olds = [launch(*WAITS), launch(*WAITS, task="mate"), launch(*WAITS, task="mate", retry_id=1)]
    with local(tmp_path) as backend:
        backend.sync(running(*olds))
        until_phase(backend, Phase.RUNNING, *olds)
        before = [int((folder / "claim").read_text()) for folder in (tmp_path / "data/tasks/wf-1").glob("*/*")]
        successor = LocalBackend(tmp_path / "data", 4)
        new = of_another(olds[0])
        successor.sync(running(new))
        assert set(successor.observe().tasks) == {new.key}
        assert until_phase(successor, Phase.ENDED, new) == {new.key: ended(7)}
        assert [pid for pid in before if alive(pid)] == []
        assert len(aside(tmp_path)) == 3
        assert [path.name for path in (tmp_path / "data/live").glob("*/*")] == ["wf-1:train:0"]
        successor.close()


def test_end_of_an_earlier_workflow_with_the_name_is_ignored(tmp_path: Path) -> None:
    old = launch("sh", "-c", "exit 9")
    with local(tmp_path) as backend:
        assert run_to_end(backend, old) == ended(9)
        successor = LocalBackend(tmp_path / "data", 4)
        new = of_another(old)
        successor.sync(running(new))
        assert successor.observe().tasks[new.key] != ended(9)
        assert until_phase(successor, Phase.ENDED, new) == {new.key: ended(7)}
        successor.close()


@pytest.mark.parametrize("version", ["this", "an earlier one"])
def test_attempts_of_the_same_workflow_are_adopted_again(tmp_path: Path, version: str) -> None:
    """One runs, one ended unseen, one ended and was seen; and a later task of the workflow starts beside them."""
    runs, ends, done = launch(*WAITS), launch("sh", "-c", "exit 3", task="ends"), launch("echo", "one", task="done")
    with local(tmp_path) as backend:
        assert run_to_end(backend, done) == ended(0)
        backend.sync(running(runs, ends))
        until_phase(backend, Phase.ENDED, ends)
        until_phase(backend, Phase.RUNNING, runs)
        if version != "this":
            by_an_earlier_version(tmp_path)
        successor = LocalBackend(tmp_path / "data", 4)
        later = launch("sh", "-c", "cat {{input:done}}/../stdout.log", task="later", inputs=(("done", (done.key,)),))
        successor.sync(running(runs, ends, later))
        found = until_phase(successor, Phase.ENDED, later)
        assert found == {runs.key: RUNNING, ends.key: ended(3), later.key: ended(0)}
        assert output_of(successor, later) == "one\n"
        (tmp_path / "data/tasks/wf-1/train/0/go").touch()
        assert until_phase(successor, Phase.ENDED, runs)[runs.key] == ended(9)
        assert not (tmp_path / "data/aside").exists()
        successor.close()


def test_workflow_of_an_earlier_version_between_two_tasks_continues(tmp_path: Path) -> None:
    done = launch("echo", "one", task="done")
    with local(tmp_path) as backend:
        assert run_to_end(backend, done) == ended(0)
        backend.sync(Desired())
        by_an_earlier_version(tmp_path)
        successor = LocalBackend(tmp_path / "data", 4)
        assert run_to_end(successor, launch("true", task="later")) == ended(0)
        assert output_of(successor, done) == "one\n"
        successor.close()


def test_task_that_removes_the_owner_of_its_folder_keeps_its_output(tmp_path: Path) -> None:
    task = launch("sh", "-c", "rm ../../../.uuid; while [ ! -e ../go ]; do sleep 0.02; done; exit 9")
    with local(tmp_path) as backend:
        backend.sync(running(task))
        until(lambda: not (tmp_path / "data/tasks/wf-1/.uuid").exists())
        successor = LocalBackend(tmp_path / "data", 4)
        successor.sync(running(task))
        assert until_phase(successor, Phase.RUNNING, task) == {task.key: RUNNING}
        (tmp_path / "data/tasks/wf-1/train/0/go").touch()
        assert until_phase(successor, Phase.ENDED, task) == {task.key: ended(9)}
        successor.close()


# ---------------------------------------------------------------- a deleted data folder


def pids(folder: Path, *tasks: Launch) -> list[int]:
    """The supervisor and the command of each of *tasks*."""
    places = [folder / "data/tasks" / task.key.workflow / task.key.task / "0" for task in tasks]
    return [int((place / name).read_text().split()[0]) for place in places for name in ("claim", "started")]


def started(backend: LocalBackend, folder: Path, *tasks: Launch) -> list[int]:
    backend.sync(running(*tasks))
    until_phase(backend, Phase.RUNNING, *tasks)
    return pids(folder, *tasks)


def test_processes_of_a_deleted_data_folder_are_ended_by_the_next_server_there(tmp_path: Path) -> None:
    first, second = launch("sleep", "3600"), launch("sh", "-c", "setsid env -i sleep 3600 & wait", task="second")
    with local(tmp_path) as backend:
        before = started(backend, tmp_path, first, second)
        shutil.rmtree(tmp_path / "data")
        successor = LocalBackend(tmp_path / "data", 4)
        until(lambda: not any(map(alive, before)))
        assert successor.strays.found == tuple(f"{tmp_path}/data/tasks/wf-1/{name}/0" for name in ("second", "train"))
        until(lambda: processes_of(tmp_path) == [])
        assert run_to_end(successor, of_another(first)) == ended(7)
        successor.close()


def test_server_whose_folder_was_deleted_does_not_affect_the_next_one(tmp_path: Path) -> None:
    task = launch("sleep", "3600")
    with local(tmp_path) as backend:
        started(backend, tmp_path, task)
        shutil.rmtree(tmp_path / "data")
        with pytest.raises(ServerFault, match=r"data/tasks was deleted while the server used it"):
            backend.observe()
        successor = LocalBackend(tmp_path / "data", 4)
        (again,) = started(successor, tmp_path, task)[:1]
        for call in (backend.observe, lambda: backend.sync(Desired()), lambda: backend.wait(0.01)):
            with pytest.raises(ServerFault, match=r"data/tasks was replaced while the server used it"):
                call()
        assert alive(again)
        successor.close()


def test_processes_of_another_deleted_data_folder_are_ended_too(tmp_path: Path) -> None:
    task = launch("sleep", "3600")
    with local(tmp_path / "one") as backend:
        before = started(backend, tmp_path / "one", task)
        shutil.rmtree(tmp_path / "one/data")
        with local(tmp_path / "two") as other:
            until(lambda: not any(map(alive, before)))
            assert f"{tmp_path}/one/data/tasks/wf-1/train/0" in other.strays.found


@pytest.mark.parametrize("how", ["as it was", "moved"])
def test_processes_of_another_data_folder_are_never_touched(tmp_path: Path, how: str) -> None:
    """Nor are processes without a supervisor there, which only its own server may judge."""
    task, orphan = launch("sleep", "3600"), launch("sh", "-c", "setsid sleep 3600 & wait", task="orphan")
    with local(tmp_path / "one") as backend:
        before = started(backend, tmp_path / "one", task, orphan)[:2]
        if how == "moved":
            (tmp_path / "one/data").rename(tmp_path / "one/moved")
        else:
            subprocess.run(["kill", "-KILL", str(pids(tmp_path / "one", orphan)[0])], check=True)
        with local(tmp_path / "two") as other:
            assert [each for each in other.strays.found if each.startswith(str(tmp_path))] == []
            assert all(map(alive, before))
        if how == "moved":
            (tmp_path / "one/moved").rename(tmp_path / "one/data")


def test_lost_marker_does_not_leave_an_attempt_running_unnoticed(tmp_path: Path) -> None:
    task = launch("sleep", "3600")
    with local(tmp_path) as backend:
        before = started(backend, tmp_path, task)
        shutil.rmtree(tmp_path / "data/live")
        successor = LocalBackend(tmp_path / "data", 4)
        until(lambda: not any(map(alive, before)))
        assert successor.observe().tasks == {}
        successor.close()
