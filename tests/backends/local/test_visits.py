"""The local backend: programs beside those of tasks, and connections to the ports of tasks."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from os import terminal_size
from pathlib import Path
from typing import TypeVar

import pytest

from runrig.backends.local import LocalBackend
from runrig.domain.errors import Conflict, InvalidInput
from runrig.domain.observed import Phase
from runrig.ports.backend import ERR, OUT, Desired, Launch, Passage, Program
from tests.patience import PATIENCE_S, until

from .launches import alive, launch, local, python, running, stopped, stopping, until_phase

SLEEPS = launch("sleep", "1000")
T = TypeVar("T")

LISTENS = """
import socket
server = socket.create_server(("127.0.0.1", 0))
open("../output/port", "w").write(str(server.getsockname()[1]) + "\\n")
while True:
    connection = server.accept()[0]
    heard = b""
    while data := connection.recv(1000):
        heard += data
    connection.sendall(heard[::-1])
    connection.close()
"""

ESCAPES = """
import os, signal, sys, time
if not os.fork():
    os.setsid()
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    for descriptor in (0, 1, 2):
        os.close(descriptor)
    open("escaped.new", "w").write(str(os.getpid()))
    os.rename("escaped.new", "escaped")
    os.execve("/bin/sleep", ["sleep", "3600"], {})
while not os.path.exists("escaped"):
    time.sleep(0.01)
