"""The local backend: tasks that shall end, ended for good, with everything that they started."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runrig.backends.local import LocalBackend
from runrig.backends.local.processes import supervisors
from runrig.domain.observed import Phase
from runrig.ports.backend import Desired
from tests.patience import until

from .launches import (
    alive,
    ended,
    launch,
    local,
    output_of,
    processes_of,
    python,
    run_to_end,
    running,
    stopped,
    stopping,
    until_phase,
)

ESCAPE = """
import os, signal, sys, time
def daemon(name, *, double):
    if os.fork():
        return
    os.setsid()
    if double and os.fork():
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with open(f"../output/{name}.new", "w") as file:
        file.write(str(os.getpid()))
    os.rename(f"../output/{name}.new", f"../output/{name}")
    os.execve("/bin/sleep", ["sleep", "3600"], {})
daemon("session", double=False)
daemon("orphan", double=True)
while len([name for name in os.listdir("../output") if "." not in name]) < 2:
    time.sleep(0.01)
"""
"""Leaves two processes behind that took sessions of their own, ignore SIGTERM and threw away their environment."""


def escaped(folder: Path) -> list[int]:
    output = folder / "data/tasks/wf-1/train/0/output"
    return [int((output / name).read_text()) for name in ("session", "orphan")]


def test_task_that_handles_sigterm_ends_with_its_own_exit_code(tmp_path: Path) -> None:
    task = launch("sh", "-c", "trap 'echo saved; exit 5' TERM; touch ../output/ready; while :; do sleep 0.02; done")
    with local(tmp_path) as backend:
        backend.sync(running(task))
        until((tmp_path / "data/tasks/wf-1/train/0/output/ready").exists)
        for _ in range(3):  # SIGTERM is sent once
            backend.sync(stopping(task))
        assert until_phase(backend, Phase.ENDED, task) == {task.key: stopped(5)}
        assert output_of(backend, task) == "saved\n"


def test_task_that_ignores_sigterm_is_killed_after_its_grace_period(tmp_path: Path) -> None:
    task = launch("sh", "-c", "trap '' TERM; touch ../output/ready; while :; do sleep 0.02; done", grace_s=0.1)
    with local(tmp_path) as backend:
        backend.sync(running(task))
        until((tmp_path / "data/tasks/wf-1/train/0/output/ready").exists)
        backend.sync(stopping(task))
        assert until_phase(backend, Phase.ENDED, task) == {task.key: stopped(137)}


def test_sigterm_reaches_each_process_once(tmp_path: Path) -> None:
    code = """
import os, signal, time
def stop(*_):
    os.write(1, b"TERM ")
    time.sleep(0.1)
    try:
        os.wait()
    except ChildProcessError:  # It is the other one.
        pass
    os._exit(0)
signal.signal(signal.SIGTERM, stop)
if not os.fork():
    os.setsid()
    open("../output/ready", "w").close()
while True:
    time.sleep(0.02)
"""
    task = python(code)
    with local(tmp_path) as backend:
        backend.sync(running(task))
        until((tmp_path / "data/tasks/wf-1/train/0/output/ready").exists)
        backend.sync(stopping(task))
        assert until_phase(backend, Phase.ENDED, task) == {task.key: stopped(0)}
        assert output_of(backend, task) == "TERM TERM "


def test_leftover_processes_are_gone_before_the_task_has_ended(tmp_path: Path) -> None:
    with local(tmp_path) as backend:
        assert run_to_end(backend, python(ESCAPE + "sys.exit(4)")) == ended(4)
        assert [pid for pid in escaped(tmp_path) if alive(pid)] == []


def test_no_process_escapes_a_stop(tmp_path: Path) -> None:
    task = python(
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)" + ESCAPE + "time.sleep(3600)", grace_s=0.1
    )
    with local(tmp_path) as backend:
        backend.sync(running(task))
        output = tmp_path / "data/tasks/wf-1/train/0/output"
        until(lambda: (output / "session").exists() and (output / "orphan").exists())
        backend.sync(stopping(task))
        assert until_phase(backend, Phase.ENDED, task) == {task.key: stopped(137)}
        assert [pid for pid in escaped(tmp_path) if alive(pid)] == []


def test_orphans_are_reaped_while_the_task_runs(tmp_path: Path) -> None:
    code = """
import os, time
if not os.fork():
    pid = os.fork()
    if pid:
        open("../output/pid", "w").write(str(pid))
    os._exit(0)
os.wait()
pid = int(open("../output/pid").read())
while os.path.exists(f"/proc/{pid}"):
    time.sleep(0.01)
