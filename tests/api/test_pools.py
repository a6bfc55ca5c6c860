"""Routes of pools, cohorts, nodes and cluster files."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from runrig.api.osmo import models
from runrig.domain.nodes import Node, Taint
from runrig.osmo import pools as shaped
from tests.api.client import api
from tests.worlds.service import one_task

QUOTA = {"nominal": 2, "borrowing_limit": None, "lending_limit": None}
SETTINGS: dict[str, Any] = {
    "name": "pool1",
    "description": "",
    "status": "ONLINE",
    "backend": "simulated",
    "download_type": None,
    "enable_maintenance": False,
    "default_platform": None,
    "default_exec_timeout": "",
    "default_queue_timeout": "",
    "max_exec_timeout": "",
    "max_queue_timeout": "",
    "default_exit_actions": {},
    "resources": {"gpu": {"guarantee": 2, "maximum": -1, "weight": 1}},
    "topology_keys": [],
    "platforms": {
        "default": {
            "description": "",
            "host_network_allowed": False,
            "privileged_allowed": False,
            "allowed_mounts": [],
            "default_mounts": [],
            "tolerations": [],
            "labels": {},
        }
    },
    "cohort": None,
    "quotas": {"default": {"gpu": QUOTA}},
    "queueing": "BEST_EFFORT_FIFO",
    "weight": 1,
    "grace_s": 30.0,
    "default_run_time_s": None,
    "max_run_time_s": None,
    "user_gpus": None,
    "user_waiting": None,
    "gpus_per_workflow": None,
    "budget": None,
    "budget_reached": None,
    "default_image": None,
    "shell_idle_s": None,
    "closed_by": None,
    "closed_reason": "",
    "paused_by": None,
    "paused_reason": "",
    "paused_until": None,
    "flavors": [],
    "state": "ACTIVE",
    "parent": None,
    "subpool_name": None,
    "subpool_state": None,
}


def test_pool_answer_has_every_field(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        it.submit(one_task("a"))
        it.submit(one_task("b", gpus=2), priority="LOW")
        it.desk.later(0)
        assert it.get("/api/pool")["pools"]["pool1"] == SETTINGS
        assert it.get("/api/configs/pool", verbose=True) == it.get("/api/pool")
        shown = it.get("/api/pool_quota", pools="pool1")["node_sets"][0]["pools"][0]
        assert shown == SETTINGS | {
            "resource_usage": {
                "quota_used": "1",
                "quota_free": "1",
                "quota_limit": "2",
                "total_usage": "3",
                "total_capacity": "4",
                "total_free": "1",
            },
            "subpools": [],
            "quota": 2,
            "unallocated": 2,
            "used": 1,
            "low": 2,
            "subtree_used": 1,
            "total": 3,
            "available": 1,
            "shared": {},
            "drawn": 0,
            "shared_left": 0,
            "borrowed": 1,
            "lent": 0,
            "held": 0,
            "capacity": 4,
            "workflows": 2,
            "balances": {
                "default/gpu": QUOTA
                | {"subtree": 2, "local": 0, "usage": 3, "balance": -1, "headroom": 1, "potential": 4}
                | {"used": 1, "total": 3, "drawn": 0, "borrowed": 1, "lent": 0, "over": 0}
            },
        }


def test_pool_quota_counts_shared_nodes_once(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        it.submit(one_task("a"), "pool2")
        it.desk.later(0)
        answer = it.get("/api/pool_quota", all_pools=True)
        shown = [[(pool["name"], pool["resource_usage"]) for pool in each["pools"]] for each in answer["node_sets"]]
        nodes = {"total_capacity": "4", "total_free": "3"}
        assert shown == [
            [
                ("pool1", {"quota_used": "0", "quota_free": "2", "quota_limit": "2", "total_usage": "0", **nodes}),
                ("pool2", {"quota_used": "1", "quota_free": "1", "quota_limit": "2", "total_usage": "1", **nodes}),
            ]
        ]
        assert answer["resource_sum"] == {
            "quota_used": "1",
            "quota_free": "3",
            "quota_limit": "4",
            "total_usage": "1",
            **nodes,
        }
        one = it.get("/api/pool_quota", pools=["pool2"], all_pools=False)
        assert [pool["name"] for each in one["node_sets"] for pool in each["pools"]] == ["pool2"]
        assert it.error("GET", "/api/pool_quota", pools="nope")[0] == 404


RICH = """
flavors:
- {name: h100, node_labels: {kind: h100}, allow: [hostNetwork], taints: [{key: only, value: gpu, effect: NoSchedule}]}
- {name: b200, node_labels: {kind: b200}}
cohorts: [{name: research, quota: {h100: 4}}]
pools:
- name: wide
  cohort: research
  quota: {h100: {gpu: {nominal: 8, borrowing_limit: 4, lending_limit: 2}, cpu: 64}, b200: {gpu: 2}}
  description: "für alle"
  default_exit_actions: {RESCHEDULE: "3001,100-110"}
  default_run_time: 90m
  max_run_time: 2d
  subpools: [{name: a, quota: {h100: 2}}, {name: b, quota: {h100: 1}}]
