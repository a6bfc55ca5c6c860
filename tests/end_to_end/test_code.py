"""Code of a workflow on a real server: killed while it is sent, and run by a task."""

import json
import os
import signal
import socket
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from runrig.cli.transport.code import choose, send
from runrig.client.server_address import Address
from runrig.client.transport import Transport
from runrig.domain.errors import NotFound
from runrig.store import SqlStore
from tests.patience import PATIENCE_S
from tests.worlds.code import packed
from tests.worlds.command_line import Up, up, written

pytestmark = pytest.mark.slow

WORKFLOW = """
workflow:
  name: train
  code: {id}
  tasks:
  - {{name: main, image: any, command: [sh, run.sh]}}
"""


def client(server: Up) -> Transport:
    url = next(word for word in server.said.split() if word.startswith("http")).rstrip(".,")
    token = next(each.read_text().strip() for each in server.data.iterdir() if "token" in each.name)
    return Transport(Address(url, "a test"), token)


def test_a_server_killed_in_the_middle_of_a_send_has_stored_nothing_and_a_second_send_runs(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "run.sh").write_text("cat words\n")
    (folder / "words").write_text("hello from afar\n")
    (folder / "noise").write_bytes(os.urandom(4_000_000))
    chosen = choose(folder)
    with up(tmp_path / "data", "--backend", "local", "--gpus", "0") as server:
        caller = client(server)
        body = packed(chosen.manifest, [(folder / file.path).read_bytes() for file in chosen.manifest.files])
        place = urlsplit(caller.url)
        head = (
            f"POST /api/v1/code HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {caller._caller._token}\r\n"
        )
        with socket.create_connection((place.hostname or "", place.port or 0), PATIENCE_S) as half:
            half.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:2_000_000])
            server.child.send_signal(signal.SIGKILL)
            server.child.wait(timeout=PATIENCE_S)
    store = SqlStore.look(tmp_path / "data/runrig.db")
    with store.transactions.reading() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM code_pieces").scalar_one() == 0
    store.close()
    with up(tmp_path / "data", "--backend", "local", "--gpus", "0") as server:
        caller = client(server)
        with pytest.raises(NotFound):
            caller.call("HEAD", f"/api/v1/code/{chosen.id}")
        with redirect_stderr(StringIO()) as said:
            send(caller, chosen)
        assert said.getvalue().endswith(" of 3\n")
        done = server.runrig("submit", written(tmp_path, WORKFLOW.format(id=chosen.id)))
        assert done.code == 0, done.err
        assert server.runrig("wait", "train-1", "--timeout", str(PATIENCE_S)).code == 0
        assert server.runrig("logs", "train-1").out == "hello from afar\n"
        assert json.loads(server.runrig("workflow", "query", "train-1", "-t", "json").out)["name"] == "train-1"