print("reaped")
"""
    task = python(code)
    with local(tmp_path) as backend:
        assert run_to_end(backend, task) == ended(0)
        assert output_of(backend, task) == "reaped\n"


def test_unwanted_attempt_is_killed_immediately_and_forgotten(tmp_path: Path) -> None:
    task = launch("sh", "-c", "trap '' TERM; touch ../output/ready; while :; do sleep 0.02; done")
    with local(tmp_path) as backend:
        backend.sync(running(task))
        until((tmp_path / "data/tasks" / str(task.key) / "output/ready").exists)
        until_phase(backend, Phase.RUNNING, task)
        backend.sync(Desired())
        assert until_phase(backend, Phase.ENDED, task) == {task.key: stopped(137)}
        backend.sync(Desired())
        assert backend.observe().tasks == {}
    assert list((tmp_path / "data/live").glob("*/*")) == []


def test_attempt_stopped_before_its_start_never_starts(tmp_path: Path) -> None:
    task = launch("touch", str(tmp_path / "ran"))
    with local(tmp_path) as backend:
        backend.sync(stopping(task))
        assert backend.observe().tasks == {task.key: stopped(143, "stopped before it started")}
        assert run_to_end(backend, task) == stopped(143, "stopped before it started")
    assert not (tmp_path / "ran").exists()


def test_attempt_started_and_stopped_immediately_ends_either_way(tmp_path: Path) -> None:
    tasks = [launch("sleep", "3600", task=f"t{number}") for number in range(5)]
    with local(tmp_path) as backend:
        for task in tasks:
            backend.sync(running(task))
            backend.sync(stopping(*tasks))
        assert {fact.exit_code for fact in until_phase(backend, Phase.ENDED, *tasks).values()} == {143}


def test_killed_supervisor_ends_its_task(tmp_path: Path) -> None:
    task = launch("sh", "-c", "setsid sleep 3600 & echo $! > ../output/pid; wait", task="train")
    with local(tmp_path) as backend:
        backend.sync(running(task))
        pid_file = tmp_path / "data/tasks/wf-1/train/0/output/pid"
        until(lambda: pid_file.exists() and pid_file.read_text())
        os.kill(int((tmp_path / "data/tasks/wf-1/train/0/claim").read_text()), signal.SIGKILL)
        assert until_phase(backend, Phase.ENDED, task) == {
            task.key: stopped(3001, "its supervisor was killed, and its processes with it; the exit code is unknown")
        }
        assert processes_of(tmp_path) == []


@contextmanager
def halted(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


LEAVES_ONE_BEHIND = "(trap '' TERM; setsid sleep 3600) & "


@pytest.mark.parametrize("code", [0, 5])
@pytest.mark.parametrize("leaves", ["", LEAVES_ONE_BEHIND])
@pytest.mark.parametrize("server", ["the same", "the next"])
def test_attempt_that_ended_before_its_stop_request_ended_by_itself(
    tmp_path: Path, code: int, leaves: str, server: str
) -> None:
    """The end and the request are there together when the supervisor comes to look."""
    task = launch("sh", "-c", f"{leaves}while [ ! -e ../go ]; do sleep 0.02; done; exit {code}", grace_s=0.1)
    folder = tmp_path / "data/tasks/wf-1/train/0"
    with local(tmp_path) as backend:
        backend.sync(running(task))
        until_phase(backend, Phase.RUNNING, task)
        pid = int((folder / "started").read_text().split()[0])
        with halted(int((folder / "claim").read_text())):
            (folder / "go").touch()
            until(lambda: not alive(pid))
            backend.sync(stopping(task))
        seeing = backend if server == "the same" else LocalBackend(tmp_path / "data", 4)
        seeing.sync(stopping(task))
        assert until_phase(seeing, Phase.ENDED, task) == {task.key: ended(code)}
        until(lambda: processes_of(tmp_path) == [])
        if seeing is not backend:
            seeing.close()


def test_end_recorded_by_an_earlier_version_may_be_a_stop(tmp_path: Path) -> None:
    task = launch("sh", "-c", "exit 5")
    with local(tmp_path) as backend:
        assert run_to_end(backend, task) == ended(5)
        (tmp_path / "data/tasks/wf-1/train/0/ended").write_text("5\n")
        successor = LocalBackend(tmp_path / "data", 4)
        assert run_to_end(successor, task) == stopped(5)
        successor.close()


def test_stop_ends_all_processes(tmp_path: Path) -> None:
    tasks = [launch("sleep", "3600", task=f"t{number}") for number in range(3)]
    with local(tmp_path) as backend:
        backend.sync(running(*tasks))
        until_phase(backend, Phase.RUNNING, *tasks)
        backend.sync(stopping(*tasks))
        assert until_phase(backend, Phase.ENDED, *tasks) == {task.key: stopped(143) for task in tasks}
        until(lambda: processes_of(tmp_path) == [])


def test_newly_forked_process_is_not_mistaken_for_its_supervisor(tmp_path: Path) -> None:
    """It has the same arguments until it becomes a command: a stop that was sent to it would be lost."""
    attempt = tmp_path / "tasks/wf-1/train/0"
    script = tmp_path / "supervisor.py"
    script.write_text("import os, time\nos.fork()\nprint(os.getpid(), flush=True)\ntime.sleep(100)\n")
    command = [sys.executable, "-I", "-S", "-B", str(script), str(attempt)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = {int(parent.stdout.readline()) for _ in range(2)}
        assert parent.pid in pids
        try:
            assert supervisors(tmp_path / "tasks") == {attempt: parent.pid}
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