- {name: narrow, quota: {b200: 1}, flavors: [b200]}
"""


def test_pools_in_pool_quota_equal_the_pools_themselves(tmp_path: Path) -> None:
    """It is written without its models: they would say the same, to the byte."""
    with api(tmp_path, cluster=RICH) as it:
        body = it.http.get("/api/pool_quota").content
        answer = models.PoolQuotaAnswer.model_validate_json(body)
        assert answer.model_dump_json().encode() == body
        names = [pool.name for each in answer.node_sets for pool in each.pools]
        assert sorted(names) == ["narrow", "wide", "wide--a", "wide--b"]
        # The command line prints what API v1 returns, so both must agree.
        pools, flavors = it.get("/api/v1/pools")["items"], it.get("/api/v1/flavors")["items"]
        platforms = shaped.platforms_of(flavors)
        assert shaped.pool_quota(pools, platforms) == json.loads(body)
        alone = {pool["name"]: shaped.pool(pool, platforms) for pool in pools}
        assert {pool["name"]: pool for each in json.loads(body)["node_sets"] for pool in each["pools"]} == alone


@pytest.mark.parametrize("until", ["2h", "PT2H", "2027-01-15T10:00:00Z", "2027-01-15 11:00+01:00", "2027-01-15T10:00"])
def test_a_pause_has_an_end_as_a_duration_or_as_a_time(tmp_path: Path, until: str) -> None:
    with api(tmp_path) as it:
        paused = it.call("POST", "/api/v1/pools/pool1/pause", {"until": until})["pool"]
        assert paused["paused_until"] == "2027-01-15T10:00:00Z"
        it.desk.later(7199)
        assert it.get("/api/v1/pools/pool1")["paused_by"] == "ann"
        it.desk.later(1)
        assert it.get("/api/v1/pools/pool1")["paused_by"] is None
        assert it.get("/api/v1/pools/pool1/history")["items"][0]["by"] == "runrig"


@pytest.mark.parametrize(
    "until", ["soon", "", "-2h", "2027", "2026-13-01", "9000000000d", "2027-01-15T08:00", "10000-01-01"]
)
def test_a_pause_with_an_impossible_end_is_refused(tmp_path: Path, until: str) -> None:
    with api(tmp_path) as it:
        status, said = it.error("POST", "/api/v1/pools/pool1/pause", {"until": until})
        assert (status, said["details"]["problems"][0]["path"]) == (422, "until")
        assert "is not a time. Use a duration" in said["message"] or "has passed. Use a later time" in said["message"]
        assert it.get("/api/v1/pools/pool1")["paused_by"] is None


def test_a_busy_pool_drains(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        it.submit(one_task("a"))
        it.desk.later(0)
        gone = it.call("DELETE", "/api/configs/pool/pool1")
        assert [gone[key] for key in ("state", "quota", "held", "used", "available")] == ["DELETING", 0, 2, 1, -1]
        status, refused = it.error("POST", "/api/pool/pool1/workflow", {"file": one_task("b")})
        assert (status, refused["error_code"], refused["details"]["deleted_by"]) == (400, "RESOURCE", "ann")
        it.desk.later(200)
        assert it.get("/api/v1/pools/pool1")["state"] == "ARCHIVED"


def test_invalid_pools_are_refused_and_nothing_is_stored(tmp_path: Path) -> None:
    cases: list[tuple[str, str, dict[str, Any], int, str]] = [
        ("POST", "/api/v1/pools", {"name": "a--b", "quota": 1}, 422, "pool name 'a--b' contains '--'"),
        ("POST", "/api/v1/pools", {"name": "UP", "quota": 1}, 422, "pool name 'UP' must be lower-case"),
        ("POST", "/api/v1/pools", {"name": "pool1", "quota": 1}, 409, "already exists"),
        ("POST", "/api/v1/pools", {"quota": 1}, 422, "name is missing"),
        ("POST", "/api/v1/pools", {"name": "p", "quotas": 1}, 422, "unknown field 'quotas'. Omit it"),
        ("POST", "/api/v1/pools", {"name": "p", "quota": -1}, 422, "-1"),
        ("POST", "/api/v1/pools", {"name": "p", "quota": 1.5}, 422, "1.5"),
        ("POST", "/api/v1/pools", {"name": "p", "quota": "h100=1"}, 422, "h100"),
        (
            "POST",
            "/api/v1/pools",
            {"name": "p", "quota": 1, "borrowing_limit": -2},
            422,
            "borrowing_limit: -2 is negative. Use at least 0",
        ),
        (
            "POST",
            "/api/v1/pools",
            {"name": "p", "quota": 1, "queueing": "LIFO"},
            422,
            "queueing: expected one of BEST_EFFORT_FIFO, STRICT_FIFO, got text 'LIFO'",
        ),
        ("POST", "/api/v1/pools", {"name": "p", "quota": 1, "flavors": ["x"]}, 422, "'x'"),
        ("PATCH", "/api/v1/pools/nope", {"quota": 1}, 404, "unknown pool 'nope' (pools: pool1, pool2)"),
        ("DELETE", "/api/configs/pool/nope", {}, 404, "unknown pool 'nope'"),
        ("POST", "/api/v1/cohorts", {"name": "a", "parent": "a"}, 400, "form a cycle"),
        ("POST", "/api/v1/cohorts", {"name": "a/.."}, 422, "a/.."),
        ("PATCH", "/api/v1/cohorts/nope", {"quota": 1}, 404, "cohort 'nope' not found"),
        ("DELETE", "/api/v1/cohorts/nope", {}, 404, "cohort 'nope' not found"),
        ("POST", "/api/v1/apply", {"file": "pools: [{name: p, quotta: 1}]"}, 422, "quotta"),
        ("POST", "/api/v1/apply", {"file": "pools: [{name: p"}, 422, "line"),
    ]
    with api(tmp_path) as it:
        before = it.desk.revision
        for method, path, body, status, message in cases:
            found, answer = it.error(method, path, body)
            assert (found, message in str(answer)) == (status, True), (method, path, body, answer)
        assert it.desk.revision == before


def test_cohorts_form_a_tree_with_pools_as_leaves(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        it.call("POST", "/api/v1/cohorts", {"name": "org"})
        made = it.call("POST", "/api/v1/cohorts", {"name": "lab", "parent": "org", "quota": 1, "lending_limit": 0})
        it.call("DELETE", "/api/v1/cohorts/org", leave_children=True)
        assert made == {
            "name": "lab",
            "kind": "cohort",
            "parent": "org",
            "parent_kind": "cohort",
            "children": [],
            "declared": True,
            "active": True,
            "weight": 1,
            "quotas": {"default": {"gpu": QUOTA | {"nominal": 1, "lending_limit": 0}}},
            "balances": {
                "default/gpu": QUOTA
                | {"nominal": 1, "lending_limit": 0, "subtree": 1, "local": 1, "usage": 0, "balance": 1, "headroom": 5}
                | {"potential": 5, "used": 0, "total": 0, "drawn": 0, "borrowed": 0, "lent": 0, "over": 0}
            },
        }
        it.call("PATCH", "/api/v1/pools/pool1", {"cohort": "lab"})
        rows = it.get("/api/v1/quota-tree")["nodes"]
        assert [(row["kind"], row["name"], row["parent"], row["declared"], row["children"]) for row in rows] == [
            ("cohort", "lab", "org", True, ["pool1"]),
            ("cohort", "org", None, False, ["lab"]),
            ("pool", "pool1", "lab", True, []),
            ("pool", "pool2", None, True, []),
        ]
        assert it.call("PATCH", "/api/v1/cohorts/lab", {"parent": None})["parent"] is None
        assert it.error("DELETE", "/api/v1/cohorts/lab")[0] == 409
        it.call("PATCH", "/api/v1/pools/pool1", {"cohort": None})
        it.call("DELETE", "/api/v1/cohorts/lab")


def test_root_has_unallocated_quota_and_quotas_beyond_capacity_are_reported(tmp_path: Path) -> None:
    """Q8."""
    with api(tmp_path) as it:
        it.call("PATCH", "/api/v1/pools/pool1", {"quota": 1})
        answer = it.get("/api/v1/quota-tree")
        assert answer["root"] == {
            "name": "",
            "kind": "root",
            "parent": None,
            "parent_kind": None,
            "children": ["pool1", "pool2"],
            "declared": True,
            "active": True,
            "weight": 1,
            "quotas": {},
            "balances": {
                "default/gpu": QUOTA
                | {"nominal": 1, "subtree": 4, "local": 0, "usage": 0, "balance": 4, "headroom": 4, "potential": 4}
                | {"used": 0, "total": 0, "drawn": 0, "borrowed": 0, "lent": 0, "over": 0}
            },
        }
        assert answer["overpromised"] == {}
        it.call("POST", "/api/v1/cohorts", {"name": "lab", "quota": 3})
        assert it.get("/api/v1/quota-tree")["overpromised"] == {"default/gpu": 2}


def test_apply_shows_before_and_after(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        text = "pools: [{name: pool1, quota: 1}]"
        answer = it.call("POST", "/api/v1/apply", {"file": text, "dry_run": True})
        (change,) = answer["changes"]
        assert (answer["applied"], change["action"], change["kind"], change["name"]) == (
            False,
            "update",
            "pool",
            "pool1",
        )
        assert change["before"]["quotas"] == {"default": {"gpu": QUOTA}}
        assert change["after"]["quotas"] == {"default": {"gpu": QUOTA | {"nominal": 1}}}
        assert it.get("/api/v1/pools/pool1")["gpus"]["quota"] == 2
        assert it.call("POST", "/api/v1/apply", {"file": text})["applied"] is True
        assert it.get("/api/v1/pools/pool1")["gpus"]["quota"] == 1


def test_node_shows_the_users_of_its_gpus(tmp_path: Path) -> None:
    with api(tmp_path, gpus=2) as it:
        it.submit(one_task("a"))
        it.desk.later(0)
        has = {"gpu": "2", "cpu": "0", "memory": "0", "storage": "0"}
        allowed = {"default": {"host_network": False, "privileged": False, "default_mounts": [], "allowed_mounts": []}}
        expected = {
            "hostname": "n0",
            "backend": "simulated",
            "exposed_fields": {"node": "n0", **has, "pool/platform": ["pool1/default", "pool2/default"]},
            "resource_type": "SHARED",
            "usage_fields": has | {"gpu": "1"},
            "non_workflow_usage_fields": has | {"gpu": "0"},
            "allocatable_fields": has,
            "platform_allocatable_fields": {"pool1": {"default": has}, "pool2": {"default": has}},
            "platform_workflow_allocatable_fields": None,
            "platform_available_fields": None,
            "pool_platform_labels": {"pool1": ["default"], "pool2": ["default"]},
            "label_fields": {},
            "taints": [],
            "conditions": ["Ready"],
            "config_fields": {"pool1": allowed, "pool2": allowed},
            "ready": True,
            "flavor": "default",
            "free": {"gpu": 1},
            "gpus": [{"index": 0, "workflow": "a-1", "task": "main"}, None],
        }
        all_of_them = {"resources": [expected], "more_entries": False}
        assert it.get("/api/resources") == it.get("/api/resources/n0") == all_of_them
        assert it.get("/api/resources", pools="pool1", platforms="b200") == all_of_them | {"resources": []}
        assert it.error("GET", "/api/resources/n9")[0] == 404


def test_node_list_equals_the_answers_of_the_single_nodes(tmp_path: Path) -> None:
    """Nodes with the same flavor and amounts share the text about their pools, and only these do."""
    cluster = """
