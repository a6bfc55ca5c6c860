"""Launches, and waiting for what a backend reports, without fixed sleeps."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from runrig.backends.local import LocalBackend
from runrig.domain.observed import Phase, TaskFact
from runrig.domain.workflows import TaskKey
from runrig.ports.backend import Desired, Launch
from tests.patience import PATIENCE_S, until


@contextmanager
def local(folder: Path, gpus: int | None = 4, real: tuple[str, ...] = ()) -> Iterator[LocalBackend]:
    """A backend that leaves nothing behind."""
    backend = LocalBackend(folder / "data", gpus, find_gpus=lambda: real)
    try:
        yield backend
    finally:
        backend.close()
        cleaner = LocalBackend(folder / "data", 0)
        end_all(cleaner)
        cleaner.close()
        until(lambda: not processes_of(folder))


def launch(*command: str, task: str = "train", retry_id: int = 0, **fields: Any) -> Launch:
    plain = Launch(
        key=TaskKey("wf-1", task, retry_id),
        gang="w-1/g",
        spec="t",
        flavor="default",
        uuid="6f1c",
        workflow_uuid="a3d0",
        node="local",
        gpus=(),
        command=command,
        environment={},
        files=(),
        inputs=(),
        hosts={task: "local"},
        index=0,
        count=1,
        max_count=1,
        grace_s=PATIENCE_S,
    )
    return replace(plain, **fields)


def python(code: str, *args: str, **fields: Any) -> Launch:
    return launch(sys.executable, "-I", "-S", "-c", code, *args, **fields)


def running(*launches: Launch) -> Desired:
    return Desired(run={each.key: each for each in launches})


def stopping(*launches: Launch) -> Desired:
    return Desired(stop={each.key: each for each in launches})


def returns_early(wait: Callable[[float], object]) -> bool:
    """True if *wait*, which is told for how many seconds at most, was woken before they were over."""
    began = time.monotonic()
    wait(PATIENCE_S)
    return time.monotonic() - began < PATIENCE_S


def until_phase(backend: LocalBackend, phase: Phase, *launches: Launch) -> Mapping[TaskKey, TaskFact]:
    """What is observed once all of *launches* are in *phase*."""
    seen: dict[TaskKey, TaskFact] = {}

    def reached() -> bool:
        seen.update(backend.observe().tasks)
        return all(each.key in seen and seen[each.key].phase is phase for each in launches)

    until(reached, pause=lambda: backend.wait(1.0))
    return seen


def end_all(backend: LocalBackend) -> None:
    """Kills all attempts and forgets them."""

    def done() -> bool:
        backend.sync(Desired())
        return not backend.observe().tasks

    until(done, pause=lambda: backend.wait(1.0))


def run_to_end(backend: LocalBackend, task: Launch) -> TaskFact:
    backend.sync(running(task))
    return until_phase(backend, Phase.ENDED, task)[task.key]


def output_of(backend: LocalBackend, task: Launch, *, error: bool = False) -> str:
    output = backend.output(task.key)
    assert output is not None
    log = output.stderr if error else output.stdout
    assert log is not None
    return Path(log.path).read_text()


def ended(exit_code: int, message: str = "") -> TaskFact:
    """For a task that was not asked to stop."""
    return TaskFact(Phase.ENDED, exit_code, message, by_itself=True)


def stopped(exit_code: int, message: str = "") -> TaskFact:
    """For a task that was asked to stop, or may have been."""
    return TaskFact(Phase.ENDED, exit_code, message)


def processes_of(folder: Path) -> list[int]:
    """Everything alive on this machine whose environment or arguments name *folder*: tasks and supervisors."""
    return [pid for pid in _pids() if str(folder).encode() in _texts(pid) and not _is_zombie(pid)]


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists() and not _is_zombie(pid)


def _pids() -> Iterable[int]:
    return (int(entry) for entry in os.listdir("/proc") if entry.isdigit() and int(entry) != os.getpid())


def _texts(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes() + Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