"""
"""Leaves a process behind that has a session and a parent of its own, ignores signals and threw away its environment."""


def inside(folder: Path, do: Callable[[LocalBackend], Awaitable[T]], *tasks: Launch) -> T:
    """What *do* gives with a backend that runs *tasks*."""
    with local(folder) as backend:
        wanted = tasks or (SLEEPS,)
        backend.sync(running(*wanted))
        until_phase(backend, Phase.RUNNING, *wanted)
        return asyncio.run(_in_time(do(backend)))


async def _in_time(work: Awaitable[T]) -> T:
    return await asyncio.wait_for(work, PATIENCE_S)


async def all_of(passage: Passage) -> dict[int, bytes]:
    """Everything that comes, by channel."""
    found: dict[int, bytes] = {}
    while (part := await passage.read()) is not None:
        found[part[0]] = found.get(part[0], b"") + part[1]
    return found


def work_of(folder: Path, task: Launch = SLEEPS) -> Path:
    return folder / "data/tasks/wf-1" / task.key.task / "0/work"


def test_program_has_the_folder_and_environment_of_the_task_and_its_own_files(tmp_path: Path) -> None:
    task = launch("sleep", "1000", environment={"COLOUR": "green"})

    async def do(backend: LocalBackend) -> tuple[dict[int, bytes], object]:
        script = 'pwd; echo "$COLOUR $RUNRIG_TASK"; cat; echo oh >&2; exit 3'
        passage = await backend.enter(task.key, Program(("sh", "-c", script)))
        await passage.write(b"typed")
        await passage.write(b"")
        return await all_of(passage), await passage.close()

    found, end = inside(tmp_path, do, task)
    said = f"{work_of(tmp_path)}\ngreen train\ntyped"
    assert (found, end) == ({OUT: said.encode(), ERR: b"oh\n"}, (3, ""))
    assert not list(work_of(tmp_path).parent.glob("door*"))


@pytest.mark.parametrize("size", [None, terminal_size((22, 11))])
def test_program_has_no_open_file_but_its_stdin_stdout_and_stderr(tmp_path: Path, size: terminal_size | None) -> None:
    async def do(backend: LocalBackend) -> tuple[dict[int, bytes], object]:
        script = "import os; print(*(n for n in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{n}')))"
        passage = await backend.enter(SLEEPS.key, Program((sys.executable, "-I", "-S", "-c", script), size))
        return await all_of(passage), await passage.close()

    found, end = inside(tmp_path, do)
    assert (found[OUT].split(), end) == ([b"0", b"1", b"2"], (0, ""))


def test_program_on_a_terminal_gets_size_resizes_and_interrupts(tmp_path: Path) -> None:
    async def do(backend: LocalBackend) -> tuple[bytes, object]:
        script = "stty -echo; stty size; trap 'stty size; exit 5' INT; echo ready; while :; do sleep 0.02; done"
        passage = await backend.enter(SLEEPS.key, Program(("sh", "-c", script), terminal_size((22, 11))))
        said = b""
        while not said.endswith(b"ready\r\n"):
            part = await passage.read()
            assert part is not None
            said += part[1]
        await passage.resize(terminal_size((44, 33)))
        await passage.write(b"\x03")
        rest = await all_of(passage)
        return said + rest[OUT], await passage.close()

    assert inside(tmp_path, do) == (b"11 22\r\nready\r\n33 44\r\n", (5, ""))


def test_program_that_cannot_start_reports_why_and_changes_nothing_else(tmp_path: Path) -> None:
    async def do(backend: LocalBackend) -> list[object]:
        (work_of(tmp_path) / "plain").write_text("text")
        ends: list[object] = []
        for name in ("no-such-program", "./plain"):
            passage = await backend.enter(SLEEPS.key, Program((name,)))
            assert await all_of(passage) == {}
            ends.append(await passage.close())
        with pytest.raises(InvalidInput):
            await backend.enter(SLEEPS.key, Program(("echo", "x" * 70_000)))
        return ends

    assert inside(tmp_path, do) == [
        (127, "cannot start no-such-program: No such file or directory"),
        (126, "cannot start ./plain: Permission denied"),
    ]


def test_all_output_of_a_program_arrives_however_slowly_it_is_read(tmp_path: Path) -> None:
    async def do(backend: LocalBackend) -> int:
        passage = await backend.enter(SLEEPS.key, Program(("head", "-c", "3000000", "/dev/zero")))
        found = 0
        while (part := await passage.read()) is not None:
            found += len(part[1])
            await asyncio.sleep(0)
        assert await passage.close() == (0, "")
        return found

    assert inside(tmp_path, do) == 3_000_000


def test_many_sessions_can_run_at_the_same_time(tmp_path: Path) -> None:
    async def one(backend: LocalBackend, number: int) -> bytes:
        passage = await backend.enter(SLEEPS.key, Program(("echo", str(number))))
        found = await all_of(passage)
        await passage.close()
        return found[OUT]

    async def do(backend: LocalBackend) -> list[bytes]:
        return await asyncio.gather(*(one(backend, number) for number in range(6)))

    assert inside(tmp_path, do) == [b"%d\n" % number for number in range(6)]


@pytest.mark.parametrize("terminal", [None, terminal_size((80, 24))])
@pytest.mark.parametrize("way", ["closed", "ended"])
def test_no_process_of_a_program_outlives_its_session(tmp_path: Path, terminal: terminal_size | None, way: str) -> None:
    async def do(backend: LocalBackend) -> int:
        code = ESCAPES + ("time.sleep(1000)" if way == "closed" else "")
        passage = await backend.enter(SLEEPS.key, Program((sys.executable, "-I", "-S", "-c", code), terminal))
        escaped = work_of(tmp_path) / "escaped"
        while not escaped.exists():
            await asyncio.sleep(0.01)
        if way == "ended":
            await all_of(passage)
        await passage.close()
        return int(escaped.read_text())

    with local(tmp_path) as backend:
        backend.sync(running(SLEEPS))
        until_phase(backend, Phase.RUNNING, SLEEPS)
        pid = asyncio.run(_in_time(do(backend)))
        until(lambda: not alive(pid))
        assert backend.observe().tasks[SLEEPS.key].phase is Phase.RUNNING


def test_session_ends_with_its_task_and_does_not_delay_it(tmp_path: Path) -> None:
    """A shell on a terminal ignores SIGTERM; the task would have to wait for its whole grace, which is longer than the test may take."""

    async def do(backend: LocalBackend) -> None:
        shell = await backend.enter(SLEEPS.key, Program(("sh", "-i"), terminal_size((80, 24))))
        await shell.write(b"echo come''in\n")
        said = b""
        while b"comein" not in said:
            part = await shell.read()
            assert part is not None
            said += part[1]
        backend.sync(stopping(SLEEPS))
        await all_of(shell)
        await shell.close()

    with local(tmp_path) as backend:
        backend.sync(running(SLEEPS))
        until_phase(backend, Phase.RUNNING, SLEEPS)
        asyncio.run(asyncio.wait_for(do(backend), PATIENCE_S / 2))
        assert until_phase(backend, Phase.ENDED, SLEEPS) == {SLEEPS.key: stopped(143)}


DIES = """
import asyncio, os, sys
from pathlib import Path
from runrig.backends.local import LocalBackend
from runrig.ports.backend import Desired, Program
from tests.backends.local.test_visits import SLEEPS, until_phase, running, Phase
async def do(backend):
    passage = await backend.enter(SLEEPS.key, Program(("sh", "-c", "echo $$; exec sleep 1000")))
    print((await passage.read())[1].decode(), end="", flush=True)
    os._exit(9)