flavors: [{name: a, node_labels: {gpu: a}}, {name: b, node_labels: {gpu: b}, allow: [privileged]}]
pools: [{name: p, quota: {}}, {name: q, quota: {}, flavors: [b]}]
"""
    kinds: tuple[dict[str, int], ...] = ({"gpu": 1}, {"gpu": 2, "cpu": 4000}, {"gpu": 1, "memory": 2**30}, {})
    nodes = tuple(
        Node(f'n"{at:03}', kinds[at % 4], labels={"gpu": "abc"[at % 3], "at": str(at)}) for at in range(2 * 50 + 1)
    )
    with api(tmp_path, cluster=cluster, nodes=nodes) as it:
        listed = it.get("/api/resources")["resources"]
        assert [each["hostname"] for each in listed] == [node.name for node in nodes]
        for each in listed[:13] + listed[-3:]:
            assert it.get(f"/api/resources/{quote(each['hostname'])}")["resources"] == [each]
        pages = [it.get("/api/resources", limit=40, offset=at) for at in (0, 40, 80, 120)]
        assert [page["more_entries"] for page in pages] == [True, True, False, False]
        assert [node for page in pages for node in page["resources"]] == listed
        assert {tuple(each["pool_platform_labels"]) for each in listed} == {("p",), ("p", "q"), ()}
        of_q = it.get("/api/resources", pools="q", limit=1, offset=1)
        assert of_q["more_entries"] is True
        assert [each["hostname"] for each in of_q["resources"]] == [listed[4]["hostname"]]
        assert [[*each["pool_platform_labels"]] for each in of_q["resources"]] == [["q"]]


def test_node_shows_why_it_accepts_no_pods(tmp_path: Path) -> None:
    """Kubernetes marks those that are cordoned, and those that are down, by taints; a flavor may name a taint of others."""
    cordoned, down = Taint("node.kubernetes.io/unschedulable"), Taint("node.kubernetes.io/unreachable", "", "NoExecute")
    nodes = (
        Node("free", {"gpu": 1}),
        Node("kept", {"gpu": 1}, taints=(Taint("team", "sim"),)),
        Node("soft", {"gpu": 1}, taints=(Taint("team", "sim", "PreferNoSchedule"),)),
        Node("off", {"gpu": 1}, ready=False),
        Node("cordoned", {"gpu": 1}, taints=(cordoned,), ready=False),
        Node("down", {"gpu": 1}, taints=(cordoned, down), ready=False),
    )
    with api(tmp_path, nodes=nodes) as it:
        assert {each["hostname"]: each["conditions"] for each in it.get("/api/resources")["resources"]} == {
            "free": ["Ready"],
            "kept": ["Ready", "Tainted"],
            "soft": ["Ready"],
            "off": ["NotReady"],
            "cordoned": ["NotReady", "Cordoned"],
            "down": ["NotReady"],
        }


def test_node_without_a_matching_flavor_has_that_condition(tmp_path: Path) -> None:
    cluster = "flavors: [{name: default, node_labels: {gpu: a100}}]"
    nodes = (Node("right", {"gpu": 1}, labels={"gpu": "a100"}), Node("wrong", {"gpu": 1}))
    with api(tmp_path, cluster=cluster, nodes=nodes) as it:
        found = it.get("/api/resources")["resources"]
        assert [(each["hostname"], each["flavor"], each["conditions"]) for each in found] == [
            ("right", "default", ["Ready"]),
            ("wrong", "", ["Ready", "NoFlavor"]),
        ]
