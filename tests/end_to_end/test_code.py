"""Code of a workflow on a real server: killed while it is sent, and run by a task."""

import json
import os
import signal
import socket
import subprocess
from contextlib import redirect_stderr, suppress
from io import StringIO
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from runrig.cli.transport.code import choose, send
from runrig.client.server_address import Address
from runrig.client.transport import Transport
from runrig.domain.errors import NotFound, ServerFault
from runrig.store import SqlStore
from tests.patience import PATIENCE_S, until
from tests.worlds.code import packed
from tests.worlds.command_line import Up, runrig, up, written

pytestmark = pytest.mark.slow

WORKFLOW = """
workflow:
  name: train
  code: {id}
  tasks:
  - {{name: main, image: any, command: [sh, run.sh]}}
"""


FULL = "the disk of the database {}/runrig.db is full, so nothing was stored. Free some space and try again"

NO_ROOM = "train-1 is FAILED: its folder could not be created: No space left on device\n"


def fill(file: Path, leaving: int) -> None:
    """Takes all but so many bytes of a disk."""
    with suppress(OSError), file.open("wb") as opened:
        while True:
            opened.write(b"x" * 4096)
            opened.flush()
    os.truncate(file, file.stat().st_size - leaving)


def pieces(data: Path) -> int:
    """How many pieces of code a server that is down has stored."""
    store = SqlStore.look(data / "runrig.db")
    with store.transactions.reading() as connection:
        found = connection.exec_driver_sql("SELECT count(*) FROM code_pieces").scalar_one()
    store.close()
    return int(found)


def client(server: Up) -> Transport:
    url = next(word for word in server.said.split() if word.startswith("http")).rstrip(".,")
    token = next(each.read_text().strip() for each in server.data.iterdir() if "token" in each.name)
    return Transport(Address(url, "a test"), token)


def test_server_killed_during_an_upload_keeps_earlier_code_and_a_second_upload_succeeds(tmp_path: Path) -> None:
    folder, before = tmp_path / "mine", tmp_path / "before"
    folder.mkdir()
    (folder / "run.sh").write_text("cat words\n")
    (folder / "words").write_text("hello from afar\n")
    (folder / "noise").write_bytes(os.urandom(4_000_000))
    before.mkdir()
    (before / "run.sh").write_text("echo hello from before\n")
    chosen, earlier = choose(folder), choose(before)
    with up(tmp_path / "data", "--backend", "local", "--gpus", "0") as server:
        caller = client(server)
        with redirect_stderr(StringIO()):
            send(caller, earlier)
        body = packed(chosen.manifest, [(folder / file.path).read_bytes() for file in chosen.manifest.files])
        place = urlsplit(caller.url)
        head = (
            f"POST /api/v1/code HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {caller._caller._token}\r\n"
        )
        with socket.create_connection((place.hostname or "", place.port or 0), PATIENCE_S) as half:
            half.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:2_000_000])
            server.child.send_signal(signal.SIGKILL)
            server.child.wait(timeout=PATIENCE_S)
    assert pieces(tmp_path / "data") == 2, "the manifest and the file of the earlier code"
    with up(tmp_path / "data", "--backend", "local", "--gpus", "0") as server:
        caller = client(server)
        with pytest.raises(NotFound):
            caller.call("HEAD", f"/api/v1/code/{chosen.id}")
        with redirect_stderr(StringIO()) as said:
            send(caller, chosen)
        assert said.getvalue().endswith(" of 3\n")
        for number, (code, out) in enumerate([(earlier, "hello from before\n"), (chosen, "hello from afar\n")], 1):
            done = server.runrig("submit", written(tmp_path, WORKFLOW.format(id=code.id)))
            assert done.code == 0, done.err
            assert server.runrig("wait", f"train-{number}", "--timeout", str(PATIENCE_S)).code == 0
            assert server.runrig("logs", f"train-{number}").out == out
        assert json.loads(server.runrig("workflow", "query", "train-1", "-t", "json").out)["name"] == "train-1"


def test_full_disk_stores_no_part_of_code_and_there_is_a_way_on_when_there_is_space(tmp_path: Path) -> None:
    disk, folder = tmp_path / "disk", tmp_path / "mine"
    disk.mkdir()
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip("this machine mounts no file systems for us")
    (folder / "noise").write_bytes(os.urandom(6_000_000))
    (folder / "run.sh").write_text("wc -c < noise\n")
    chosen, data = choose(folder), disk / "data"
    try:
        with up(data, "--backend", "local", "--gpus", "0") as server:
            filler = disk / "filler"
            fill(filler, leaving=1_000_000)  # Only part of it fits.
            with redirect_stderr(StringIO()), pytest.raises(ServerFault) as refused:
                send(client(server), chosen)
            assert refused.value.message == FULL.format(data)
            filler.unlink()
            subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
            until(lambda: server.runrig("status").code == 0)
            with redirect_stderr(StringIO()) as said:
                send(client(server), chosen)
            assert said.getvalue().endswith(" of 2\n"), "nothing was kept of the first"
            fill(filler, leaving=3_000_000)  # Room for the database, but not for unpacked code.
            assert server.runrig("submit", written(tmp_path, WORKFLOW.format(id=chosen.id))).code == 0
            failed = server.runrig("wait", "train-1", "--timeout", str(PATIENCE_S))
            assert (failed.code, failed.err) == (125, NO_ROOM)
            filler.unlink()
            assert server.runrig("restart", "train-1").code == 0
            assert server.runrig("wait", "train-2", "--timeout", str(PATIENCE_S)).code == 0
            assert server.runrig("logs", "train-2").out.strip() == "6000000"
        assert pieces(data) > 6
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_backup_contains_code_and_the_restored_server_runs_it(tmp_path: Path) -> None:
    folder, out = tmp_path / "mine", tmp_path / "backup"
    (folder / "lib").mkdir(parents=True)
    (folder / "run.sh").write_text("cat lib/words; test -x run.sh && exit 3\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "lib/words").write_text("hello from before\n")
    (folder / "latest").symlink_to("lib")
    chosen = choose(folder)
    with up(tmp_path / "old", "--backend", "local", "--gpus", "0") as server:
        with redirect_stderr(StringIO()):
            send(client(server), chosen)
        assert server.runrig("submit", written(tmp_path, WORKFLOW.format(id=chosen.id))).code == 0
        assert server.runrig("wait", "train-1", "--timeout", str(PATIENCE_S)).code == 3
        saved = server.runrig("backup", "-o", str(out))
        assert saved.code == 0, saved.err
    assert runrig("restore", str(out), "--data", str(tmp_path / "new")).code == 0
    with up(tmp_path / "new", "--backend", "local", "--gpus", "0") as server:
        assert server.runrig("restart", "train-1").code == 0
        assert server.runrig("wait", "train-2", "--timeout", str(PATIENCE_S)).code == 3
        assert server.runrig("logs", "train-2").out == "hello from before\n"
        assert server.runrig("code", "train-2", "-o", str(tmp_path / "back")).code == 0
        assert choose(tmp_path / "back").manifest == chosen.manifest
