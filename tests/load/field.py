"""The whole measurement: a server with a long past, a crowd, and how its memory goes."""

import asyncio
import gc
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.attack.target import Target, serve
from tests.load import crowd
from tests.load.seed import forget, grow
from tests.patience import PATIENCE_S
from tests.worlds.command_line import RUN
from tests.worlds.lawful import judge

CLUSTER = """
backend: {type: simulated}
nodes:
- {name: "n{00..63}", resources: {gpu: 8}}
pools:
- {name: team, quota: 256}
- {name: team2, quota: 128}
- {name: other, quota: 128}
"""
SAMPLE_S = 0.5


@dataclass
class Measured:
    """*memory*: bytes over time, at even distances.  *processor*: how much of one the server used, of 1."""

    figures: crowd.Figures
    memory: list[int]
    processor: float

    def growth(self, settled: int = 1) -> int:
        """From the tenth after the first *settled* ones, when everything has been done once, to the last."""
        tenth = max(1, len(self.memory) // 10)
        early, late = self.memory[settled * tenth : (settled + 1) * tenth], self.memory[-tenth:]
        return sum(late) // len(late) - sum(early) // len(early)

    def lines(self) -> list[str]:
        mib = 1024 * 1024
        return [
            *self.figures.lines(),
            f"memory {self.memory[0] / mib:.0f} MiB at first, {self.memory[-1] / mib:.0f} at last, "
            f"{max(self.memory) / mib:.0f} at most; growth {self.growth() / mib:+.1f} after the first tenth",
            f"the server used {self.processor:.0%} of a processor",
        ]


@contextmanager
def house(folder: Path, *, past: int, run: str = RUN) -> Iterator[Target]:
    """A server with *past* finished workflows. At the end, its log must be lawful."""
    with serve(folder, cluster=CLUSTER) as target:
        text = crowd.FILE.format(name="first")
        id = target.ok("POST", "/api/pool/team/workflow", {"file": text})["name"]
        target.ok("GET", f"/api/v1/workflows/{id}/wait?timeout=120")
        target.process.terminate()
        target.process.wait(PATIENCE_S)
        tokens = target.tokens
    grow(folder / "data" / "runrig.db", id, past)
    with serve(folder, cluster=CLUSTER, run=run, tokens=tokens) as target:
        yield target
    forget(folder / "data" / "runrig.db")
    judge(folder / "data" / "runrig.db")


Crowd = Callable[[int, str], Coroutine[None, None, crowd.Figures]]
"""What asks a server, given its port and a token."""


@contextmanager
def _old_objects_left_alone() -> Iterator[None]:
    """The collector of garbage passes over what this process has made so far.

    With all modules of the tests in it, a full collection takes 0.1 s, several times a second: what the clients ask would be
    late by that, and come in bursts.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def measure(target: Target, many: Crowd) -> Measured:
    memory: list[int] = [target.memory()]
    done = threading.Event()

    def watch() -> None:
        while not done.wait(SAMPLE_S):
            memory.append(target.memory())

    watcher = threading.Thread(target=watch, name="memory")
    watcher.start()
    began, used = time.monotonic(), target.processor_s()
    try:
        token = target.tokens["admin"]
        with _old_objects_left_alone():
            figures = asyncio.run(many(target.port, token))
    finally:
        done.set()
        watcher.join()
    return Measured(figures, memory, (target.processor_s() - used) / (time.monotonic() - began))
