"""The two scripts of a shell, run as they are: the task that waits, and the visitor."""

import os
import subprocess
from pathlib import Path

import pytest

from runrig.spec.one_task import OneTask
from runrig.spec.shell_task import LABEL, LONGEST_ALONE_S, VISITOR, waiting_for
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.slow


def waiter(folder: Path, *command: str, alone: int = 2 * LONGEST_ALONE_S) -> tuple[list[str], dict[str, str]]:
    """The command of the task and its environment, in which it waits *alone* half seconds for a visitor."""
    task = waiting_for(command, OneTask(name="shell", command=command))
    assert dict(task.labels) == {LABEL: "1"}
    words = [word.replace(f"-ge {2 * LONGEST_ALONE_S} ", f"-ge {alone} ") for word in task.command]
    assert words[-1] != task.command[-1] or alone == 2 * LONGEST_ALONE_S
    return words, {**os.environ, **task.environment, "RUNRIG_SHELL_FOLDER": str(folder)}


def test_task_ends_with_the_exit_code_of_its_visitor(tmp_path: Path) -> None:
    words, environment = waiter(tmp_path, "sh", "-c", "echo 'a  b'; exit 7")
    with subprocess.Popen(words, env=environment) as task:
        visit = subprocess.run(
            VISITOR, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert (visit.returncode, visit.stdout) == (7, "a  b\n")
        assert task.wait(PATIENCE_S) == 7


def test_a_task_without_a_visitor_ends_after_a_while(tmp_path: Path) -> None:
    words, environment = waiter(tmp_path, "bash", alone=2)
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout) == (0, f"no shell for {LONGEST_ALONE_S} s\n")


def test_disconnected_visitor_leaves_the_task_waiting(tmp_path: Path) -> None:
    words, environment = waiter(tmp_path, "sh", "-c", "echo here; kill -HUP $PPID", alone=4)
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as task:
        visit = subprocess.run(
            VISITOR, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert (visit.returncode, visit.stdout) == (129, "here\n")
        assert task.communicate(timeout=PATIENCE_S)[0] == f"no shell for {LONGEST_ALONE_S} s\n"
    assert not (tmp_path / "done").exists()
