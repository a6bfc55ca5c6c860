"""The simulated backend: a virtual cluster in which a task is only the time at which it ends, and its clock.

Both survive a restart: virtual time continues while the server is down, as real tasks would. Servers that take turns
share a folder: the leader claims it with its epoch, and writes by servers of earlier epochs are refused.
"""

import contextlib
import json
import math
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import Any

from runrig.domain.errors import Conflict, Unavailable
from runrig.domain.gpu_use import GpuUse
from runrig.domain.nodes import Node
from runrig.domain.observed import Observation, Phase, TaskFact
from runrig.domain.quantities import GPU
from runrig.domain.workflows import TaskKey
from runrig.ports.backend import Backend, Desired, LogFile, Output, Passage, Program
from runrig.ports.disk import kept

DEFAULT_DURATION_S = 60.0
DEFAULT_GPUS = 8
LONGEST_GRACE_S = 1.0
STOPPED = 143
"""128 + SIGTERM: exit code of a task that was asked to stop."""

_SHORTEST_WAIT_S = 0.005
_FEWEST_LINES = 1_000
"""Minimum changes appended to the file before it is rewritten."""
_NOTE = "This task is simulated. Nothing ran, so there is no output.\n"


class SimulatedClock:
    """Virtual seconds since the epoch, starting at the real time of the first start, *speed* times as fast.

    With a *folder* it continues after a restart, even at another speed. Never goes back.
    """

    def __init__(
        self, speed: float = 1.0, folder: Path | None = None, *, real_time: Callable[[], float] = time.time
    ) -> None:
        if not speed > 0:
            raise ValueError(f"invalid speed {speed}. Use more than 0: 1 for real time, 60 for a minute per second")
        self.speed = speed
        self._real_time = real_time
        self._real_start = real_time()
        start: list[float] = _read(folder, "clock.json") or [self._real_start, self._real_start, speed]
        real, virtual, old_speed = start
        self._virtual_start = virtual + max(0.0, self._real_start - real) * old_speed
        self._latest = self._virtual_start
        _write(folder, "clock.json", [self._real_start, self._virtual_start, speed])

    def now(self) -> float:
        elapsed = self._real_time() - self._real_start
        self._latest = max(self._latest, self._virtual_start + elapsed * self.speed)
        return round(self._latest, 6)

    difference_s = 0.0
    doubt: str | None = None
    """None, because virtual time does not depend on the system clock."""

    def accept(self) -> None:
        """Does nothing: there is nothing to accept."""


@dataclass(frozen=True, slots=True)
class _Run:
    """A running task that ends at *end* with *exit_code*; *stopped*: because it was asked to.

    *workflow*: the uuid of its workflow, "" if an earlier version wrote it.
    """

    end: float
    exit_code: int = 0
    workflow: str = ""

    @property
    def stopped(self) -> bool:
        return self.exit_code == STOPPED


_Changes = Mapping[TaskKey, _Run | None]
"""New or changed tasks; None: removed."""


