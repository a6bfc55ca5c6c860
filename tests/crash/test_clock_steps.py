"""A whole server under a wall clock that is put forward and back, while it runs and across restarts (D9)."""

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.crash.server import Server
from tests.patience import until
from tests.worlds.command_line import RUN
from tests.worlds.http import Client
from tests.worlds.lawful import judge

MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0
WALL = "STEPPED_WALL_CLOCK"
STEPPED = f"""
import os, time
from pathlib import Path
real = time.time
time.time = lambda: real() + float(Path(os.environ["{WALL}"]).read_text())
from runrig.service.runtime import retention
retention.EVERY_S = 0.2
{RUN}
"""
TASK = """
workflow:
  name: {name}
  timeout: {{exec_timeout: 1h}}
  tasks: [{{name: main, image: any, command: [sleep, "{seconds}"], resource: one}}]
  resources: {{one: {{gpu: 1}}}}
"""


class House:
    """A server whose wall clock is *ahead* seconds ahead of the machine's."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "ahead"
        self.step(0.0)
        os.environ[WALL] = str(self._file)
        self.server = Server(folder, gpus=1, run=STEPPED)

    def step(self, ahead: float) -> None:
        self._file.with_suffix(".new").write_text(str(ahead))
        self._file.with_suffix(".new").rename(self._file)

    @contextmanager
    def up(self) -> Iterator[Client]:
        self.server.spawn()
        try:
            self.server.wait_until_ready()
            with closing(self.server.client()) as client:
                yield client
        finally:
            self.server.kill()
        judge(self.server.data / "runrig.db")


def submit(client: Client, name: str, seconds: float = 1000) -> str:
    return str(
        client.ok("POST", "/api/pool/default/workflow", {"file": TASK.format(name=name, seconds=seconds)})["name"]
    )


def status(client: Client, id: str) -> str:
    return str(client.ok("GET", f"/api/workflow/{id}")["status"])


def listed(client: Client) -> list[str]:
    """Newest first."""
    return [each["name"] for each in client.ok("GET", "/api/workflow")["workflows"]]


def why(client: Client, id: str) -> str:
    return str(client.ok("GET", f"/api/v1/workflows/{id}/why"))


def ahead(client: Client) -> float:
    found = re.search(r"^runrig_clock_difference_seconds (\S+)$", client.text("/metrics"), re.MULTILINE)
    assert found is not None
    return float(found[1])


def test_clock_change_ends_deletes_and_reorders_nothing_until_it_is_accepted(tmp_path: Path) -> None:
    house = House(tmp_path)
    with house.up() as client:
        past = submit(client, "past", 0)
        until(lambda: status(client, past) == "COMPLETED")
        limited = submit(client, "limited")
        until(lambda: status(client, limited) == "RUNNING")
        for name, step, said in (
            ("a", 90 * MINUTE, "90.0 minutes ahead of"),
            ("b", 100 * DAY, "100.0 days ahead of"),
            ("c", -2 * HOUR - 1, "2.0 hours behind"),
        ):
            house.step(step)
            id = submit(client, name)
            assert f"system clock is {said} the server's time" in why(client, id)
            assert abs(ahead(client) - step) < MINUTE
            assert status(client, limited) == "RUNNING"
        until(lambda: "event=clock_doubted" in house.server.log())
        assert listed(client) == ["c-1", "b-1", "a-1", limited, past]
    for step, before in ((-2 * HOUR, "c-1"), (100 * DAY, "again-1")):
        house.step(step)
        with house.up() as client:
            id = submit(client, "again")
            assert listed(client)[:2] == [id, before]
            assert "The system clock is" in why(client, id)
            assert status(client, limited) == "RUNNING"
            if step > 0:
                accept(client, past, limited)
    with closing(sqlite3.connect(house.server.data / "runrig.db")) as connection:
        times = connection.execute("SELECT time FROM events ORDER BY revision, seq").fetchall()
    assert times == sorted(times)


def accept(client: Client, past: str, limited: str) -> None:
    """What is older than 90 days goes, and what has run for longer than it may is ended."""
    assert past in listed(client)
    for id in ("a-1", "b-1", "c-1", "again-1", "again-2"):  # otherwise they would run when the limited one has ended
        client.ok("POST", f"/api/workflow/{id}/cancel")
    client.ok("POST", "/api/v1/clock/accept", {})
    until(lambda: status(client, limited) == "FAILED_EXEC_TIMEOUT")
    until(lambda: past not in listed(client))
    assert abs(ahead(client)) < MINUTE