backend = LocalBackend(Path(sys.argv[1]), 0)
backend.sync(running(SLEEPS))
until_phase(backend, Phase.RUNNING, SLEEPS)
asyncio.run(do(backend))
"""


def test_killed_server_ends_its_sessions_but_not_its_tasks(tmp_path: Path) -> None:
    command = [sys.executable, "-c", DIES, str(tmp_path / "data")]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 9
    until(lambda: not alive(int(done.stdout)))
    with local(tmp_path) as backend:
        assert until_phase(backend, Phase.RUNNING, SLEEPS)


def test_only_a_running_task_can_be_entered(tmp_path: Path) -> None:
    async def refused(backend: LocalBackend) -> list[str]:
        found = []
        for attempt in (backend.enter(SLEEPS.key, Program(("true",))), backend.connect(SLEEPS.key, 80)):
            with pytest.raises(Conflict) as caught:
                await attempt
            found.append(caught.value.message)
        return found

    words = ["wf-1/train is not running. See `runrig workflow query wf-1`"] * 2
    with local(tmp_path) as backend:
        assert asyncio.run(refused(backend)) == words
        task = launch("true")
        backend.sync(running(task))
        until_phase(backend, Phase.ENDED, task)
        assert asyncio.run(refused(backend)) == words
        backend.sync(Desired())
        assert asyncio.run(refused(backend)) == words


def test_only_ports_of_the_task_can_be_reached(tmp_path: Path) -> None:
    server, other = python(LISTENS, task="server"), python(LISTENS, task="other")

    def port(task: Launch) -> int:
        file = work_of(tmp_path, task).parent / "output/port"
        until(lambda: file.exists() and file.read_text().endswith("\n"))
        return int(file.read_text())

    async def do(backend: LocalBackend) -> dict[int, bytes]:
        passage = await backend.connect(server.key, port(server))
        await passage.write(b"hello")
        await passage.write(b"")
        found = await all_of(passage)
        await passage.close()
        with socket.create_server(("127.0.0.1", 0)) as ours:
            for strange in (ours.getsockname()[1], port(other)):
                with pytest.raises(Conflict) as caught:
                    await backend.connect(server.key, strange)
                assert f"(its ports: {port(server)})" in caught.value.message
        return found

    assert inside(tmp_path, do, server, other) == {OUT: b"olleh"}


def test_stopping_supervisor_accepts_no_sessions_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that comes to the door and is no visitor of the supervisor is not handed anything either."""
    monkeypatch.setattr("runrig.backends.local.visits.OPENS_S", 0.5)

    async def do(backend: LocalBackend) -> str:
        before = set(os.listdir("/proc/self/fd"))
        folder, pid = backend._supervisor_of(SLEEPS.key)
        os.kill(pid, 19)
        try:
            asking = asyncio.ensure_future(backend.enter(SLEEPS.key, Program(("echo", "secret"))))
            while not (folder / "door").exists():
                await asyncio.sleep(0.01)
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
                here = os.open(folder, os.O_RDONLY)
                stranger.connect(f"/proc/self/fd/{here}/door")
                os.close(here)
                with pytest.raises(Exception, match="did not open a session") as caught:
                    await asking
                assert stranger.recv(100) == b""
        finally:
            os.kill(pid, 18)
        assert set(os.listdir("/proc/self/fd")) <= before
        assert not (folder / "door").exists()
        return str(caught.value)

    assert "no answer" in inside(tmp_path, do)
