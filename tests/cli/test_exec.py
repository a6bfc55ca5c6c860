"""`runrig workflow exec`, `port-forward` and `rsync` as processes, against a real server with the local backend."""

import fcntl
import json
import os
import pty
import shutil
import signal
import socket
import struct
import subprocess
import termios
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from e2e.processes import quiet_port
from tests.patience import PATIENCE_S, until
from tests.worlds.command_line import Done, Up, process, runrig, up, written

SERVES = """
import http.server, os, socket, threading
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def answer():
    while True:
        data, sender = datagrams.recvfrom(70000)
        datagrams.sendto(data.upper(), sender)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
datagrams.bind(server.server_address)
threading.Thread(target=answer, daemon=True).start()
with open("port.new", "w") as file:
    file.write(str(server.server_port))
os.rename("port.new", "port")
server.serve_forever()
"""
WORKFLOW = f"""
workflow:
  name: w
  tasks:
  - name: main
    image: any
    command: [python3, -c, {json.dumps(SERVES)}]
"""
needs_rsync = pytest.mark.skipif(shutil.which("rsync") is None, reason="there is no rsync on this machine")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("exec")
    with up(folder / "data", "--gpus", "1") as it:
        assert it.runrig("workflow", "submit", written(folder, WORKFLOW)).code == 0
        until((work_of(it) / "port").exists)
        assert it.runrig("workflow", "wait", "w-1", "--for", "RUNNING").code == 0
        yield it
        it.runrig("workflow", "cancel", "w-1", "--force")
        it.runrig("workflow", "wait", "w-1", "--for", "FAILED")


def work_of(server: Up) -> Path:
    return server.data.joinpath("tasks", "w-1", "main", "0", "work")


def done(server: Up, *args: str, stdin: str = "") -> tuple[int, str, str]:
    command = process("--data", str(server.data), "workflow", *args)
    found = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    return found.returncode, found.stdout, found.stderr


@pytest.mark.slow
def test_exec_passes_on_streams_and_exit_code(server: Up) -> None:
    script = "cat; echo oh >&2; exit 7"
    assert done(server, "exec", "w-1", "main", "--", "sh", "-c", script, stdin="typed") == (7, "typed", "oh\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("w-1", "main", "--", "no-such-thing"), 127, "cannot start no-such-thing: No such file or directory"),
        (("w-1", "other"), 2, "w-1 has no task 'other' (tasks: main)"),
        (("w-2", "main"), 2, "workflow 'w-2' not found"),
        (("w-1",), 2, "name a TASK or a --group. `runrig workflow query w-1` lists the tasks"),
        (("w-1", "main", "--group", "main-group"), 2, "TASK and --group exclude each other"),
        (("w-1", "main", "--entry", ""), 2, "--entry is empty"),
        (("w-1", "--group", "main-group"), 2, "/bin/bash is interactive and would wait"),
        (("w-1", "--group", "other", "--entry", "ls"), 2, "has no group 'other' (groups: main-group)"),
    ],
)
def test_invalid_command_is_reported_in_one_sentence(server: Up, args: tuple[str, ...], code: int, words: str) -> None:
    found, out, err = done(server, "exec", *args)
    assert (found, out, words in err, "Traceback" in err) == (code, "", True, False), err


@pytest.mark.slow
def test_a_group_prints_the_task_before_each_line_and_json_has_it_as_data(server: Up) -> None:
    line = ("exec", "w-1", "--group", "main-group", "--entry", "sh -c 'echo a; echo b; exit 2'")
    assert done(server, *line) == (2, "[main] a\n[main] b\n", "")
    code, out, _ = done(server, *line, "-t", "json")
    task = {"task": "main", "exit_code": 2, "stdout": "a\nb\n", "stderr": ""}
    assert (code, json.loads(out)) == (2, {"workflow": "w-1", "tasks": [task]})


@pytest.mark.slow
def test_exec_on_a_terminal_passes_on_size_keys_and_end(server: Up) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        command = process("--data", str(server.data), "workflow", "exec", "w-1", "main", "--entry", "bash --norc")
        os.execv(command[0], command)
    said = b""

    def size(rows: int, columns: int) -> None:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    def hears(end: bytes) -> None:
        nonlocal said
        while end not in said:
            said += os.read(terminal, 4096)
        said = said.partition(end)[2]

    size(21, 63)
    try:
        hears(b"$ " if os.getuid() else b"# ")
        before = termios.tcgetattr(terminal)
        os.write(terminal, b"sh -c 'stty size; exec sleep 1000'\n")  # one job: Ctrl-C reaches both programs
        hears(b"21 63\r\n")
        os.write(terminal, b"\x03")  # interrupts the program in the task, not the client
        hears(b"^C")
        size(32, 54)
        os.write(terminal, b"until [ \"$(stty size)\" = '32 54' ]; do sleep 0.02; done; echo re''sized; exit 9\n")
        hears(b"resized")
        assert before[3] & termios.ECHO == 0  # the terminal echoes it
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        status = os.waitpid(pid, 0)[1]
        os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 9


@contextmanager
def forwarding(server: Up, *args: str) -> Iterator["subprocess.Popen[str]"]:
    command = process("--data", str(server.data), "workflow", "port-forward", "w-1", "main", *args)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            yield child
        finally:
            child.terminate()


