"""What remains of a workflow whose COMPLETED groups are kept."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from runrig.domain.workflows import Group, Status, Task, TaskKey, WorkflowSpec
from runrig.engine.lifecycle.restarts import without_completed
from runrig.spec.workflow import read_workflow

DIAMOND = read_workflow("""
workflow:
  name: w
  tasks:
  - {name: raw, image: any, command: [x]}
  - {name: shard, image: any, command: [x], count: 2, inputs: [{task: raw}]}
  - {name: index, image: any, command: [x], inputs: [{task: raw}]}
  - {name: train, image: any, command: [x], inputs: [{task: shard}, {task: index}]}
  - {name: report, image: any, command: [x], inputs: [{task: train}]}
""")


def task_of(name: str, retry: int = 0, status: Status = Status.COMPLETED, workflow: str = "w-1") -> Task:
    spec = name.partition("-")[0]
    return Task(workflow, name, retry, DIAMOND.groups[0].name, spec, 0, lead=True, status=status)


def left_of(spec: WorkflowSpec, statuses: Mapping[str, Status], *tasks: Task, id: str = "w-1") -> WorkflowSpec:
    """*statuses*: by task, each of which is a group of its own."""
    groups = [Group(id, group.name, statuses[group.tasks[0].name]) for group in spec.groups]
    return without_completed(spec, groups, tasks)


def names(spec: WorkflowSpec) -> list[str]:
    return [task.name for group in spec.groups for task in group.tasks]


def test_without_a_completed_group_everything_remains() -> None:
    ended = dict.fromkeys(names(DIAMOND), Status.FAILED_UPSTREAM) | {"raw": Status.FAILED}
    assert left_of(DIAMOND, ended) is DIAMOND


@pytest.mark.parametrize("ended", [Status.FAILED, Status.FAILED_CANCELED, Status.FAILED_EXEC_TIMEOUT])
def test_what_failed_runs_again_on_the_outputs_of_what_completed(ended: Status) -> None:
    statuses = {
        "raw": Status.COMPLETED,
        "shard": Status.COMPLETED,
        "index": ended,
        "train": Status.FAILED_UPSTREAM,
        "report": Status.FAILED_UPSTREAM,
    }
    found = left_of(
        DIAMOND,
        statuses,
        task_of("raw"),
        task_of("shard-0", 0, Status.RESCHEDULED),
        task_of("shard-0", 1),
        task_of("shard-1"),
        task_of("index", 0, ended),
    )
    of = {group.tasks[0].name: group for group in DIAMOND.groups}
    train = replace(of["train"], upstream=(of["index"].name,))
    linked = {"raw": (TaskKey("w-1", "raw", 0),), "shard": (TaskKey("w-1", "shard-0", 1), TaskKey("w-1", "shard-1", 0))}
    index = replace(of["index"], upstream=())
    assert found == replace(DIAMOND, groups=(index, train, of["report"]), linked=linked)


def test_a_second_restart_reads_outputs_of_both_workflows_and_none_that_nothing_reads() -> None:
    first = left_of(
        DIAMOND,
        dict.fromkeys(names(DIAMOND), Status.FAILED_UPSTREAM)
        | {"raw": Status.COMPLETED, "shard": Status.COMPLETED, "index": Status.FAILED},
        *(task_of(name) for name in ("raw", "shard-0", "shard-1")),
    )
    second = left_of(
        first,
        {"index": Status.COMPLETED, "train": Status.FAILED, "report": Status.FAILED_UPSTREAM},
        task_of("index", workflow="w-2"),
        id="w-2",
    )
    assert names(second) == ["train", "report"]
    assert second.linked == {"index": (TaskKey("w-2", "index", 0),), "shard": first.linked["shard"]}


def test_a_pod_that_was_not_admitted_has_no_output() -> None:
    statuses = dict.fromkeys(names(DIAMOND), Status.FAILED) | {"shard": Status.COMPLETED}
    assert left_of(DIAMOND, statuses, task_of("shard-0")).linked == {"shard": (TaskKey("w-1", "shard-0", 0),)}
