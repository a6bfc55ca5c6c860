"""The table of tasks behaves like a dictionary, and stores no record for tasks that only wait."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from runrig.domain.workflows import Status, Task, TaskKey
from runrig.engine.state.task_table import TaskTable

WAITING = Task("w-1", "main", 0, "group", "main", 0, lead=True, status=Status.SCHEDULING)


def _drawn(rng: Random) -> Task:
    name = rng.choice(("main", "mate"))
    task = Task(f"w-{rng.randrange(4)}", name, rng.choice((0, 0, 0, 1)), "group", name, 0, lead=name == "main")
    task = replace(task, status=rng.choice((Status.WAITING, Status.SCHEDULING, Status.RUNNING)))
    more: tuple[dict[str, Any], ...] = (
        {},
        {},
        {"node": "n0"},
        {"failure_message": "no"},
        {"restarting": True},
        {"end_time": 0.0},
        {"index": 1},
    )
    return replace(task, **rng.choice(more))


def test_the_task_table_behaves_like_a_dictionary() -> None:
    rng = Random(16)
    table, expected = TaskTable(), dict[TaskKey, Task]()
    for _ in range(5000):
        task = _drawn(rng)
        if rng.random() < 0.6:
            table[task.key] = expected[task.key] = task
        elif task.key in expected:
            del table[task.key], expected[task.key]
        else:
            with pytest.raises(KeyError):
                del table[task.key]
        assert (len(table), dict(table.items())) == (len(expected), expected)
        assert (task.key in table, table.get(task.key)) == (task.key in expected, expected.get(task.key))
        assert table.records.items() <= expected.items()


def test_a_waiting_task_has_no_record_until_it_starts() -> None:
    table = TaskTable()
    for at in range(3):
        task = replace(WAITING, workflow=f"w-{at}")
        table[task.key] = task
    assert (len(table), table.records) == (3, {})
    running = replace(WAITING, status=Status.RUNNING, node="n0")
    table[running.key] = running
    assert (table[WAITING.key], table.records) == (running, {running.key: running})
