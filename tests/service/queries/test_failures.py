"""The task of a failed workflow that failed first, and the lines that show why."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from runrig.domain.credentials import CredentialKind, CredentialUse
from runrig.domain.gangs import Priority
from runrig.domain.gpu_use import GpuMinute
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Group, GroupSpec, Status, Task, TaskKey, TaskSpec, Workflow, WorkflowSpec
from runrig.ports.backend import LogFile, Output
from runrig.ports.store import StoredWorkflow
from runrig.service.access.access import Access
from runrig.service.queries.failures import SHOWN, Failures
from runrig.service.queries.of_specs import Specs
from tests.service.access.people import people
from tests.worlds.service import KEYS, T0

HEAD = "Traceback (most recent call last):"


def failed(name: str, at: float, code: int = 1, status: Status = Status.FAILED, message: str = "") -> Task:
    return Task("w-1", name, 0, "g", name, 0, False, status, None, (), code, message, 0.0, at)


def stored(*tasks: Task, status: WorkflowStatus = WorkflowStatus.FAILED, queued: float | None = None) -> StoredWorkflow:
    workflow = Workflow("w-1", "u", "w", 1, "p", Priority.NORMAL, "ann", 0.0, "h", status, end_time=9.0)
    return StoredWorkflow(workflow, (Group("w-1", "g", queued_time=queued),), tasks, ())


def of_tasks(*names: str, credentials: tuple[CredentialUse, ...] = ()) -> Specs:
    """One specification, whatever its hash: a group of these tasks."""
    tasks = tuple(TaskSpec(name, "any", ("train",), credentials=credentials) for name in names)
    spec = WorkflowSpec("w", (GroupSpec("g", tasks),))
    return lambda hashes: dict.fromkeys(hashes, spec)


def failures_in(kept: "Kept") -> Failures:
    """Failures of tasks without credentials."""
    return Failures(kept, of_tasks("a", "b", "c", "gone", "main"), lambda *_: ())


class Kept:
    """Output as Kubernetes leaves it: one file a pod, its lines with their times."""

    def gpu_minutes(self, node: str, gpus: Sequence[int], since: float, until: float) -> tuple[GpuMinute, ...]:
        return ()

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

    def gpu_use(self) -> str:
        return "nothing is measured"

    name, queues = "kept", True


def test_traceback_of_a_pod_is_found_despite_timestamps(tmp_path: Path) -> None:
    lines = ["step 1", HEAD, '  File "train.py", line 7', "KeyError: 'lr'"]
    kept = Kept(tmp_path, {"main": lines})
    failures, workflow = failures_in(kept), stored(failed("main", 5.0))
    found = failures.of(workflow)
    assert found is not None
    assert (found.task, found.sentence, found.ending) == ("main", "KeyError: 'lr'", "exit code 1")
    assert (found.lines, found.first, found.last) == (tuple(lines), 1, 3)
    asked = len(kept.read)
    assert failures.of(workflow) is found
    assert len(kept.read) == asked, "what has ended is read once"


def test_first_failure_of_several_tasks_is_the_cause(tmp_path: Path) -> None:
    """b ended after a, which only lost its peer, and failed before c did."""
    wrote = {
        "a": [HEAD, '  File "x.py", line 1', "RuntimeError: NCCL error: connection closed by peer"],
        "b": ["", "", "", HEAD, '  File "x.py", line 1', "ValueError: bad shard"],
        "c": [*[""] * 6, HEAD, '  File "x.py", line 1', "ValueError: bad shape"],
    }
    found = failures_in(Kept(tmp_path, wrote)).of(stored(failed("a", 5.0), failed("b", 6.0), failed("c", 7.0)))
    assert found is not None
    assert (found.task, found.sentence) == ("b", "ValueError: bad shard")


def test_a_pod_that_was_stopped_after_another_failed_is_not_the_cause(tmp_path: Path) -> None:
    """Whatever it wrote before, and although its program ended with an exit code."""
    kept = Kept(
        tmp_path, {"a": ["waiting for b"], "b": ["", "", HEAD, '  File "x.py", line 1', "ValueError: bad shard"]}
    )
    workflow = stored(failed("b", 5.0, 7, message="exit code 7"), failed("a", 6.0, 143, message="task b ended"))
    found = failures_in(kept).of(workflow)
    assert found is not None
    assert (found.task, found.exit_code) == ("b", 7)


@pytest.mark.parametrize("behind", [0, 5, 100, 150])
def test_shown_lines_end_with_the_last_one_or_with_the_cause(tmp_path: Path, behind: int) -> None:
    lines = [*[f"step {at}" for at in range(40)], HEAD, '  File "x.py", line 1', "KeyError: 1", *["bye"] * behind]
    kept = Kept(tmp_path, {"main": []})
    (tmp_path / "main").write_text("\n".join(lines))
    found = failures_in(kept).of(stored(failed("main", 5.0)))
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
def test_workflow_without_a_failed_program_has_no_cause(tmp_path: Path, workflow: StoredWorkflow) -> None:
    assert failures_in(Kept(tmp_path, {"main": ["KeyError: 1"]})).of(workflow) is None


def test_pod_killed_for_its_memory_has_that_cause(tmp_path: Path) -> None:
    found = failures_in(Kept(tmp_path, {"main": ["step 1"]})).of(
        stored(failed("main", 5.0, 137, message="exit code 137 (OOMKilled)"))
    )
    assert found is not None
    assert (found.sentence, found.ending) == ("step 1", "exit code 137: out of memory")


SECRET = "s3cr3t-canary"
USES = (CredentialUse("wandb", variables={"WANDB": "api_key"}), CredentialUse("bucket", "/etc/s3"))
BUCKET = {"endpoint": "s3://data", "access_key_id": "AKIA-canary", "access_key": "one-canary\ntwo-canary\n"}
WROTE = [
    "step 1",
    HEAD,
    '  File "x.py", line 1',
    f"PermissionError: {SECRET} may not read s3://data of team vision as AKIA-canary",
    "one-canary",
    "two-canary",
]
MASKED = [*WROTE[:3], "PermissionError: *** may not read s3://data of team vision as ***", "***", "***"]


class Handed:
    """Ann's credentials on a real store, and a workflow of hers whose task wrote `WROTE` and failed."""

    def __init__(self, access: Access, time: list[float], folder: Path) -> None:
        self.time = time
        self.credentials = access.credentials
        self.credentials.set("ann", "wandb", CredentialKind.GENERIC, {"api_key": SECRET, "team": "vision"}, actor="ann")
        self.credentials.set("ann", "bucket", CredentialKind.DATA, BUCKET, actor="ann")
        self.kept = Kept(folder, {"main": WROTE})
        self.failures = self.anew()
        time[0] += 10
        self.workflow = stored(replace(failed("main", T0 + 20), start_time=T0 + 15), queued=T0 + 10)

    def anew(self) -> Failures:
        """As of a server that starts now."""
        return Failures(self.kept, of_tasks("main", credentials=USES), self.credentials.handed)

    def told(self) -> tuple[str, list[str]]:
        found = self.failures.of(self.workflow)
        assert found is not None
        return found.sentence, list(found.lines)


