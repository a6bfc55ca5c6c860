"""Arrays and limits across ``kill -9``, with a real server and real processes: each count is what counting again gives."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from tests.patience import until
from tests.worlds.http import Client
from tests.worlds.lawful import judge
from tests.worlds.sums import check_sums_in

from .server import Server

ELEMENTS, MOST, FAILS = 6, 2, 3
SCRIPT = """\
echo "$RUNRIG_ARRAY_INDEX" >> "{folder}/started"
while [ ! -e "{folder}/go-$RUNRIG_ARRAY_INDEX" ]; do sleep 0.05; done
[ "$RUNRIG_ARRAY_INDEX" != {fails} ]
"""
COUNTED_AS = {
    "WAITING": "waiting",
    "SCHEDULING": "queued",
    "INITIALIZING": "running",
    "RUNNING": "running",
    "COMPLETED": "completed",
    "FAILED": "failed",
}
KINDS = ("waiting", "queued", "running", "completed", "failed")


def file(folder: Path) -> str:
    task = {
        "name": "main",
        "image": "any",
        "command": ["sh", "-c", SCRIPT.format(folder=folder, fails=FAILS)],
        "resource": "one",
    }
    group = {"name": "all", "array": {"indices": f"0-{ELEMENTS - 1}", "most": MOST}, "tasks": [task]}
    return json.dumps({"workflow": {"name": "sweep", "groups": [group], "resources": {"one": {"gpu": 1}}}})


class Life:
    """One life of the server, which a kill ends. *done*: elements that may end."""

    def __init__(self, server: Server, folder: Path) -> None:
        self._folder = folder
        self._server = server
        server.spawn()
        server.wait_until_ready()
        self.client: Client = server.client()

    def lets_end(self, *elements: int) -> None:
        for each in elements:
            (self._folder / f"go-{each}").touch()

    def counts(self) -> tuple[int, ...]:
        array = self.client.ok("GET", "/api/v1/workflows/sweep-1")["array"]
        return tuple(array[kind] for kind in KINDS)

    def settles_at(self, waiting: int, queued: int, running: int, completed: int, failed: int) -> None:
        """Waits for these counts. Then nothing moves, because each element waits for a file; all other counts must agree."""
        expected = (waiting, queued, running, completed, failed)
        until(lambda: self.counts() == expected and self._started() == running + completed + failed)
        whole: dict[str, Any] = self.client.ok("GET", "/api/v1/workflows/sweep-1")
        again = Counter(COUNTED_AS[group["status"]] for group in whole["groups"])
        assert tuple(again[kind] for kind in KINDS) == expected
        (listed,) = self.client.ok("GET", "/api/v1/workflows")["items"]
        assert listed["array"] == whole["array"]
        assert whole["array"]["elements"] == ELEMENTS
        assert self.client.ok("GET", "/api/v1/pools/default")["gpus"]["total"] == running
        limits = self.client.ok("GET", "/api/v1/limits")["items"]
        pending = sum(each["status"] == "PENDING" for each in self.client.ok("GET", "/api/v1/workflows")["items"])
        assert {each["limit"]: each["used"] for each in limits} == {"gpus": running, "waiting": pending}

    def _started(self) -> int:
        """How many elements have started, each once."""
        started = (self._folder / "started").read_text().split() if (self._folder / "started").exists() else []
        assert len(started) == len(set(started)), started
        return len(started)

    def killed(self) -> None:
        self.client.close()
        self._server.kill()


def test_counts_of_an_array_and_of_limits_are_right_after_each_kill(tmp_path: Path) -> None:
    """W2, W4, W6."""
    server = Server(tmp_path, 4)
    try:
        life = Life(server, tmp_path)
        user = life.client.ok("GET", "/api/v1/me")["user"]
        life.client.ok("PATCH", f"/api/v1/limits/users/{user}", {"gpus": 3, "waiting": 5})
        life.client.ok("POST", "/api/v1/workflows", {"file": file(tmp_path), "pool": "default"})
        life.killed()  # As soon as it was accepted.
        life = Life(server, tmp_path)
        life.settles_at(waiting=4, queued=0, running=2, completed=0, failed=0)
        life.killed()
        life.lets_end(0)  # While no server looks.
        life = Life(server, tmp_path)
        life.settles_at(waiting=3, queued=0, running=2, completed=1, failed=0)
        life.lets_end(1, 2, FAILS)
        life.killed()  # Somewhere between the first end and the last start.
        life = Life(server, tmp_path)
        life.settles_at(waiting=0, queued=0, running=2, completed=3, failed=1)
        life.client.ok("POST", "/api/v1/workflows/sweep-1/array", {"most": 1})
        life.killed()
        life = Life(server, tmp_path)
        life.settles_at(waiting=0, queued=0, running=2, completed=3, failed=1)
        life.lets_end(4, 5)
        life.settles_at(waiting=0, queued=0, running=0, completed=5, failed=1)
        life.killed()
        life = Life(server, tmp_path)
        life.settles_at(waiting=0, queued=0, running=0, completed=5, failed=1)
        assert life.client.ok("GET", "/api/v1/workflows/sweep-1")["status"] == "FAILED"
        life.client.close()
        server.terminate()
        assert server.processes() == []
        judge(server.data / "runrig.db")
        check_sums_in(server.data / "runrig.db")
    finally:
        server.kill()
