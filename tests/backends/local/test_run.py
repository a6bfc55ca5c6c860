"""The local backend with real processes: what a task finds, and what is known of it when it has ended."""

import base64
import os
import resource
import signal
import stat
import sys
from pathlib import Path

import pytest

from runrig.backends.launcher import port_of
from runrig.backends.local import LocalBackend
from runrig.domain.errors import ServerFault
from runrig.domain.nodes import Node
from runrig.domain.observed import Phase, TaskFact
from runrig.domain.workflows import FileSpec, TaskKey
from runrig.ports.backend import Desired
from tests.patience import until

from .launches import (
    ended,
    launch,
    local,
    output_of,
    python,
    returns_early,
    run_to_end,
    running,
    stopped,
    stopping,
    until_phase,
)


def test_machine_is_reported_as_one_node_once(tmp_path: Path) -> None:
    with local(tmp_path, gpus=4) as backend:
        first, second = backend.observe(), backend.observe()
    assert second.nodes is None
    assert first.nodes is not None
    (node,) = first.nodes
    assert node == Node(node.name, node.resources)
    assert node.resources["gpu"] == 4
    assert node.resources["cpu"] == 1000 * len(os.sched_getaffinity(0))
    assert min(node.resources["memory"], node.resources["storage"]) > 2**30


def gpus_of(backend: LocalBackend) -> int:
    """Returns the GPUs of its only node, when it is first asked."""
    nodes = backend.observe().nodes
    assert nodes is not None
    (node,) = nodes
    return node.resources["gpu"]


def test_without_gpus_none_are_reported_unless_simulated(tmp_path: Path) -> None:
    with local(tmp_path, gpus=None) as backend:
        assert gpus_of(backend) == 0


def test_unwritable_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ServerFault, match="Choose another folder with --data"):
        LocalBackend(tmp_path / "file", 1)


@pytest.mark.parametrize(
    ("script", "exit_code"),
    [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -TERM $$", 143), ("kill -KILL $$", 137)],
)
def test_exit_code_is_that_of_the_command_or_128_and_the_signal(tmp_path: Path, script: str, exit_code: int) -> None:
    with local(tmp_path) as backend:
        assert run_to_end(backend, launch("sh", "-c", script)) == ended(exit_code)


def test_missing_command_is_a_start_error(tmp_path: Path) -> None:
    with local(tmp_path) as backend:
        assert run_to_end(backend, launch("no-such-command", "--help")) == ended(
            3003,
            "cannot start 'no-such-command': command not found on this machine (the local backend does not use images)",
        )


def test_file_that_cannot_be_executed_is_a_start_error(tmp_path: Path) -> None:
    task = launch("/app/data.txt", files=(FileSpec("/app/data.txt", "no script"),))
    with local(tmp_path) as backend:
        fact = run_to_end(backend, task)
    assert fact.exit_code == 3003
    assert fact.message.endswith("not executable. Start the file with #!, or name its interpreter in the command")


def test_task_is_starting_then_running_then_ended(tmp_path: Path) -> None:
    task = launch("sh", "-c", "while [ ! -e ../go ]; do sleep 0.02; done")
    with local(tmp_path) as backend:
        backend.sync(running(task))
        assert backend.observe().tasks[task.key].phase in (Phase.STARTING, Phase.RUNNING)
        assert until_phase(backend, Phase.RUNNING, task) == {task.key: TaskFact(Phase.RUNNING)}
        (tmp_path / "data/tasks/wf-1/train/0/go").touch()
        assert until_phase(backend, Phase.ENDED, task) == {task.key: ended(0)}
        backend.sync(Desired())
        assert backend.observe().tasks == {}


def test_both_streams_are_stored_separately_even_after_the_attempt_is_forgotten(tmp_path: Path) -> None:
    task = launch("sh", "-c", "echo out; echo err >&2")
    with local(tmp_path) as backend:
        assert backend.output(task.key) is None
        run_to_end(backend, task)
        backend.sync(Desired())
        assert (output_of(backend, task), output_of(backend, task, error=True)) == ("out\n", "err\n")
        assert backend.output(TaskKey("../../etc", "passwd", 0)) is None


def test_task_starts_with_its_folder_as_home_without_input_and_with_default_signals(tmp_path: Path) -> None:
    code = """
import os, signal, sys
print(os.getcwd() == os.environ["HOME"], sys.stdin.read() == "", os.getpgrp() == os.getpid())
print([s.name for s in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD) if signal.getsignal(s)], signal.pthread_sigmask(0, ()))
print(sorted(int(fd) for fd in os.listdir("/proc/self/fd"))[:4])
"""
    task = python(code)
    with local(tmp_path) as backend:
        assert run_to_end(backend, task) == ended(0)
        # descriptor 3 lists the folder
        assert output_of(backend, task) == "True True True\n[] set()\n[0, 1, 2, 3]\n"
    assert stat.S_IMODE((tmp_path / "data/tasks/wf-1/train/0").stat().st_mode) == 0o700


def test_environment_is_clean_and_runrigs_variables_take_precedence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNRIG_TOKEN", "secret")
    task = launch(
        "env",
        retry_id=2,
        gpus=(0, 2),
        index=1,
        count=2,
        max_count=4,
        hosts={"train-0": "n", "train-1": "n"},
        gang_attempt=3,
        environment={"EPOCHS": "3", "LANG": "C", "RUNRIG_INDEX": "9", "CUDA_VISIBLE_DEVICES": "0", "PET_NNODES": "8"},
    )
    with local(tmp_path) as backend:
        assert run_to_end(backend, task) == ended(0)
        seen = dict(line.split("=", 1) for line in output_of(backend, task).splitlines())
    folder = tmp_path.resolve() / "data/tasks/wf-1/train/2"
    assert seen == {
        "PATH": os.environ["PATH"],
        "LANG": "C",
        "HOME": f"{folder}/work",
        "TMPDIR": f"{folder}/tmp",
        "USER": seen["LOGNAME"],
        "LOGNAME": seen["USER"],
        "PYTHONUNBUFFERED": "1",
        "EPOCHS": "3",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "0,2",
        "RUNRIG_WORKFLOW_ID": "wf-1",
        "RUNRIG_TASK": "train",
        "RUNRIG_RETRY_ID": "2",
        "RUNRIG_INDEX": "1",
        "RUNRIG_COUNT": "2",
        "RUNRIG_MAX_COUNT": "4",
        "RUNRIG_HOSTS": "127.0.0.1,127.0.0.1",
        "RUNRIG_TASK_KEY": str(folder),
        "PET_NNODES": "8",
        "PET_NODE_RANK": "1",
        "PET_NPROC_PER_NODE": "2",
        "PET_MASTER_ADDR": "127.0.0.1",
        "PET_MASTER_PORT": str(port_of("w-1/g", 3)),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port_of("w-1/g", 3)),
        "RUNRIG_NODES": "2",
        "RUNRIG_NODE_RANK": "1",
        "RUNRIG_GPUS": "2",
        "RUNRIG_HOSTFILE": f"{folder}/hosts",
        "OMPI_MCA_orte_default_hostfile": f"{folder}/hosts",
        "PRTE_MCA_prte_default_hostfile": f"{folder}/hosts",
    }
    assert (folder / "hosts").read_text() == "127.0.0.1 slots=2\n" * 2


