"""`runrig top`: the GPUs of running tasks, how busy they are, and which are idle."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from runrig.domain.gpu_use import GpuUse
from tests.worlds.served import Served, served
from tests.worlds.service import one_task

GIB = 1024**3
TWO_PODS = """
workflow:
  name: pair
  tasks: [{name: worker, count: 2, image: any, command: [x], resource: one, duration: 9000}]
  resources: {one: {gpu: 1}}
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as it:
        yield it


def use(index: int, busy: int, idle_s: float | None = None) -> GpuUse:
    return GpuUse(index, busy, busy * GIB, 100 * GIB, 10.0 * busy, idle_s)


def running(server: Served, name: str, gpus: int) -> str:
    id = server.submit(one_task(name, gpus=gpus, duration=90_000), "--pool", "pool1")
    server.desk.later(0)
    return id


def test_simulated_tasks_are_listed_with_unknown_usage(server: Served) -> None:
    id = running(server, "train", 2)
    done = server.runrig("top")
    assert done.code == 0
    assert [line.split() for line in done.out.splitlines()[2:3]] == [[id, "main", "n0", "2", "-", "-", "-"]]
    assert done.out.endswith("\nGPU usage is not available: the tasks are simulated.\n")
    assert server.json("top")["unknown"] == "the tasks are simulated"


def test_busy_and_memory_are_averages_and_power_is_a_sum(server: Served) -> None:
    id = running(server, "train", 2)
    server.desk.backend.gpus = {"n0": [use(index, 10 * index + 50) for index in range(4)]}
    (task,) = server.json("top", id)["tasks"]
    first, second = (gpu["index"] for gpu in task["gpus"])
    assert [gpu["busy_percent"] for gpu in task["gpus"]] == [50 + 10 * first, 50 + 10 * second]
    busy = 50 + 5 * (first + second)
    row = server.runrig("top", id).out.splitlines()[2]
    assert row.split() == [id, "main", "n0", "2", f"{busy}%", str(busy), "of", "100", "GiB", f"{busy / 50:.1f}", "kW"]


def test_gpus_that_were_idle_for_ten_minutes_are_named(server: Served) -> None:
    server.submit(TWO_PODS, "--pool", "pool1")
    server.desk.later(0)
    server.desk.backend.gpus = {"n0": [use(index, 0, 5000.0) for index in range(4)]}
    server.desk.later(599)
    assert "idle" not in server.runrig("top").out
    server.desk.later(301)
    lines = server.runrig("top").out.splitlines()[-2:]
    assert [line.partition(" is idle")[2] for line in lines] == [" on n0: less than 5% busy for 15m00s."] * 2
    assert [line.split()[:2] for line in lines] == [["pair-1", "worker-0:"], ["pair-1", "worker-1:"]]


def test_idle_time_before_the_task_started_does_not_count(server: Served) -> None:
    id = running(server, "train", 1)
    server.desk.backend.gpus = {"n0": [use(index, 0, 5000.0) for index in range(4)]}
    server.desk.later(42)
    (gpu,) = server.json("top", id)["tasks"][0]["gpus"]
    assert gpu["idle_s"] == 42.0


def test_without_an_id_it_shows_the_users_own_tasks(server: Served) -> None:
    mine = [running(server, "one", 1), running(server, "two", 1)]
    running(server.by("bob", "pool1-user", "pool2-user"), "other", 1)
    assert sorted(task["workflow"] for task in server.json("top")["tasks"]) == mine


def test_without_running_tasks_it_prints_one_sentence(server: Served) -> None:
    assert server.runrig("top").out == "No tasks are running.\n"


def test_an_unknown_workflow_is_not_found(server: Served) -> None:
    running(server, "train", 1)
    done = server.runrig("top", "trian-1")
    assert (done.code, done.err) == (2, "Error: workflow 'trian-1' not found. Did you mean 'train-1'?\n")


def test_top_in_json_cannot_repeat(server: Served) -> None:
    assert server.runrig("top", "-w", "-t", "json").code == 2
