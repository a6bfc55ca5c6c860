"""Of a workflow that failed, the task that failed first and the lines in which it says of what."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from runrig.domain.gangs import Priority
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Status, Task, TaskKey, Workflow
from runrig.ports.backend import LogFile, Output
from runrig.ports.store import StoredWorkflow
from runrig.service.queries.failures import SHOWN, Failures

HEAD = "Traceback (most recent call last):"


def failed(name: str, at: float, code: int = 1, status: Status = Status.FAILED, message: str = "") -> Task:
    return Task("w-1", name, 0, "g", name, 0, False, status, None, (), code, message, 0.0, at)


def stored(*tasks: Task, status: WorkflowStatus = WorkflowStatus.FAILED) -> StoredWorkflow:
    workflow = Workflow("w-1", "u", "w", 1, "p", Priority.NORMAL, "ann", 0.0, "h", status, end_time=9.0)
    return StoredWorkflow(workflow, (), tasks, ())


class Kept:
    """Output as Kubernetes leaves it: one file a pod, its lines with their times."""

    def __init__(self, folder: Path, lines: Mapping[str, list[str]]) -> None:
        self.read: list[str] = []
        self._folder = folder
        self._there = set(lines)
        for name, written in lines.items():
            text = "".join(f"2026-01-31T12:00:{at:02}.5Z {line}\n" for at, line in enumerate(written))
            (folder / name).write_text(text)

    def output(self, key: TaskKey) -> Output | None:
        self.read.append(key.task)
        return Output(LogFile(str(self._folder), key.task), stamped=True) if key.task in self._there else None

    def says(self, workflow: str) -> tuple[str, ...]:
        return ()

    def events(self, workflow: str) -> tuple[()]:
        return ()

    queues = True


def test_a_traceback_of_a_pod_is_found_below_the_times_of_its_lines(tmp_path: Path) -> None:
    lines = ["step 1", HEAD, '  File "train.py", line 7', "KeyError: 'lr'"]
    kept = Kept(tmp_path, {"main": lines})
    failures, workflow = Failures(kept), stored(failed("main", 5.0))
    found = failures.of(workflow)
    assert found is not None
    assert (found.task.name, found.sentence, found.ending) == ("main", "KeyError: 'lr'", "exit code 1")
    assert (found.lines, found.first, found.last) == (tuple(lines), 1, 3)
    asked = len(kept.read)
    assert failures.of(workflow) is found
    assert len(kept.read) == asked, "what has ended is read once"


def test_of_several_the_one_counts_that_failed_first_and_not_of_another(tmp_path: Path) -> None:
    """b ended after a, which only lost its peer, and failed before c did."""
    wrote = {
        "a": [HEAD, '  File "x.py", line 1', "RuntimeError: NCCL error: connection closed by peer"],
        "b": ["", "", "", HEAD, '  File "x.py", line 1', "ValueError: bad shard"],
        "c": [*[""] * 6, HEAD, '  File "x.py", line 1', "ValueError: bad shape"],
    }
    found = Failures(Kept(tmp_path, wrote)).of(stored(failed("a", 5.0), failed("b", 6.0), failed("c", 7.0)))
    assert found is not None
    assert (found.task.name, found.sentence) == ("b", "ValueError: bad shard")


@pytest.mark.parametrize("behind", [0, 5, 100, 150])
def test_the_lines_that_are_shown_end_with_the_last_or_with_the_cause(tmp_path: Path, behind: int) -> None:
    lines = [*[f"step {at}" for at in range(40)], HEAD, '  File "x.py", line 1', "KeyError: 1", *["bye"] * behind]
    kept = Kept(tmp_path, {"main": []})
    (tmp_path / "main").write_text("\n".join(lines))
    found = Failures(kept).of(stored(failed("main", 5.0)))
    assert found is not None
    assert len(found.lines) == SHOWN
    assert found.lines[found.first : found.last + 1] == (HEAD, '  File "x.py", line 1', "KeyError: 1")


@pytest.mark.parametrize(
    "workflow",
    [
        stored(failed("main", 5.0), status=WorkflowStatus.COMPLETED),
        stored(failed("main", 5.0, 3003, message="no such command")),
        stored(failed("main", 5.0, 3006, Status.FAILED_PREEMPTED), status=WorkflowStatus.FAILED_PREEMPTED),
        stored(failed("gone", 5.0)),
    ],
    ids=["it completed", "it never began", "it was preempted", "nothing is kept"],
)
def test_without_a_program_of_its_own_that_failed_there_is_no_cause(tmp_path: Path, workflow: StoredWorkflow) -> None:
    assert Failures(Kept(tmp_path, {"main": ["KeyError: 1"]})).of(workflow) is None


def test_a_pod_that_was_killed_for_its_memory_says_so(tmp_path: Path) -> None:
    found = Failures(Kept(tmp_path, {"main": ["step 1"]})).of(
        stored(failed("main", 5.0, 137, message="exit code 137 (OOMKilled)"))
    )
    assert found is not None
    assert (found.sentence, found.ending) == ("step 1", "exit code 137: out of memory")
