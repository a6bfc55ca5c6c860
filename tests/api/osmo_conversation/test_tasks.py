"""`task list`, plain, verbose, summed and by workflow, with every filter."""

from collections.abc import Iterator
from typing import Any

import pytest

from runrig.domain.gangs import Priority
from tests.api.permissions.two_teams import TwoTeams, two_teams

from .client import NUMBER, OPTIONAL, fits, refused, said

AMOUNTS = {"storage": NUMBER, "cpu": NUMBER, "memory": NUMBER, "gpu": int}
TASK = {
    "user": str,
    "workflow_id": str,
    "task_name": str,
    "status": str,
    "pool": str,
    "priority": str,
    "node": OPTIONAL,
    "start_time": OPTIONAL,
    **AMOUNTS,
}
SUM = {"user": str, "pool": str, "priority": str, **AMOUNTS}
USUAL = ["PROCESSING", "SCHEDULING", "INITIALIZING", "RUNNING"]
WIDE = """
workflow:
  name: wide
  resources: {default: {gpu: 1, cpu: 2, memory: 1536Mi, storage: 10Gi}}
  tasks:
  - {name: worker, image: any, command: [sleep, '1'], count: 2, duration: 100}
"""


def asked(world: TwoTeams, actor: str, **filters: Any) -> Any:
    """As `task list` asks."""
    usual = {"limit": 20, "offset": 0, "all_users": False, "workflow_id": None, "statuses": USUAL, "order": "ASC"}
    where = {} if "pools" in filters else {"all_pools": True}
    return said(world, actor, "GET", "api/task", **usual | where | filters)


def listed(world: TwoTeams, actor: str, **filters: Any) -> list[str]:
    answer = asked(world, actor, **filters)
    fits(answer, {"tasks": [TASK]})
    return [f"{each['workflow_id']}/{each['task_name']}" for each in answer["tasks"]]


def wide(world: TwoTeams) -> None:
    """Two tasks of LOW by tess, the last to start."""
    world.api.desk.later(1)
    headers = {"Authorization": f"Bearer {world.tokens['tess']}"}
    answer = world.api.http.post("/api/pool/team/workflow?priority=LOW", json={"file": WIDE}, headers=headers)
    assert answer.status_code == 200, answer.text
    world.api.desk.later(0)


def test_task_has_every_column_of_the_table(still: TwoTeams) -> None:
    (task,) = asked(still, "tom")["tasks"]
    shown = {name: task[name] for name in TASK if name != "start_time"}
    assert shown == {
        "user": "tom",
        "workflow_id": "tomjob-1",
        "task_name": "main",
        "status": "RUNNING",
        "pool": "team",
        "priority": "NORMAL",
        "node": "n0",
        "storage": 0,
        "cpu": 0,
        "memory": 0,
        "gpu": 1,
    }
    assert task["logs"].endswith("/api/workflow/tomjob-1/logs?task_name=main&retry_id=0")


ALL = ["tomjob-1/main", "wide-1/worker-0", "wide-1/worker-1"]


@pytest.fixture(scope="module")
def widened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoTeams]:
    with two_teams(tmp_path_factory.mktemp("widened")) as there:
        wide(there)
        yield there


@pytest.mark.parametrize(
    ("actor", "filters", "tasks"),
    [
        ("tom", {}, ALL[:1]),
        ("tess", {}, ALL[1:]),
        ("tom", {"all_users": True}, ALL),
        ("tom", {"users": ["tess"]}, ALL[1:]),
        ("tom", {"users": ["tess", "tom"], "priority": ["LOW"]}, ALL[1:]),
        ("tom", {"users": ["uwe"]}, []),
        ("tom", {"all_users": True, "pools": ["team"]}, ALL),
        ("tom", {"all_users": True, "pools": ["team--a"]}, []),
        ("tom", {"all_users": True, "pools": ["team2"]}, []),
        ("ada", {"all_users": True, "pools": ["team2"]}, ["uwejob-1/main"]),
        ("vera", {"all_users": True}, ["tomjob-1/main", "uwejob-1/main", *ALL[1:]]),
        ("tom", {"all_users": True, "nodes": ["n0"]}, ALL),
        ("tom", {"all_users": True, "nodes": ["n9"]}, []),
        ("tom", {"all_users": True, "workflow_id": "ide-"}, ALL[1:]),
        ("tom", {"all_users": True, "workflow_id": "%"}, []),
        ("tom", {"statuses": ["FAILED_CANCELED"]}, ["tomold-1/main"]),
        ("tom", {"statuses": ["RUNNING", "FAILED_CANCELED"]}, ["tomold-1/main", "tomjob-1/main"]),
        ("tom", {"statuses": ["PROCESSING"]}, []),
        ("tom", {"statuses": ["COMPLETED"]}, []),
        ("nina", {"all_users": True}, []),
        ("uwe", {"all_users": True}, ["uwejob-1/main"]),
    ],
)
def test_every_task_filter_works(widened: TwoTeams, actor: str, filters: dict[str, Any], tasks: list[str]) -> None:
    assert sorted(listed(widened, actor, **filters)) == sorted(tasks)
    by_workflow = asked(widened, actor, aggregate_by_workflow=True, **filters)["summaries"]
    assert sorted(each["workflow_id"] for each in by_workflow) == sorted({task.partition("/")[0] for task in tasks})
    gpus = sum(each["gpu"] for each in asked(widened, actor, summary=True, **filters)["summaries"])
    assert gpus == len(tasks)