class SimulatedBackend(Backend):
    """Tasks start immediately and end with 0 after their duration (in *clock* seconds), or with 143 when they are
    stopped.

    *folder* None: in memory only. `wait` takes *clock* seconds. *epoch*: of this server; None: there is only one.
    """

    name = "simulated"
    fixed_nodes = True
    topology = True
    queues = False
    outputs = True
    largest_code: int | None = None
    datagrams = False

    def __init__(
        self, nodes: tuple[Node, ...], clock: SimulatedClock, folder: Path | None = None, *, epoch: int | None = None
    ) -> None:
        self._nodes = nodes
        self._nodes_told = False
        self._clock = clock
        self._folder = folder
        self._epoch = epoch
        self._claim()
        self._woken = threading.Event()
        self._lock = threading.Lock()
        self._runs = _read_runs(folder)
        self._read = bool(self._runs)
        self._lines_left = 0
        self._ended: dict[TaskKey, TaskFact] = {}
        self._asked: frozenset[TaskKey] = frozenset()
        """Asked to stop."""
        self._ends = _ends_of(self._runs)

    def observe(self) -> Observation:
        with self._lock:
            nodes = None if self._nodes_told else self._nodes
            self._nodes_told = True
            self._end(self._clock.now())
            return Observation(dict(self._ended), nodes, running=set(self._runs).difference(self._ended))

    def _end(self, now: float) -> None:
        """Records which tasks have ended by *now*."""
        while self._next_end() <= now:
            _, key = heappop(self._ends)
            run = self._runs[key]
            by_itself = not (run.stopped or self._read or key in self._asked)
            self._ended[key] = TaskFact(Phase.ENDED, run.exit_code, by_itself=by_itself)

    def _next_end(self) -> float:
        """Returns when the next task ends. Drops entries of tasks that were removed or rescheduled."""
        while self._ends:
            end, key = self._ends[0]
            if (run := self._runs.get(key)) is not None and run.end == end:
                return end
            heappop(self._ends)
        return math.inf

    def sync(self, desired: Desired) -> None:
        with self._lock:
            now = self._clock.now()
            if self._read:  # Which tasks had been asked to stop is unknown.
                self._take_keys_of(desired)
            else:
                self._end(now)
            self._asked = frozenset(desired.stop)
            changes = self._changes(desired, now)
            if not changes:
                return
            self._check_claim()
            self._store(changes)
            _carry_out(changes, self._runs)
            for key, run in changes.items():
                self._ended.pop(key, None)
                if run is not None:
                    heappush(self._ends, (run.end, key))
            if len(self._ends) > 2 * len(self._runs) + _FEWEST_LINES:
                self._ends = _ends_of(self._runs)  # Most of these tasks were stopped early.
        self._woken.set()

    def _take_keys_of(self, desired: Desired) -> None:
        """Reuses the keys of *desired*, so that lookups compare identity, not text: several times as fast.

        Drops runs of other workflows that had the same ids.
        """
        for key, launch in {**desired.run, **desired.stop}.items():
            if (run := self._runs.pop(key, None)) is not None and run.workflow in ("", launch.workflow_uuid):
                self._runs[key] = run
        self._read = False

    def _store(self, changes: _Changes) -> None:
        """Appends *changes* to the file of all runs. Rewrites it once the changes outnumber the runs."""
        if self._folder is None:
            return
        path = self._folder / "tasks.json"
        self._lines_left -= len(changes)
        if self._lines_left >= 0:
            with path.open("a", encoding="utf-8") as file:
                file.write("".join(json.dumps(_as_json(*each)) + "\n" for each in changes.items()))
            return
        after = dict(self._runs)
        _carry_out(changes, after)
        _replace(path, json.dumps([_as_json(*each) for each in after.items()]) + "\n")
        self._lines_left = max(_FEWEST_LINES, len(after))

    def wait(self, timeout_s: float) -> None:
        with self._lock:
            seconds = min(timeout_s, self._next_end() - self._clock.now())
        if seconds > 0:
            self._woken.wait(max(seconds / self._clock.speed, _SHORTEST_WAIT_S))
        self._woken.clear()

    def wake(self) -> None:
        self._woken.set()

    def output(self, key: TaskKey) -> Output | None:  # noqa: ARG002 - one note for all
        """Returns a file with a note; None without a folder."""
        if self._folder is None:
            return None
        path = self._folder / "simulated.log"
        if not path.exists():
            _replace(path, _NOTE)
        return Output(LogFile(str(path.parent), path.name))

    def gpu_use(self) -> Mapping[str, Sequence[GpuUse]] | str:
        return "the tasks are simulated"

    async def enter(self, key: TaskKey, program: Program) -> Passage:  # noqa: ARG002
        raise _nothing_there(key)

    async def connect(self, key: TaskKey, port: int, *, udp: bool = False) -> Passage:  # noqa: ARG002
        raise _nothing_there(key)

    def _claim(self) -> None:
        if self._epoch is not None:
            _write(self._folder, "leader.json", self._epoch)

    def _check_claim(self) -> None:
        """Raises Unavailable if a later server has the folder."""
        if self._epoch is None:
            return
        claimed: int = _read(self._folder, "leader.json") or 0
        if claimed > self._epoch:
            raise Unavailable(
                f"a newer leader controls the tasks (epoch {claimed}, this server {self._epoch}). Try again"
            )
        if claimed < self._epoch:  # It was paused before it could claim, and resumed too late.
            self._claim()

    def _changes(self, desired: Desired, now: float) -> _Changes:
        """Returns what *desired* changes; tasks that it neither runs nor stops are removed immediately."""
        runs = self._runs
        changes: dict[TaskKey, _Run | None] = dict.fromkeys(sorted(set(runs).difference(desired.run, desired.stop)))
        for key in sorted(set(desired.run).difference(runs)):
            launch = desired.run[key]
            lasts_s = DEFAULT_DURATION_S if launch.duration_s is None else launch.duration_s
            changes[key] = _Run(now + lasts_s, workflow=launch.workflow_uuid)
        for key, launch in desired.stop.items():
            run = runs.get(key)
            end = now + min(launch.grace_s, LONGEST_GRACE_S) if run else now
            stopped = _Run(end, STOPPED, launch.workflow_uuid)
            if run is None or not (run.stopped or run.end <= stopped.end):
                changes[key] = stopped
        return changes


def _nothing_there(key: TaskKey) -> Conflict:
    return Conflict(
        f"{key.workflow}/{key.task} is simulated, so it has no sessions or ports. Use a backend that runs real tasks"
    )


def _carry_out(changes: _Changes, runs: dict[TaskKey, _Run]) -> None:
    for key, run in changes.items():
        if run is None:
            runs.pop(key, None)
        else:
            runs[key] = run


def _ends_of(runs: Mapping[TaskKey, _Run]) -> list[tuple[float, TaskKey]]:
    """Returns a heap of their end times."""
    ends = [(run.end, key) for key, run in runs.items()]
    heapify(ends)
    return ends


def _as_json(key: TaskKey, run: _Run | None) -> list[Any]:
    """*run* None: removed."""
    return [list(key)] if run is None else [list(key), run.end, run.exit_code, run.workflow]


def _read_runs(folder: Path | None) -> dict[TaskKey, _Run]:
    """Reads a list of all runs, then a line per change. Ignores an incomplete last line."""
    runs: dict[TaskKey, _Run] = {}
    if folder is not None:
        with contextlib.suppress(FileNotFoundError):
            kept(folder / "tasks.json", lambda text: _replay(text, runs))
    return runs


def _replay(text: str, runs: dict[TaskKey, _Run]) -> None:
    first, *lines = text.split("\n")
    for key, *run in (*json.loads(first), *map(json.loads, lines[:-1])):
        _carry_out({TaskKey(*key): _Run(*run) if run else None}, runs)


def _read(folder: Path | None, name: str) -> Any:
    """Returns what `_write` wrote; None if there is nothing."""
    if folder is not None:
        with contextlib.suppress(FileNotFoundError):
            return kept(folder / name, json.loads)
    return None


def _write(folder: Path | None, name: str, value: object) -> None:
    if folder is not None:
        _replace(folder / name, json.dumps(value))


def _replace(path: Path, text: str) -> None:
    """Writes *text* to *path* atomically; creates the folder."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def stand_in_nodes(gpus: int = DEFAULT_GPUS) -> tuple[Node, ...]:
    """Returns one node, for a cluster that declares none."""
    return (Node("n0", {GPU: gpus}),)