@pytest.mark.slow
def test_port_of_the_task_is_forwarded_to_this_machine(server: Up) -> None:
    (work_of(server) / "page").write_text("x" * 300_000)
    there, here = int((work_of(server) / "port").read_text()), quiet_port()
    with forwarding(server, "--port", f"{here}:{there}") as child:
        assert child.stdout is not None
        assert child.stdout.readline() == f"localhost:{here} is port {there} of w-1/main\n"
        for _ in range(2):
            with urllib.request.urlopen(f"http://localhost:{here}/page", timeout=PATIENCE_S) as answer:
                assert len(answer.read()) == 300_000


@pytest.mark.slow
def test_datagrams_are_forwarded_to_the_task(server: Up) -> None:
    there, here = int((work_of(server) / "port").read_text()), quiet_port()
    with forwarding(server, "--port", f"{here}:{there}", "--udp", "--host", "127.0.0.1") as child:
        assert child.stdout is not None
        assert child.stdout.readline() == f"127.0.0.1:{here} is UDP port {there} of w-1/main\n"
        with datagrams() as one, datagrams() as other:
            until(partial(answered, one, b"one", here))
            until(partial(answered, other, b"x" * 50_000, here))
            until(partial(answered, one, b"again", here))
        assert child.poll() is None


def datagrams() -> socket.socket:
    found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    found.settimeout(2)
    return found


def answered(local: socket.socket, said: bytes, port: int) -> bool:
    """Whether it is answered in capitals; one that is sent before there is a connection to the server may be lost."""
    local.sendto(said, ("127.0.0.1", port))
    try:
        while (answer := local.recv(70_000)) != said.upper():  # otherwise it answers an earlier attempt
            assert answer.isupper()
    except TimeoutError:
        return False
    return True


@pytest.mark.slow
def test_end_of_udp_forwarding_is_reported(server: Up) -> None:
    """Nothing listens there."""
    code, _, err = done(server, "port-forward", "w-1", "main", "--port", f"{quiet_port()}:1", "--udp")
    assert (code, "are no longer forwarded: no process of w-1/main listens on loopback port 1" in err) == (10, True), (
        err
    )


@pytest.mark.slow
@pytest.mark.parametrize("udp", [(), ("--udp",)])
def test_local_port_in_use_is_named(server: Up, udp: tuple[str, ...]) -> None:
    with socket.create_server(("localhost", 0)) as taken, datagrams() as taken_too:
        taken_too.bind(taken.getsockname())
        port = str(taken.getsockname()[1])
        code, out, err = done(server, "port-forward", "w-1", "main", "--port", port, *udp)
    assert (code, out, f"port {port} of localhost cannot be used" in err) == (2, "", True)


@pytest.mark.parametrize("words", [("status",), ("stop",), ("stop", "w-1", "--task", "main")])
def test_no_rsync_copies_in_the_background(words: tuple[str, ...]) -> None:
    done = runrig("workflow", "rsync", *words)
    assert done == Done(0, "runrig has no background copies: each upload and download ends with its command\n", "")


def test_json_also_says_that_no_rsync_copies_in_the_background() -> None:
    assert runrig("workflow", "rsync", "status", "-t", "json") == Done(0, "[]\n", "")


@pytest.mark.parametrize("ports", ["x", "0", "70000", "5-4", "1-3:1-2", "1:2:3", ""])
def test_invalid_port_is_refused_before_any_request(ports: str) -> None:
    done = runrig("workflow", "port-forward", "w-1", "main", "--port", ports)
    assert (done.code, "is not a port. Use 8000" in done.err) == (2, True), done.err


@needs_rsync
@pytest.mark.slow
def test_files_are_copied_to_a_task_and_back(server: Up, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a:b").write_bytes(b"\0" * 100_000)
    source = str(tmp_path / "src/a:b").replace(":", "\\:")
    assert done(server, "rsync", "upload", "w-1", "main", f"{source}:/osmo/run/workspace/")[0] == 0
    assert (work_of(server) / "a:b").read_bytes() == b"\0" * 100_000
    elsewhere = tmp_path / "elsewhere"  # without TASK: the lead task
    assert done(server, "rsync", "upload", "w-1", f"{tmp_path}/src/:{elsewhere}/", "--no-progress")[0] == 0
    assert [each.name for each in elsewhere.iterdir()] == ["a:b"]
    back = tmp_path / "back"
    assert done(server, "rsync", "download", "w-1", f"/osmo/run/workspace/a\\:b:{back}")[0] == 0
    assert (back / "a:b").read_bytes() == b"\0" * 100_000


@needs_rsync
@pytest.mark.slow
def test_missing_source_of_a_copy_is_reported(server: Up, tmp_path: Path) -> None:
    code, _, err = done(server, "rsync", "download", "w-1", f"/osmo/run/workspace/nothing:{tmp_path}")
    assert (code, "'/osmo/run/workspace/nothing' does not exist in the task" in err) == (2, True), err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("upload", "w-1", "/nothing/here:/x"), "'/nothing/here' does not exist on this machine"),
        (("upload", "w-1", "/etc"), "has no colon between the two paths"),
        (("upload", "w-1"), "invalid paths. Use LOCAL:REMOTE."),
        (("upload", "w-1", "/etc/hostname:x"), "'x' is not an absolute path in the task"),
        (("upload", "w-1", "/etc/hostname:/a/../b"), "is not an absolute path in the task"),
        (("upload", "w-1", "/etc/hostname:/x", "--daemon"), "--daemon is not supported"),
        (("download", "w-1", "/x:/etc/hostname"), "'/etc/hostname' is not a folder"),
    ],
)
def test_invalid_paths_are_refused_before_any_request(args: tuple[str, ...], words: str) -> None:
    done = runrig("workflow", "rsync", *args)
    assert (done.code, words in done.err) == (2, True), done.err
