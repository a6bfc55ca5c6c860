"""Law W2 as a campaign: submit, kill the server at a random moment, start it again, look at everything, and once more."""

import json
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.patience import until
from tests.worlds.http import Client, Gone

from .diary import ALONE, SCRIPT, TWIN, Diary
from .server import Server

GPUS = 30
WAITING = 30
BURST = 6
SECONDS = (2.0, 6.0)
CODES = (0, 1, 7, 42, 255)
PATIENCE_S = 180.0


class Campaign:
    """*accepted*: ids that a server has answered for; *unanswered*: those that a kill may or may not have been too late for."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.server = Server(folder, GPUS)
        self._diary = folder / "diary"
        self._random = random.Random(seed)
        self.accepted: set[str] = set()
        self.unanswered: set[str] = set()
        self._expected: dict[str, dict[str, int]] = {}
        self._number = 0
        self.kills = 0

    def diary(self) -> Diary:
        return Diary.read(self._diary)

    # ------------------------------------------------------------ submitting

    def submit(self, client: Client) -> None:
        text, id = self._workflow()
        self.unanswered.add(id)
        answer = client.ok("POST", "/api/pool/default/workflow", {"file": text})
        assert answer["name"] == id
        self.unanswered.remove(id)
        self.accepted.add(id)

    def _workflow(self) -> tuple[str, str]:
        """The file, and the id that it gets.  Most have one task; some a gang of two pods; some a second group after the first."""
        self._number += 1
        name = f"w{self._number:04}"
        code = CODES[self._number % len(CODES)]
        tasks = [self._task("only", code)]
        codes = {"only": code}
        if self._number % 6 == 1:
            tasks, codes = [{**self._task("twin", code, TWIN), "count": 2}], {"twin-0": code, "twin-1": 0}
        elif self._number % 6 == 3:
            tasks = [self._task("first", 0), {**self._task("second", code), "inputs": [{"task": "first"}]}]
            codes = {"first": 0, "second": code}
        id = f"{name}-1"
        self._expected[id] = {f"{id}/{task}/0": exit_code for task, exit_code in codes.items()}
        return json.dumps({"workflow": {"name": name, "tasks": tasks, "resources": {"one": {"gpu": 1}}}}), id

    def _task(self, name: str, code: int, last_words: str = ALONE) -> dict[str, Any]:
        seconds = round(self._random.uniform(*SECONDS), 2)
        last = last_words.format(diary=self._diary, code=code)
        script = SCRIPT.format(diary=self._diary, seconds=seconds, last_words=last)
        return {"name": name, "image": "any", "command": ["sh", "-c", script], "resource": "one"}

    # ------------------------------------------------------------ starting and killing servers

    @contextmanager
    def up(self) -> Iterator[Client]:
        """A life of the server from its ready line to whatever ends it."""
        self.server.spawn()
        self.server.wait_until_ready()
        client = self.server.client()
        try:
            yield client
        finally:
            client.close()

    def fill(self, client: Client) -> None:
        """Returns with every GPU taken by a running task, and at least as many tasks waiting."""
        self._top_up(client)
        self._until(lambda: self.diary().running >= GPUS)
        # What must be empty at the end is not empty here, which shows that the check works.
        assert len(self.server.processes()) >= GPUS // 2
        assert min(self._booked(client)[:2]) >= GPUS // 2
        self._top_up(client)

    def _top_up(self, client: Client) -> None:
        ended = set(self.diary().ends)
        missing = GPUS + WAITING - sum(key not in ended for id in self.accepted for key in self._expected[id])
        for _ in range(missing):
            self.submit(client)

    def submit_until_killed(self, client: Client) -> None:
        """The kill falls somewhere into a burst of submissions, or shortly after it; every other time all GPUs are busy then."""
        if self.kills % 2 == 0:
            self.fill(client)
        with ThreadPoolExecutor(1) as pool:
            burst = pool.submit(self._burst, client)
            time.sleep(self._random.uniform(0.0, 0.25))
            self._kill()
            burst.result()

    def _burst(self, client: Client) -> None:
        try:
            for _ in range(BURST):
                self.submit(client)
        except Gone:
            return

    def die_young(self) -> None:
        """Killed on its way up."""
        self.server.spawn()
        time.sleep(self._random.uniform(0.0, 0.5))
        self._kill()

    def wants_to_die_young(self) -> bool:
        return self._random.random() < 0.2

    def _kill(self) -> None:
        self.server.kill()
        self.kills += 1

    # ------------------------------------------------------------ looking

    def check(self, client: Client) -> None:
        """What has to hold at any time after a restart."""
        entries = client.ok("GET", "/api/workflow?all_users=true&limit=1000")["workflows"]
        statuses = {entry["name"]: entry["status"] for entry in entries}
        assert self.accepted - set(statuses) == set(), "accepted, and lost"
        assert set(statuses) - self.accepted - self.unanswered == set(), "never submitted"
        self._check_diary(self.diary())
        _, on_nodes, doubled = self._booked(client)
        assert (on_nodes <= GPUS, doubled) == (True, [])
        finished = [id for id, status in sorted(statuses.items()) if _ended(status)]
        for id in self._random.sample(finished, min(10, len(finished))):
            self._check_codes(client, id)

    def _check_diary(self, diary: Diary) -> None:
        assert diary.ran_twice() == []
        assert diary.shared_gpus() == []
        assert diary.running <= GPUS

    def _check_codes(self, client: Client, id: str) -> None:
        """Stored is what was real, of GPUs too."""
        groups = client.ok("GET", f"/api/workflow/{id}")["groups"]
        tasks = {f"{id}/{task['name']}/{task['retry_id']}": task for group in groups for task in group["tasks"]}
        diary = self.diary()
        real = {key: (code, list(diary.gpus[key])) for key, code in diary.codes.items() if key.startswith(f"{id}/")}
        assert {key: (task["exit_code"], task["gpus"]) for key, task in tasks.items()} == real
        assert {key: code for key, (code, _) in real.items()} == self._expected[id]

    def drain(self, client: Client) -> None:
        """Everything ends; then each workflow that exists has run exactly as it was submitted, and nothing else has run."""

        def unfinished() -> list[dict[str, Any]]:
            entries = client.ok("GET", "/api/workflow?all_users=true&limit=1000")["workflows"]
            return [entry for entry in entries if not _ended(entry["status"])]

        self._until(lambda: not unfinished())
        self.check(client)
        entries = client.ok("GET", "/api/workflow?all_users=true&limit=1000")["workflows"]
        there = sorted(entry["name"] for entry in entries)
        for id in there:
            self._check_codes(client, id)
        diary = self.diary()
        assert sorted(diary.starts) == sorted(key for id in there for key in self._expected[id])
        assert sorted(diary.ends) == sorted(diary.starts)
        assert self._booked(client) == (0, 0, [])

    def _booked(self, client: Client) -> tuple[int, int, list[str]]:
        """What the server says is held: GPUs of quota; GPUs of nodes; tasks that hold two, or one that another holds."""
        pools = client.ok("GET", "/api/v1/pools/default")
        resources = client.ok("GET", "/api/resources?all_pools=true")["resources"]
        holders = [f"{gpu['workflow']}/{gpu['task']}" for node in resources for gpu in node["gpus"] if gpu is not None]
        return pools["gpus"]["total"], len(holders), sorted({each for each in holders if holders.count(each) > 1})

    def _until(self, holds: Callable[[], bool]) -> None:
        def pause() -> None:
            self._check_diary(self.diary())
            time.sleep(0.1)

        until(holds, PATIENCE_S, said=lambda: self.server.log()[-4000:], pause=pause)


def _ended(status: str) -> bool:
    return status not in ("PENDING", "RUNNING", "WAITING")