def test_start_times_limit_the_list(world: TwoTeams) -> None:
    world.submit("tom", "waits", "team", priority=Priority.LOW, gpus=8)
    started = asked(world, "tom", statuses=["RUNNING"])["tasks"][0]["start_time"]
    assert listed(world, "tom") == ["tomjob-1/main", "waits-1/main"]
    assert listed(world, "tom", started_after=started) == ["tomjob-1/main"]
    assert listed(world, "tom", started_before=started) == []
    assert listed(world, "tom", started_after="1971-01-01T00:00:00", started_before="9000-01-01T00:00:00") == [
        "tomjob-1/main"
    ]


def test_page_has_the_newest_tasks_in_the_requested_order(world: TwoTeams) -> None:
    wide(world)
    newest = ["wide-1/worker-0", "wide-1/worker-1", "tomjob-1/main"]
    assert listed(world, "tom", all_users=True, order="DESC") == newest
    assert listed(world, "tom", all_users=True) == newest[::-1]
    assert listed(world, "tom", all_users=True, limit=2) == newest[1::-1]
    assert listed(world, "tom", all_users=True, limit=2, offset=2) == newest[2:]


def test_sums_are_by_user_pool_and_priority_or_by_workflow(world: TwoTeams) -> None:
    wide(world)
    answer = asked(world, "ada", all_users=True, summary=True)
    fits(answer, {"summaries": [SUM]})
    tess = {"user": "tess", "pool": "team", "priority": "LOW", "storage": 20, "cpu": 4, "memory": 3, "gpu": 2}
    nothing = {"storage": 0, "cpu": 0, "memory": 0, "gpu": 1}
    tom, uwe = (
        {"user": user, "pool": pool, "priority": "NORMAL", **nothing}
        for user, pool in (("tom", "team"), ("uwe", "team2"))
    )
    assert answer["summaries"] == [tess, tom, uwe]
    assert asked(world, "ada", all_users=True, summary=True, limit=1, offset=1)["summaries"] == [tom]
    answer = asked(world, "ada", all_users=True, aggregate_by_workflow=True, limit=2)
    fits(answer, {"summaries": [{**SUM, "workflow_id": str}]})
    assert [each["workflow_id"] for each in answer["summaries"]] == ["wide-1", "uwejob-1"]
    assert answer["summaries"][0] == {**tess, "workflow_id": "wide-1"}
    assert asked(world, "ada", all_users=True, aggregate_by_workflow=True, summary=True, limit=2) == answer


@pytest.mark.parametrize(
    ("params", "status"),
    [
        ({"status": "RUNNING"}, 400),
        ({"labels": "a=b"}, 400),
        ({"statuses": ["RUN"]}, 422),
        ({"priority": ["MIDDLE"]}, 422),
        ({"limit": 0}, 422),
        ({"limit": 1001}, 422),
        ({"offset": -1}, 422),
        ({"offset": 10**30}, 422),
        ({"started_after": "yesterday"}, 422),
        ({"order": "UP"}, 422),
    ],
)
def test_invalid_filter_is_refused(still: TwoTeams, params: dict[str, Any], status: int) -> None:
    assert refused(still, "tom", "GET", "api/task", **params)[0] == status


DAEMON = {"workflow_id": str, "task_name": str, "status": str, "node": OPTIONAL, "start_time": OPTIONAL, **AMOUNTS}
"""What the client's rsync daemon asks of its task, again and again: it copies while the task is RUNNING, and ends with it."""


def test_task_is_found_by_its_name_or_its_pod_name(world: TwoTeams) -> None:
    wide(world)
    for actor in ("tess", "tom", "ada"):
        for name, pod in (("worker", "worker-0"), ("worker-1", "worker-1")):
            found = said(world, actor, "GET", f"api/workflow/wide-1/task/{name}")
            fits(found, DAEMON)
            assert (found["task_name"], found["status"], found["memory"], found["gpu"]) == (pod, "RUNNING", 1.5, 1)
    assert said(world, "tom", "GET", "api/workflow/tomold-1/task/main")["status"] == "FAILED_CANCELED"


def test_unknown_and_hidden_tasks_are_not_found(still: TwoTeams) -> None:
    nowhere = refused(still, "tom", "GET", "api/workflow/tomjob-1/task/other")
    assert nowhere == (404, "tomjob-1 has no task 'other' (tasks: main)")
    for actor in ("uwe", "nina"):
        assert refused(still, actor, "GET", "api/workflow/tomjob-1/task/main")[0] == 404