def test_real_gpus_are_identified_by_uuid_and_a_task_without_gpus_sees_none(tmp_path: Path) -> None:
    holder = launch("sh", "-c", 'echo "$CUDA_VISIBLE_DEVICES"', task="holder", gpus=(1,))
    other = launch("sh", "-c", 'echo "[${CUDA_VISIBLE_DEVICES-unset}]"', task="other")
    with local(tmp_path, gpus=None, real=("GPU-aa", "GPU-bb")) as backend:
        assert gpus_of(backend) == 2
        backend.sync(running(holder, other))
        until_phase(backend, Phase.ENDED, holder, other)
        assert (output_of(backend, holder), output_of(backend, other)) == ("GPU-bb\n", "[]\n")


def test_files_are_below_the_folder_and_only_their_exact_paths_are_replaced(tmp_path: Path) -> None:
    files = (
        FileSpec("/opt/run.sh", '#!/bin/sh\ncat "$1"; echo "$2|$3|$4|$CONFIG"\n'),
        FileSpec("/opt/run.sh.d/a", "{{index}} of {{count}}\n"),
        FileSpec("/opt/raw", base64.b64encode(b"{{index}}").decode(), base64=True),
    )
    task = launch(
        "/opt/run.sh",
        "/opt/run.sh.d/a",
        "--with=/opt/run.sh:/opt/raw",
        "/opt/run.sh/x /my/opt/raw /opt/raw2",
        "({{output}}/opt/raw)",
        files=files,
        environment={"CONFIG": "'/opt/raw'"},
    )
    with local(tmp_path) as backend:
        assert run_to_end(backend, task) == ended(0)
        printed = output_of(backend, task)
    folder = tmp_path.resolve() / "data/tasks/wf-1/train/0"
    opt = folder / "work/opt"
    assert printed == (
        "0 of 1\n"
        f"--with={opt}/run.sh:{opt}/raw|/opt/run.sh/x /my/opt/raw /opt/raw2|({folder}/output/opt/raw)|'{opt}/raw'\n"
    )
    assert (opt / "raw").read_bytes() == b"{{index}}"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["/a/../../b"], "file '/a/../../b' is outside the task's folder. Use a path without '..'"),
        (["/"], "file '/' is outside the task's folder. Use a path without '..'"),
        (["/a", "/a/b"], "file '/a/b' cannot be created: another file of the task, or of its code, has the same path"),
        (["/a", "//a"], "file '//a' cannot be created: another file of the task, or of its code, has the same path"),
    ],
)
def test_file_that_cannot_be_created_is_a_start_error(tmp_path: Path, files: list[str], message: str) -> None:
    task = launch("true", files=tuple(FileSpec(path, "") for path in files))
    with local(tmp_path) as backend:
        assert run_to_end(backend, task) == stopped(3003, message)


