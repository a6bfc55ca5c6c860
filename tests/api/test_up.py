"""`up` as a process: the ready line, the files, signals, and what stops it from starting."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S
from tests.worlds.command_line import ended, up

pytestmark = pytest.mark.slow


def _fails(*args: str) -> tuple[int, str]:
    done = ended("up", *args)
    assert done.out == ""
    assert "Traceback" not in done.err
    return done.code, done.err


@pytest.mark.parametrize(("number", "says"), [(signal.SIGTERM, ""), (signal.SIGINT, "stopped\n")])
def test_up_reports_when_it_is_ready_and_ends_on_a_signal(tmp_path: Path, number: int, says: str) -> None:
    folder = tmp_path / "data"
    with up(folder, "--gpus", "3") as it:
        server = json.loads((folder / "server.json").read_text())
        assert it.said == f"runrig 0.1.0 is up at {server['url']} (backend local, 3 GPUs, data {folder})\n"
        assert server["pid"] == it.child.pid
        token = (folder / "token").read_text().strip()
        modes = [stat.S_IMODE(os.stat(path).st_mode) for path in (folder, folder / "token", folder / "runrig.db")]
        assert modes == [0o700, 0o600, 0o600]
        request = urllib.request.Request(f"{server['url']}/api/pool", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request) as answer:
            assert list(json.load(answer)["pools"]) == ["default"]
        it.child.send_signal(number)
        out, _ = it.child.communicate(timeout=PATIENCE_S)
        assert (it.child.returncode, out) == (0, says)
        assert not (folder / "server.json").exists()
    with up(folder, "--gpus", "3"):
        assert (folder / "token").read_text().strip() == token


def test_idle_server_uses_almost_no_processor_time(tmp_path: Path) -> None:
    with up(tmp_path / "data", "--gpus", "1") as it:
        assert it.said
        # On a busy machine it may not have settled immediately.
        assert any(_processor_s_in_a_second(it.child.pid) <= 0.05 for _ in range(20))


def _processor_s_in_a_second(pid: int) -> float:
    before = _processor_s(pid)
    time.sleep(1.0)
    return _processor_s(pid) - before


def _processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_port_in_use_is_named_with_the_way_out(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, message = _fails("--data", str(tmp_path / "data"), "--port", port)
    assert code == 10
    assert f"port {port} of 127.0.0.1" in message
    assert "--port" in message


@pytest.mark.slow
def test_a_port_in_use_is_named_before_the_server_is_imported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        program = "import sys; from runrig.cli.main import run; code = run(sys.argv[1:]); print(code, *sys.modules)"
        command = [sys.executable, "-c", program, "up", "--data", str(tmp_path / "data"), "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    code, *modules = done.stdout.split()
    assert (code, [each for each in ("uvicorn", "sqlalchemy", "fastapi", "numpy") if each in modules]) == ("10", [])
    assert f"port {port} of 127.0.0.1" in done.stderr
    assert not (tmp_path / "data").exists()


def test_data_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, message = _fails("--data", str(tmp_path / "file" / "data"), "--port", "0")
    assert code == 10
    assert f"data folder {tmp_path}/file/data cannot be written (Not a directory)" in message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("pools: [{name: p, quotta: 1}]", "cluster.yaml:1:"),
        ("pools: [{name: p", "cluster.yaml:2:1: not valid YAML"),
        ("backend: {type: kubernetes}", "`up` does not support backend kubernetes"),
        (
            "nodes: [{name: 'n{0..1}', resources: {gpu: 1}}]",
            "the local backend has only this machine, but the file has 2 nodes",
        ),
    ],
)
def test_invalid_cluster_file_creates_nothing(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(text)
    code, message = _fails("--data", str(tmp_path / "data"), "--port", "0", "--cluster", str(file))
    assert (code, words in message) == (2, True), message
    assert not (tmp_path / "data").exists()


def test_second_server_and_another_backend_are_refused(tmp_path: Path) -> None:
    folder = str(tmp_path / "data")
    with up(Path(folder), "--gpus", "1"):
        code, message = _fails("--data", folder, "--port", "0")
        assert (code, "is in use by" in message, folder in message) == (10, True, True), message
    code, message = _fails("--data", folder, "--port", "0", "--backend", "simulated")
    assert (code, "was created with backend local, so backend simulated cannot use it" in message) == (1, True), message
