"""GPU use as NVML reports it, read by a real process from a stand-in of the library."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runrig.backends.local.gpus import GpuWatch
from runrig.domain.gpu_use import GpuMinute, GpuUse
from tests.patience import PATIENCE_S, until
from tests.worlds.command_line import Done, process, runrig
from tests.worlds.nvml import set_gpus, stand_in

WATCHES = """
import dataclasses, json, queue, sys
from runrig.backends.local import gpus
gpus._EVERY_S = 0.01
time, reads = [0.0], queue.Queue()
class Watch(gpus.GpuWatch):
    def _take(self, read):
        super()._take(read)
        reads.put(None)
watch = Watch(gpus.nvml_gpus(), clock=lambda: time[0])
for line in sys.stdin:
    time[0] += float(line)
    for _ in range(reads.qsize() + 2):
        reads.get(timeout=60)
    found = watch.use()
    print(json.dumps(found if isinstance(found, str) else [dataclasses.astuple(use) for use in found]), flush=True)
"""


class Watching:
    """A process that watches GPUs; time passes in it only when it is asked."""

    def __init__(self, environment: dict[str, str]) -> None:
        there = os.environ | environment
        self.process = subprocess.Popen(
            [sys.executable, "-c", WATCHES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=there
        )

    def after(self, seconds: float) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


@pytest.mark.slow
def test_busy_memory_and_power_are_read_and_an_idle_gpu_is_timed(tmp_path: Path) -> None:
    set_gpus(tmp_path, (97, 61, 640), (4, 2, 90), (101, 0, 0))
    gib = 1024**3
    watching = Watching(dict(stand_in(tmp_path)))
    with watching.process:
        assert watching.after(0) == [
            [0, 97, 61 * gib, 80 * gib, 640.0, None],
            [1, 4, 2 * gib, 80 * gib, 90.0, 0.0],
            [2, None, 0, 80 * gib, 0.0, None],
        ]
        assert [use[5] for use in watching.after(700)] == [None, 700.0, None]
        set_gpus(tmp_path, (3, 61, 640), (5, 2, 90), (101, 0, 0))
        assert [use[5] for use in watching.after(60)] == [0.0, None, None]
        set_gpus(tmp_path, (3, 61, 640), (4, 2, 90), (101, 0, 0))
        assert [use[5] for use in watching.after(60)] == [60.0, 0.0, None]
        set_gpus(tmp_path, (3, 61, 640))
        assert watching.after(60) == "NVML reports 'GPU is lost'"
        watching.process.kill()


@pytest.mark.slow
def test_an_old_driver_counts_what_it_keeps_for_itself(tmp_path: Path) -> None:
    set_gpus(tmp_path, (97, 61, 640))
    watching = Watching(dict(stand_in(tmp_path, "-DOLD")))
    with watching.process:
        assert watching.after(0)[0][2:4] == [62 * 1024**3, 80 * 1024**3]
        watching.process.kill()


@contextmanager
def up_with_gpus(folder: Path) -> Iterator[Callable[..., Done]]:
    """Yields the command line at a server that finds the stand-in, which a program that is already running cannot."""
    data = folder / "data"
    there = os.environ | stand_in(folder)
    command = process("up", "--data", str(data), "--port", "0")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=there) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline()
            yield lambda *args: runrig(*args, env={"RUNRIG_DATA": str(data)})
        finally:
            child.terminate()
            child.wait(PATIENCE_S)


@pytest.mark.slow
def test_top_shows_the_gpus_of_each_task_of_a_real_server(tmp_path: Path) -> None:
    set_gpus(tmp_path, (90, 60, 600), (100, 62, 700), (0, 1, 70))
    with up_with_gpus(tmp_path) as run:
        for name, gpus in (("large", "2"), ("small", "1")):
            assert run("run", "-d", "--code", "none", "-g", gpus, "--name", name, "--", "sleep", "600").code == 0
        until(lambda: run("top", "-t", "json").out.count('"busy_percent": ') == 3)
        until(lambda: '"busy_percent": null' not in run("top", "-t", "json").out)
        rows = [line.split() for line in run("top").out.splitlines()[2:]]
        node = rows[0][2]
        assert sorted(rows) == [
            ["large-1", "main", node, "2", "95%", "61", "of", "80", "GiB", "1.3", "kW"],
            ["small-1", "main", node, "1", "0%", "1", "of", "80", "GiB", "70", "W"],
        ]
        for id in ("large-1", "small-1"):
            assert run("cancel", "--yes", id).code == 0


def test_unresponsive_library_makes_the_usage_unknown() -> None:
    now = [0.0]
    watch = GpuWatch((), clock=lambda: now[0])
    watch.close()
    now[0] = 31.0
    assert watch.use() == "NVML has not answered for 31 s"


def test_each_minute_is_kept_as_an_average_for_a_day() -> None:
    start, now = 1_800_000_000, [0.0]
    watch = GpuWatch((), time_of_day=lambda: start + now[0])
    watch.close()

    def reads(seconds: float, *gpus: tuple[int | None, int]) -> None:
        now[0] += seconds
        watch._take(tuple(GpuUse(index, busy, memory, 80, 100.0) for index, (busy, memory) in enumerate(gpus)))

    def minutes(*gpus: int, since: int = 0, until: int = 10**6) -> list[tuple[float, int | None, int | None]]:
        found = watch.minutes(gpus, start + since, start + until)
        return [(each.at.timestamp() - start, each.busy_percent, each.memory_used) for each in found]

    reads(0, (80, 60), (100, 62), (None, 1))
    reads(30, (90, 62), (100, 64), (None, 3))
    assert minutes(0, 1) == [(0, 92, 62)]
    reads(30, (10, 20), (30, 20), (None, 1))
    assert minutes(0, 1) == [(0, 92, 62), (60, 20, 20)]
    assert minutes(2) == [(0, None, 2), (60, None, 1)]
    assert minutes(7) == [(0, None, None), (60, None, None)]
    watch._take("NVML reports 'GPU is lost'")
    now[0] += 600
    watch._take("NVML reports 'GPU is lost'")
    assert minutes(1) == [(0, 100, 63), (60, 30, 20)]
    assert minutes(1, since=1) == [(60, 30, 20)]
    assert minutes(1, until=60) == [(0, 100, 63)]
    for _ in range(1500):
        reads(60, (50, 40))
    kept = minutes(0)
    assert (len(kept), kept[-1]) == (24 * 60 + 1, (660 + 1500 * 60, 50, 40))
    last = datetime.fromtimestamp(start + 660 + 1500 * 60, UTC)
    assert watch.minutes((0,), start, start + 10**6)[-1] == GpuMinute(last, 50, 40)
