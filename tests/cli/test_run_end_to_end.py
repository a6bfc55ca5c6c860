"""`runrig run` and `attach` with a real server and real processes: output, exit codes, Ctrl-C, a server that is gone for a while."""

import os
import pty
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from e2e.processes import quiet_port
from tests.patience import PATIENCE_S
from tests.worlds.command_line import Up, process, up

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with up(tmp_path_factory.mktemp("data"), "--gpus", "2") as found:
        yield found


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, whose files go along only where a test says so."""
    (tmp_path / "runrig.toml").write_text('[run]\ncode = "none"\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shell(script: str) -> tuple[str, ...]:
    return "--", "bash", "-c", script


@contextmanager
def running(server: Up, *args: str) -> Iterator[subprocess.Popen[str]]:
    """`runrig run` as a process, once its command has printed `started`; stderr goes to stdout."""
    command = process("--data", str(server.data), *args)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as child:
        try:
            assert child.stdout is not None
            while "started" not in child.stdout.readline():
                assert child.poll() is None
            yield child
        finally:
            child.kill()


def rest_of(child: subprocess.Popen[str]) -> str:
    """What it prints until it ends. `communicate` would leave out what was read ahead with an earlier line."""
    assert child.stdout is not None
    said = child.stdout.read()
    child.wait(PATIENCE_S)
    return said


def status(server: Up, id: str) -> str:
    return str(server.json("workflow", "query", id)["status"])


def test_run_keeps_streams_separate_and_passes_on_the_exit_code(server: Up) -> None:
    done = server.runrig("run", "--name", "both", *shell("echo out; echo err >&2; exit 7"))
    first, err, end, ways = done.err.splitlines()
    assert (done.code, done.out, err) == (7, "out\n", "err")
    assert first.startswith("both-1     1 GPU, NORMAL, pool default: starts now on ")
    assert end.startswith("both-1     FAILED after ")
    assert end.endswith(": err (main, exit code 7)")
    assert ways == "           all output: runrig logs both-1    again: runrig restart both-1"


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (shell("exit 0"), 0),
        (shell("kill -SEGV $$"), 139),
        (shell("exit 255"), 255),
        (("--time", "500ms", "--", "sleep", "60"), 124),
        (("--", "no-such-program"), 125),
        (("-g", "3", *shell("exit 0")), 1),
        (("-p", "no-such-pool", *shell("exit 0")), 2),
    ],
)
def test_exit_code_of_run_shows_how_it_ended(server: Up, args: tuple[str, ...], code: int) -> None:
    assert server.runrig("run", *args).code == code


def test_exit_code_is_that_of_the_node_that_failed_first(server: Up) -> None:
    script = "test $RUNRIG_INDEX = 1 && exit 9; sleep 60"
    done = server.runrig("run", "-N", "2", "--name", "two", *shell(script))
    assert done.code == 9
    assert "FAILED after" in done.err
    assert "(main-1, exit code 9)" in done.err


def test_lines_of_several_nodes_have_the_node_as_a_prefix(server: Up) -> None:
    done = server.runrig("run", "-N", "2", *shell("echo node $RUNRIG_INDEX"))
    assert (done.code, sorted(done.out.splitlines())) == (0, ["main-0 │ node 0", "main-1 │ node 1"])


SHOWS = """
import os
names = ("PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE", "PET_MASTER_ADDR", "RUNRIG_NODES", "RUNRIG_GPUS")
print(*(os.environ[name] for name in names), os.environ["PET_MASTER_PORT"], os.environ["MASTER_PORT"])
print(open(os.environ["RUNRIG_HOSTFILE"]).read(), end="")
print({"RANK", "WORLD_SIZE"} & set(os.environ) or "no rank")
"""


def test_each_node_finds_the_others_in_its_variables(server: Up) -> None:
    done = server.runrig("run", "-N", "2", "-g", "1", "--", "python3", "-c", SHOWS)
    assert done.code == 0
    by_node = [[line[9:] for line in done.out.splitlines() if line.startswith(f"main-{rank} │ ")] for rank in (0, 1)]
    port = by_node[0][0].split()[-1]
    assert 20_000 <= int(port) <= 29_999
    hosts = ["127.0.0.1 slots=1"] * 2
    assert by_node == [[f"2 {rank} 1 127.0.0.1 2 1 {port} {port}", *hosts, "no rank"] for rank in (0, 1)]


def test_nodes_that_were_not_admitted_are_not_counted(server: Up) -> None:
    done = server.runrig("run", "-N", "3", "--min-nodes", "1", "--priority", "LOW", *shell("echo $PET_NNODES"))
    assert (done.code, sorted(done.out.splitlines())) == (0, ["main-0 │ 2", "main-1 │ 2"])


def test_waiting_run_shows_why_and_when_it_starts(server: Up) -> None:
    holder = server.runrig("run", "-d", "-g", "2", "--name", "holder", *shell("sleep 600")).out.strip()
    with running_later(server) as child:
        assert child.stderr is not None
        said = [child.stderr.readline() for _ in range(3)]
        assert server.runrig("cancel", holder).code == 0
        rest = child.stderr.read()
        out = rest_of(child)
    assert (child.returncode, out) == (0, "ran\n")
    assert said[0] == "later-1    PENDING   1 GPU, NORMAL, pool default\n"
    assert said[1].startswith("           waits: needs 1 GPU, but ")
    assert said[2] == "           sooner: runrig why later-1\n"
    assert rest.splitlines()[0][8:].startswith("   running on ")


@contextmanager
def running_later(server: Up) -> Iterator[subprocess.Popen[str]]:
    command = process("--data", str(server.data), "run", "--name", "later", *shell("echo ran"))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


def test_ctrl_c_detaches_and_attach_continues(server: Up) -> None:
    script = "echo started; while [ ! -e go ]; do sleep 0.05; done; echo went on; exit 5"
    with running(server, "run", "--name", "left", *shell(script)) as child:
        child.send_signal(signal.SIGINT)
        said = rest_of(child)
    assert child.returncode == 3
    assert "left-1 keeps running.  Return to it: runrig attach left-1\n" in said
    assert status(server, "left-1") == "RUNNING"
    (server.data / "tasks" / "left-1" / "main" / "0" / "work" / "go").touch()
    done = server.runrig("attach", "left-1")
    assert (done.code, done.out) == (5, "started\nwent on\n")
    again = server.runrig("attach")
    assert (again.code, again.out) == (5, "started\nwent on\n")
    assert [line.split()[0] for line in again.err.splitlines()[:2]] == ["left-1", "left-1"], "the cause comes first"


def test_second_ctrl_c_cancels(server: Up) -> None:
    with running(server, "run", "--name", "twice", *shell("echo started; sleep 600")) as child:
        child.send_signal(signal.SIGINT)
        assert child.stdout is not None
        while "keeps running" not in child.stdout.readline():
            pass
        child.send_signal(signal.SIGINT)
        said = rest_of(child)
    assert (child.returncode, said.splitlines()[-1]) == (125, "twice-1 is cancelled")
    assert server.runrig("wait", "twice-1").code == 125


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_attached_workflow_ends_with_the_command(server: Up, number: signal.Signals) -> None:
    name = f"tied-{number.name}"
    with running(server, "run", "--attached", "--name", name, *shell("echo started; sleep 600")) as child:
        child.send_signal(number)
        said = rest_of(child)
    assert (child.returncode, said.splitlines()[-1]) == (125, f"{name}-1 is cancelled")
    assert server.runrig("wait", f"{name}-1").code == 125


def test_only_an_attached_command_ties_its_workflow(server: Up) -> None:
    tags = {}
    for name, options in (("loose", ()), ("tied", ("--attached",))):
        with running(server, "run", *options, "--name", name, *shell("echo started; sleep 600")):
            tags[name] = server.json("workflow", "query", f"{name}-1")["tags"]
        assert server.runrig("cancel", f"{name}-1").code == 0
    assert tags == {"loose": [], "tied": ["runrig-attached"]}


def test_work_outside_the_queue_shows_why_it_waits(server: Up) -> None:
    assert server.runrig("pool", "pause", "default", "--reason", "moving disks").code == 0
    paused = server.runrig("run", "-d", "--name", "paused", *shell("sleep 600"))
    assert server.runrig("pool", "resume", "default").code == 0
    later = server.runrig("run", "-d", "--name", "next", "--after", "paused-1:any", *shell("true"))
    assert server.runrig("cancel", "paused-1").code == 0
    assert server.runrig("wait", "next-1").code == 0
    waits = [line for done in (paused, later) for line in done.err.splitlines() if "waits: " in line]
    assert [line.partition("waits: ")[2].partition(" at ")[0] for line in waits] == [
        "pool default was paused",
        "paused-1 must end first (After, rule W5)",
    ]


def test_a_shell_ends_its_workflow_with_its_own_exit_code(server: Up) -> None:
    command = process("--data", str(server.data), "shell", "-g", "2")
    script = "echo gpus $CUDA_VISIBLE_DEVICES $PET_NPROC_PER_NODE; exit 5\n"
    done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    first, *_, end = done.stderr.splitlines()  # In between comes the node, unless it started immediately.
    assert (done.returncode, done.stdout) == (5, "gpus 0,1 2\n")
    assert first.startswith("shell-1    2 GPUs, NORMAL, pool default, at most 8h: starts now on ")
    assert end.startswith("shell-1    FAILED after ")
    assert server.runrig("wait", "shell-1").code == 5


SCREEN = """\
$ echo $PET_NPROC_PER_NODE GPU, in $(basename $PWD)
1 GPU, in work
$ python3 train.py; echo $?
no file ckpt/base.pt
1
$ exit
exit
desk-1     COMPLETED after TIME
"""


def test_a_shell_on_a_terminal_looks_like_this(server: Up, folder: Path) -> None:
    """The shell of a day, which the simulated server of tests/cli/day.py cannot run."""
    (folder / "train.py").write_text("raise SystemExit('no file ckpt/base.pt')\n")
    words = ("shell", "--time", "30m", "--name", "desk", "--code", ".", "-e", "PS1=$ ")
    command = process("--data", str(server.data), *words, "--", "bash", "--norc", "--noediting")
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(command[0], command)
    said, typed = b"", [line[2:] for line in SCREEN.splitlines() if line.startswith("$ ")]
    with suppress(OSError):  # At its end.
        while data := os.read(terminal, 4096):
            said += data
            if said.endswith(b"\n$ ") and typed:
                os.write(terminal, typed.pop(0).encode() + b"\n")
    _, code = os.waitpid(pid, 0)
    os.close(terminal)
    assert (os.waitstatus_to_exitcode(code), typed) == (0, []), said
    before, prompt, screen = said.decode().replace("\r", "").partition("$ ")
    assert before.startswith("Sent 2 files (")
    assert "1 GPU, NORMAL, pool default, at most 30m" in before
    assert re.sub(r"(?<=after )\S+", "TIME", prompt + screen) == SCREEN


def test_an_idle_shell_is_warned_and_ended_but_not_while_a_program_runs_in_it(server: Up) -> None:
    assert server.runrig("pool", "update", "default", "--shell-idle", "8s").code == 0
    command = process("--data", str(server.data), "shell", "-g", "0", "--name", "idle", "--", "bash", "--norc")
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(command[0], command)
    said = b""
    try:
        while b"bash-" not in said:
            said += os.read(terminal, 4096)
        os.write(terminal, b"sleep 10; echo aw''ake\n")
        with suppress(OSError):  # When it ends.
            while data := os.read(terminal, 4096):
                said += data
        _, code = os.waitpid(pid, 0)
    finally:
        os.close(terminal)
        assert server.runrig("pool", "update", "default", "--shell-idle", "none").code == 0
    awake, warning, end = (said.find(each) for each in (b"awake", b"No input for some time.", b"idle-1     COMPLETED"))
    assert 0 < awake < warning < end, said.decode()
    assert os.waitstatus_to_exitcode(code) == 0
    assert server.runrig("logs", "idle-1").out == "no input for 8s\n"


def test_the_image_of_the_pool_is_the_default(server: Up) -> None:
    assert server.runrig("pool", "update", "default", "--default-image", "pytorch:2").code == 0
    usual = server.runrig("run", "--print", "--", "true").out
    other = server.runrig("run", "--print", "-i", "jax:1", "--", "true").out
    assert server.runrig("pool", "update", "default", "--default-image", "none").code == 0
    after = server.runrig("run", "--print", "--", "true").out
    images = [
        line.partition("image: ")[2] for out in (usual, other, after) for line in out.splitlines() if "image: " in line
    ]
    assert images == ["pytorch:2", "jax:1", "none"]
    refused = server.runrig("pool", "update", "default", "--default-image", "two words")
    assert (refused.code, "must be an image reference without spaces" in refused.err) == (2, True), refused.err


def test_a_shell_can_be_attached_again_after_a_lost_connection(server: Up) -> None:
    command = process("--data", str(server.data), "shell", "-g", "0", "--name", "cut")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write("echo here\n")
        child.stdin.flush()
        assert child.stdout.readline() == "here\n"
        child.kill()
    assert status(server, "cut-1") == "RUNNING"
    back = process("--data", str(server.data), "attach", "cut-1")
    done = subprocess.run(back, input="echo again\n", capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout) == (0, "again\n"), done.stderr
    assert status(server, "cut-1") == "COMPLETED"


def test_files_of_the_folder_are_sent_and_later_only_changes(server: Up, folder: Path) -> None:
    (folder / "train.py").write_text("import helper\n")
    (folder / "helper.py").write_text("print('first')\n")
    first = server.runrig("run", "--code", ".", "--", "python3", "train.py")
    assert (first.code, first.out) == (0, "first\n")
    assert "of 3\n" in first.err
    (folder / "helper.py").write_text("print('second')\n")
    second = server.runrig("run", "--code", ".", "--", "python3", "train.py")
    assert (second.code, second.out) == (0, "second\n")
    assert second.err.startswith("Sent 1 file (")
    again = server.runrig("run", "--code", ".", "--", "python3", "train.py")
    assert (again.out, "Sent" in again.err) == ("second\n", False)
    without = server.runrig("run", "--", "python3", "train.py")
    assert without.code == 2


def test_printed_file_can_be_submitted_and_does_the_same(server: Up) -> None:
    words = ("-g", "0", "-e", "WHO=pod {{index}}", *shell('echo "$WHO: {{ x }} $((1 + 1))"'))
    done = server.runrig("run", "--name", "same", *words)
    file = server.runrig("run", "--print", "--name", "same", *words).out
    assert server.runrig("submit", "-", stdin=file).code == 0
    assert server.runrig("wait", "same-2").code == 0
    assert done.out == server.runrig("logs", "same-2").out == "pod 0: {{ x }} 2\n"
    assert server.runrig("workflow", "spec", "same-1").out == server.runrig("workflow", "spec", "same-2").out == file


def test_a_killed_and_restarted_server_neither_loses_nor_repeats_a_line(tmp_path: Path) -> None:
    port = str(quiet_port())
    script = "echo started; for k in $(seq 40); do echo line $k; sleep 0.1; done; exit 6"
    with up(tmp_path / "data", "--gpus", "1", "--port", port) as first:
        child = running(first, "run", *shell(script))
        with child as running_child:
            first.child.kill()
            first.child.wait(PATIENCE_S)
            with up(tmp_path / "data", "--gpus", "1", "--port", port):
                said = rest_of(running_child)
    assert [line for line in said.splitlines() if line.startswith("line")] == [f"line {k}" for k in range(1, 41)]
    assert running_child.returncode == 6