@pytest.fixture
def handed(tmp_path: Path) -> Iterator[Handed]:
    (tmp_path / "key").write_text(KEYS)
    (tmp_path / "key").chmod(0o600)
    with people(str(tmp_path / "runrig.db")) as it:
        access = Access(it.store.access, now=lambda: it.time[0], credential_key=tmp_path / "key")
        yield Handed(access, it.time, tmp_path)


NOT_SHOWN = "its last lines are hidden because they may contain values of a credential that was changed or deleted since it was queued"


def test_neither_cause_nor_lines_contain_secrets_of_the_task(handed: Handed) -> None:
    """What a credential says in the open, and a value that this task was not handed, are not masked."""
    assert handed.told() == (MASKED[3], MASKED)


@pytest.mark.parametrize("how", ["changed", "deleted", "changed while it waited"])
def test_lines_that_may_contain_a_forgotten_secret_are_not_shown(handed: Handed, how: str) -> None:
    """What was read before is remembered as it was shown."""
    handed.time[0] = T0 + (12 if how == "changed while it waited" else 30)
    assert handed.told() == (MASKED[3], MASKED)
    if how == "deleted":
        handed.credentials.delete("ann", "wandb", actor="ann")
    else:
        handed.credentials.set("ann", "wandb", CredentialKind.GENERIC, {"api_key": "new"}, actor="ann")
    assert handed.told() == (MASKED[3], MASKED)
    handed.failures = handed.anew()
    assert handed.told() == (NOT_SHOWN, [])


def test_credential_changed_before_the_task_was_queued_hides_nothing(handed: Handed) -> None:
    handed.time[0] = T0 + 9
    handed.credentials.set("ann", "wandb", CredentialKind.GENERIC, {"api_key": SECRET}, actor="ann")
    assert handed.told() == (MASKED[3], MASKED)


def test_truncated_sentence_contains_no_part_of_a_secret(handed: Handed, tmp_path: Path) -> None:
    lines = [HEAD, '  File "x.py", line 1', f"ValueError: {'x' * 280}{SECRET}"]
    (tmp_path / "main").write_text("\n".join(lines))
    assert handed.told()[0] == f"ValueError: {'x' * 280}***"
