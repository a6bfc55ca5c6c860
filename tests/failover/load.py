"""Clients that submit without a break, each submission again and again until somebody has answered it."""

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from tests.worlds.http import Gone
from tests.worlds.workflow_files import one_task

from .servers import Site, ask

CLIENTS = 3
PAUSE_S = 0.1


def workflow(name: str) -> str:
    return one_task(name, duration="4s")


class Load:
    """*accepted*: the key of each submission → the id that was answered.  *longest_s*: that a client waited for an answer."""

    def __init__(self, site: Site, token: str) -> None:
        self._site = site
        self._token = token
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._submit, args=(number,)) for number in range(CLIENTS)]
        self.accepted: dict[str, str] = {}
        self.problems: list[object] = []
        self.longest_s = 0.0

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """What is on its way is answered first."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _submit(self, client: int) -> None:
        number = 0
        while not self._stopped.is_set():
            number += 1
            key, start = str(uuid.uuid4()), time.monotonic()
            id = self._answered(workflow(f"c{client}"), key, start + 30)
            self.longest_s = max(self.longest_s, time.monotonic() - start)
            if id is None:
                return
            self.accepted[key] = id
            time.sleep(PAUSE_S)

    def _answered(self, text: str, key: str, end: float) -> str | None:
        """The id; None with a note in *problems*."""
        headers = {"Authorization": f"Bearer {self._token}", "Idempotency-Key": key}
        while time.monotonic() < end:
            for server in tuple(self._site.servers):
                try:
                    status, answer = ask(server.url, "POST", "/api/pool/team/workflow", {"file": text}, headers)
                except Gone:
                    continue
                if status == 200:
                    return str(answer["name"])
                if status != 503:
                    self.problems.append((status, answer))
                    return None
            time.sleep(PAUSE_S)
        self.problems.append(f"nobody answered {key} in time")
        return None

    def check(self, others: int = 0) -> None:
        """Each submission became one workflow, and nothing else did but *others*."""
        assert self.problems == []
        assert len(self.accepted) > CLIENTS
        with self._site.store() as store:
            found = {store.workflow(id).workflow.uuid: id for id in self.accepted.values()}
            numbers = store.load().numbers
        assert found == self.accepted
        assert sum(numbers.values()) == len(self.accepted) + others


@contextmanager
def load(site: Site, token: str) -> Iterator[Load]:
    running = Load(site, token)
    running.start()
    try:
        yield running
    finally:
        running.stop()