def test_tokens_name_folders_pods_and_the_task_itself(tmp_path: Path) -> None:
    first, *shards = (
        launch("sh", "-c", "echo $RUNRIG_TASK > {{output}}/name", task=name) for name in ("first", "shard-0", "shard-1")
    )
    reader = launch(
        "sh",
        "-c",
        "cat {{input:0}}/name {{input:first}}/name {{input:shard}}/*/name; ls {{input:1}}; "
        "echo {{workflow_id}} {{uuid}} {{index}} {{count}} {{host:reader}} {{host:peer}} {{host:peer-1}} {{host:nobody}}",
        task="reader",
        inputs=(("first", (first.key,)), ("shard", tuple(shard.key for shard in shards))),
        hosts={"reader": "n", "peer-0": "n", "peer-1": "n"},
    )
    with local(tmp_path) as backend:
        backend.sync(running(first, *shards))
        until_phase(backend, Phase.ENDED, first, *shards)
        assert run_to_end(backend, reader) == ended(0)
        assert output_of(backend, reader).splitlines() == [
            *("first", "first", "shard-0", "shard-1", "shard-0", "shard-1"),
            "wf-1 6f1c 0 1 127.0.0.1 127.0.0.1 127.0.0.1 {{host:nobody}}",
        ]


def test_missing_gpu_is_a_start_error(tmp_path: Path) -> None:
    with local(tmp_path, gpus=2) as backend:
        assert run_to_end(backend, launch("true", gpus=(3,))) == stopped(
            3003, "GPU 3 does not exist on this machine, which has 2. Start the server with --gpus"
        )


def test_thirty_concurrent_tasks_end_with_their_own_exit_codes(tmp_path: Path) -> None:
    tasks = [launch("sh", "-c", f"exit {number}", task=f"t{number}") for number in range(30)]
    with local(tmp_path) as backend:
        backend.sync(running(*tasks))
        assert until_phase(backend, Phase.ENDED, *tasks) == {
            task.key: ended(number) for number, task in enumerate(tasks)
        }


def test_wait_ends_when_an_attempt_ends_before_it_began(tmp_path: Path) -> None:
    with local(tmp_path) as backend:
        backend.sync(running(launch("true", files=(FileSpec("..", ""),))))
        assert returns_early(backend.wait)
        backend.sync(stopping(launch("true", task="other")))
        assert returns_early(backend.wait)


def test_supervisor_that_does_not_start_is_retried_and_then_abandoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with local(tmp_path) as backend:
        fact = run_to_end(backend, launch("true"))
    log = tmp_path.resolve() / "data/tasks/wf-1/train/0/supervisor.log"
    assert fact == stopped(3001, f"its supervisor did not start; see {log}")


def test_wake_ends_a_wait(tmp_path: Path) -> None:
    with local(tmp_path) as backend:
        backend.wake()
        assert returns_early(backend.wait)


def open_files(pid: int) -> set[str]:
    descriptors = Path(f"/proc/{pid}/fd")
    return {os.readlink(descriptor) for descriptor in descriptors.iterdir() if os.path.lexists(descriptor)}


def test_supervisors_inherit_nothing_from_the_server(tmp_path: Path) -> None:
    leak = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(leak, True)
    task = launch("sleep", "60")
    with local(tmp_path) as backend:
        backend.sync(running(task))
        until_phase(backend, Phase.RUNNING, task)
        folder = tmp_path.resolve() / "data/tasks/wf-1/train/0"
        pid = int((folder / "claim").read_text())
        files = ("supervisor.log", "claim", "order", "stdout.log", "stderr.log")
        own = {"/dev/null", "anon_inode:inotify", *(f"{folder}/{name}" for name in files)}
        until(lambda: open_files(pid) == own, 20, lambda: str(open_files(pid) - own))
        assert Path(f"/proc/{pid}/environ").read_bytes() == b""
        assert os.getsid(pid) == pid
    os.close(leak)


def test_signal_ignored_by_the_server_is_not_ignored_by_its_tasks(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with local(tmp_path) as backend:
            assert run_to_end(backend, launch(sys.executable, "-c", "import os; os.kill(os.getpid(), 1)")) == ended(129)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_without_free_descriptors_a_task_waits_and_does_not_fail(tmp_path: Path) -> None:
    task = launch("sh", "-c", "echo fine", files=(FileSpec("/data", "x"),))
    with local(tmp_path) as backend:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        one = os.dup(0)
        os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, (one + 1, hard))  # one is left, and a file in a folder needs two
        try:
            with pytest.raises(OSError, match="Too many open files"):
                backend.sync(running(task))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        backend.sync(running(task))
        assert until_phase(backend, Phase.ENDED, task) == {task.key: ended(0)}
