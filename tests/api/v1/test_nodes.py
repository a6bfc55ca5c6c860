"""Nodes at our own door: cordon, uncordon and drain (laws N1, N2)."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from runrig.domain.gangs import Priority
from tests.api.client import Api, api
from tests.api.v1.ours import problem

CLUSTER = "pools: [{name: pool1, quota: 8}]"


def _mark(it: Api, how: str, *nodes: str, **more: Any) -> Any:
    return it.call("POST", f"/api/v1/nodes:{how}", {"nodes": list(nodes), **more})


def _shown(it: Api, name: str) -> tuple[bool, bool, list[str]]:
    node = it.get(f"/api/v1/nodes/{name}")
    return node["ready"], node["cordoned"], node["conditions"]


def test_cordon_is_shown_and_stays_whatever_the_cluster_reports(tmp_path: Path) -> None:
    with api(tmp_path, cluster=CLUSTER) as it:
        name = it.get("/api/v1/nodes")["items"][0]["name"]
        tag = it.http.get(f"/api/v1/nodes/{name}").headers["etag"]
        assert _mark(it, "cordon", name, name) == {"changed": [name]}
        assert _mark(it, "cordon", name) == {"changed": []}
        assert _shown(it, name) == (False, True, ["NotReady", "Cordoned"])
        assert it.http.get(f"/api/v1/nodes/{name}").headers["etag"] != tag
        (seen,) = it.desk.backend._nodes
        it.desk.backend.show(replace(seen, labels={"rack": "r9"}))
        it.desk.later(1)
        assert it.get(f"/api/v1/nodes/{name}")["labels"] == {"rack": "r9"}
        assert _shown(it, name) == (False, True, ["NotReady", "Cordoned"])
        assert _mark(it, "uncordon", name) == {"changed": [name]}
        assert _shown(it, name) == (True, False, ["Ready"])
        said = [each["text"] for each in it.get("/api/v1/events")["items"] if name in each["text"]]
        assert sum("is cordoned (Cordon, rule N1)" in each for each in said) == 2
        assert said[-1].endswith("is ready")


def test_drain_lists_stopped_and_remaining_work_and_why_explains_it(tmp_path: Path) -> None:
    with api(tmp_path, cluster=CLUSTER) as it:
        name = it.get("/api/v1/nodes")["items"][0]["name"]
        low = it.desk.submit("low", priority=Priority.LOW)
        firm = it.desk.submit("firm", gpus=2)
        it.desk.service.settle()
        planned = it.call("POST", "/api/v1/plan", {"drain": [name]})
        assert [(each["gang"], each["then"]) for each in planned["loses"]] == [(low, "queued")]
        found = _mark(it, "drain", name)
        assert found == {
            "changed": [name],
            "stops": [{"gang": low, "pool": "pool1", "priority": "LOW", "gpus": 1}],
            "stays": [{"gang": firm, "pool": "pool1", "priority": "NORMAL", "gpus": 2}],
        }
        for _ in range(2):  # told to stop, and stopped
            it.desk.later(40)
        assert (it.desk.status(low), it.desk.status(firm)) == ("PENDING", "RUNNING")
        (group,) = it.get(f"/api/v1/workflows/{low}/why")["groups"]
        (history,) = group["preempted"]
        assert (history["law"], history["by"]) == ("DRAIN", "")
        assert history["sentence"] == f"was stopped because ann drained node {name} (Drain, rule N2)"
        assert group["reasons"][0]["code"] == "NoRoomOnNodes"
        laws = {each["law"] for each in it.get(f"/api/v1/workflows/{low}/events")["items"]}
        assert "N2" in laws
        planned = it.call("POST", "/api/v1/plan", {"drain": [name], "force": True})
        assert [each["gang"] for each in planned["loses"]] == [firm]
        assert [each["gang"] for each in _mark(it, "drain", name, force=True)["stops"]] == [firm]
        for seconds in (0, 40):  # told to stop, and stopped
            it.desk.later(seconds)
        assert it.desk.status(firm) == "PENDING"
        _mark(it, "uncordon", name)
        it.desk.later(1)
        assert (it.desk.status(low), it.desk.status(firm)) == ("RUNNING", "RUNNING")


def test_unknown_node_refuses_the_whole_command(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        name = it.get("/api/v1/nodes")["items"][0]["name"]
        for how in ("cordon", "uncordon", "drain"):
            refused = it.http.post(f"/api/v1/nodes:{how}", json={"nodes": [name, "ghost"]})
            assert "ghost" in str(problem(refused, 404, "NOTFOUND"))
            problem(it.http.post(f"/api/v1/nodes:{how}", json={"nodes": []}), 422, "USAGE")
        assert _shown(it, name) == (True, False, ["Ready"])
        for option in ("force", "prune"):
            problem(it.http.post("/api/v1/plan", json={"down": "r0", option: True}), 422, "USAGE")
