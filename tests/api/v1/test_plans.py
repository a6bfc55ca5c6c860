"""`POST /api/v1/plan`: what an edit would do, against what it then does."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from runrig.domain.gangs import Priority
from runrig.domain.nodes import Node
from runrig.service.commands.edits import PoolEdit
from runrig.service.foresight import plans
from runrig.service.foresight.questions import OfEdit
from runrig.service.mirror.leaving import Leaving
from runrig.service.mirror.mirror import GivenUp
from runrig.service.queries.visibility import ALL
from tests.api.client import Api, api
from tests.api.v1.ours import problem
from tests.worlds.edits import amounts
from tests.worlds.service import T0, desk, one_task

RACKS = """
pools:
- {name: pool1, quota: 4, topology_keys: [{key: rack, label: rack}]}
- {name: pool2, quota: 4}
"""
NODES = (
    Node("n0", {"gpu": 4}, labels={"rack": "r0"}),
    Node("n1", {"gpu": 4}, labels={"rack": "r1"}),
)


def _plan(it: Api, **question: Any) -> Any:
    before = it.desk.store.load()
    answer = it.http.post("/api/v1/plan", json=question)
    assert it.desk.store.load() == before
    return answer


def _gangs(told: list[Any]) -> list[str]:
    return [each["gang"] for each in told]


def test_plan_of_a_quota_matches_the_later_edit(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        it.desk.submit("first", gpus=2)
        it.desk.submit("waits", gpus=2)
        it.desk.service.settle()
        found = _plan(it, pool="pool1", quota=4).json()
        assert _gangs(found["starts"]) == ["waits-1"]
        assert found["starts"][0] | {"nodes": None} == {
            "gang": "waits-1",
            "pool": "pool1",
            "priority": "NORMAL",
            "gpus": 2,
            "nodes": None,
        }
        (row,) = found["pools"]
        assert (row["pool"], row["before"]["quota"], row["after"]["quota"]) == ("pool1", 2, 4)
        assert (row["before"]["waiting"], row["after"]["waiting"]) == (1, 0)
        (change,) = found["changes"]
        assert (change["action"], change["name"], change["after"]["quotas"]["default"]["gpu"]["nominal"]) == (
            "update",
            "pool1",
            4,
        )
        assert found["revision"] == it.desk.revision
        assert it.desk.status("waits-1") == "PENDING"
        it.call("PATCH", "/api/v1/pools/pool1", {"quota": 4})
        it.desk.service.settle()
        assert it.desk.status("waits-1") == "RUNNING"


def test_reclaim_by_a_cluster_file_preempts_as_planned(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        it.desk.submit("low", "pool1", Priority.LOW, gpus=4)
        it.desk.service.settle()
        it.call("PATCH", "/api/v1/pools/pool2", {"quota": 4})
        it.desk.submit("large", "pool2", gpus=3)
        it.call("PATCH", "/api/v1/pools/pool2", {"quota": 2})
        it.desk.service.settle()
        text = "pools: [{name: pool2, quota: 3}]"
        found = _plan(it, file=text).json()
        (stops,) = found["preempted"]
        assert (stops["gang"], stops["by"], stops["law"], stops["again"]) == (
            "low-1",
            "large-1",
            "RECLAIM",
            False,
        )
        it.call("POST", "/api/v1/apply", {"file": text, "if_revision": found["revision"]})
        it.desk.service.settle()
        it.desk.later(5)
        assert (it.desk.status("low-1"), it.desk.status("large-1")) == ("PENDING", "RUNNING")


def test_forced_drain_requeues_work_that_the_loss_of_the_rack_would_end(tmp_path: Path) -> None:
    with api(tmp_path, nodes=NODES, cluster=RACKS) as it:
        it.desk.submit("one", gpus=4)
        it.desk.service.settle()
        (task,) = it.desk.store.load().tasks
        rack = {"n0": "r0", "n1": "r1"}[str(task.node)]
        asked = ({"drain": [task.node]}, {"drain": [task.node], "force": True}, {"down": rack})
        gently, forced, down = (_plan(it, **each).json() for each in asked)
        assert [each["nodes"] for each in (gently, forced, down)] == [[task.node]] * 3
        assert gently["loses"] == []
        assert [(each["gang"], each["cause"], each["then"]) for each in forced["loses"]] == [
            ("one-1", "FAILED_EVICTED", "elsewhere")
        ]
        assert [(each["gang"], each["then"]) for each in down["loses"]] == [("one-1", "FAILED")]


def test_planned_submission_shows_the_work_that_it_preempts(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        it.desk.submit("low", "pool1", Priority.LOW, gpus=4)
        it.desk.service.settle()
        found = _plan(it, submission={"pool": "pool2", "file": one_task("new", gpus=2)}).json()
        assert (_gangs(found["starts"]), _gangs(found["preempted"])) == (["new-?"], ["low-1"])
        problem(_plan(it, submission={"pool": "pool2", "file": one_task("new", gpus=99)}), 400, "RESOURCE")


@pytest.mark.parametrize(
    ("question", "status", "code", "says"),
    [
        ({}, 422, "USAGE", "exactly one of"),
        ({"pool": "pool1"}, 422, "USAGE", "pool requires quota, edit or act"),
        ({"pool": "pool1", "quota": 1, "down": "r0"}, 422, "USAGE", "exactly one of"),
        ({"pool": "nope", "quota": 1}, 404, "NOTFOUND", "nope"),
        ({"pool": "pool1", "quota": -1}, 422, "USAGE", "-1"),
        ({"pool": "pool1", "quota": "h100=x"}, 422, "USAGE", "h100"),
        ({"file": "pools: ["}, 422, "USAGE", ""),
        ({"file": "pools: [{name: pool1, quota: 2, oops: 1}]"}, 422, "USAGE", "oops"),
        ({"drain": ["n0", "ghost"]}, 404, "NOTFOUND", "ghost"),
        ({"drain": []}, 422, "USAGE", "drain"),
        ({"down": "mars"}, 404, "NOTFOUND", "mars"),
        ({"submission": {"pool": "nope", "file": one_task("x")}}, 404, "NOTFOUND", "nope"),
        ({"submission": {"pool": "pool1", "file": "workflow: 7"}}, 422, "USAGE", "workflow"),
    ],
)
def test_invalid_plan_requests_get_one_clear_error_and_store_nothing(
    quiet: Api, question: dict[str, Any], status: int, code: str, says: str
) -> None:
    assert says in str(problem(_plan(quiet, **question), status, code))


def test_ambiguous_domain_name_must_be_given_as_a_path(tmp_path: Path) -> None:
    keys = "[{key: zone, label: zone}, {key: rack, label: rack}]"
    nodes = tuple(Node(f"n{zone}", {"gpu": 2}, labels={"zone": f"z{zone}", "rack": "r0"}) for zone in range(2))
    with api(tmp_path, nodes=nodes, cluster=f"pools: [{{name: pool1, quota: 4, topology_keys: {keys}}}]") as it:
        assert "z0/r0" in problem(_plan(it, down="r0"), 422, "USAGE")["detail"]
        assert _plan(it, down="z1/r0").json()["nodes"] == ["n1"]
        assert _plan(it, down="z0").json()["nodes"] == ["n0"]


def test_apply_is_refused_if_a_planned_object_has_changed(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        text = "pools: [{name: pool1, quota: 1}]"
        revision = _plan(it, file=text).json()["revision"]
        it.desk.submit("other", "pool2")
        it.call("PATCH", "/api/v1/pools/pool2", {"description": "something else"})
        it.call("POST", "/api/v1/apply", {"file": text, "if_revision": revision, "dry_run": True})
        it.call("PATCH", "/api/v1/pools/pool1", {"description": "mine"})
        before = it.desk.revision
        sent = {"file": text, "if_revision": revision}
        refused = problem(it.http.post("/api/v1/apply", json=sent), 412, "CONFLICT")
        assert "pool pool1 was changed in revision" in refused["detail"]
        assert it.desk.revision == before
        it.call("POST", "/api/v1/apply", {"file": text, "if_revision": before, "force": True})
        problem(it.http.post("/api/v1/apply", json=sent | {"if_revision": 10**9}), 422, "USAGE")
        problem(it.http.post("/api/v1/apply", json=sent | {"if_revision": -1}), 422, "USAGE")


def test_number_of_concurrent_plans_is_limited(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        with ExitStack() as others:
            for _ in range(plans.AT_ONCE):
                others.enter_context(it.desk.service.plans._turns.turn())
            refused = it.http.post("/api/v1/plan", json={"pool": "pool1", "quota": 1})
            problem(refused, 503, "UNAVAILABLE")
            assert refused.headers["retry-after"] == "2"
        assert it.http.post("/api/v1/plan", json={"pool": "pool1", "quota": 1}).status_code == 200


def test_disconnect_stops_the_computation_and_frees_its_slot(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        it.submit("waits", gpus=2)
        question = OfEdit("pool1", PoolEdit(amounts(quota=4)))
        gone = Leaving()
        gone.leave()
        with pytest.raises(GivenUp):
            it.service.plans.plan(question, user="ann", visibility=ALL, leaving=gone)
        found = it.service.plans.plan(question, user="ann", visibility=ALL, leaving=Leaving())
        assert found.rests


def test_plan_after_a_restart_is_the_same(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        it.desk.submit("first", gpus=2)
        it.desk.submit("waits", gpus=2)
        it.desk.service.settle()
        before = _plan(it, pool="pool1", quota=4).text
    with api(tmp_path, time=T0 + 10) as it:
        assert _plan(it, pool="pool1", quota=4).text == before


@pytest.mark.parametrize(("gpus", "verdict"), [(2, "STARTS"), (4, "WAITS")])
def test_planned_submission_has_the_verdict_of_its_check(tmp_path: Path, gpus: int, verdict: str) -> None:
    with api(tmp_path, cluster="pools: [{name: pool1, quota: 4}]") as it:
        it.desk.submit("first", gpus=2)
        it.desk.service.settle()
        body = {"pool": "pool1", "file": one_task("second", gpus=gpus)}
        found = _plan(it, submission=body).json()["verdict"]
        assert found == it.http.post("/api/v1/workflows:check", json=body).json()["verdict"]
        assert found["verdict"] == verdict


def test_plan_of_a_first_budget_counts_what_was_held_this_month(tmp_path: Path) -> None:
    """W7. The pool has held 2 GPUs for an hour: a budget of 2 GPU-hours is reached, one of 3 is not."""
    with api(tmp_path) as it:
        it.desk.submit("ends", gpus=2, duration=3600.0)
        it.desk.later(0)
        it.desk.later(4000)
        assert it.desk.status("ends-1") == "COMPLETED"
        it.desk.submit("waits", gpus=2)
        file = "pools: [{{name: pool1, quota: 2, budget: {}}}, {{name: pool2, quota: 2}}]"
        found = [_plan(it, file=file.format(budget)).json() for budget in (2, 3)]
        assert [_gangs(each["waits"]) for each in found] == [["waits-1"], []]
