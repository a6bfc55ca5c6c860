"""The route of domains: the whole answer, what narrows it, and what it refuses."""

from pathlib import Path
from typing import Any

import pytest

from runrig.domain.gangs import Priority
from tests.api.client import Api, api

CLUSTER = """
pools:
- {name: hosts, quota: 2, topology_keys: [{key: host, label: kubernetes.io/hostname}]}
- {name: plain, quota: 1}
- {name: racks, quota: 0, topology_keys: [{key: rack, label: r}, {key: host, label: kubernetes.io/hostname}]}
- {name: team, quota: 1, topology_keys: [{key: host, label: kubernetes.io/hostname}], subpools: [{name: a, quota: 1}]}
"""
"""One node, n0, of 4 GPUs and without labels."""


def gpus(total: int, free: int, firm: int = 0, low: int = 0, changing: int = 0, cordoned: int = 0) -> dict[str, int]:
    return {"total": total, "free": free, "firm": firm, "low": low, "changing": changing, "cordoned": cordoned}


def domain(level: str | None, path: list[str], *domains: Any, **more: Any) -> dict[str, Any]:
    """With all that n0 has while nothing runs."""
    idle: dict[str, Any] = {
        "state": None,
        "nodes": 1,
        "cordoned_nodes": 0,
        "gpus": gpus(4, 4),
        "flavors": {},
        "gangs": None,
    }
    idle |= {"holders": [], "others": {"gangs": 0, "gpus": 0}}
    return {"level": level, "path": path, **idle, "domains": list(domains), **more}


HOST = {"key": "host", "label": "kubernetes.io/hostname"}
RACK = {"key": "rack", "label": "r"}


def level(key: dict[str, str], domains: int, gangs: Any = None) -> dict[str, Any]:
    return {**key, "domains": domains, "gangs": gangs}


def test_topology_has_one_map_per_list_of_keys_and_nodes_without_keys_last(tmp_path: Path) -> None:
    with api(tmp_path, cluster=CLUSTER) as it:
        answer = it.get("/api/v1/topology")
    node = domain(None, ["n0"], state="Ready")
    flavors = {"flavors": ["default"], "apart": []}
    assert answer == {
        "size": None,
        "maps": [
            {
                "pools": ["hosts", "team", "team--a"],
                "keys": [HOST],
                "levels": [level(HOST, 1)],
                "all": domain(None, [], domain("host", ["n0"])),
                **flavors,
            },
            {
                "pools": ["racks"],
                "keys": [RACK, HOST],
                "levels": [level(RACK, 0), level(HOST, 0)],
                "all": domain(None, []),
                **flavors,
                "apart": [{"lacks": ["r"], "node": node}],
            },
            {"pools": ["plain"], "keys": [], "levels": [], "all": domain(None, [], node), **flavors},
        ],
    }


def busy(it: Api) -> None:
    it.desk.submit("first", "hosts", gpus=2)
    it.desk.service.settle()
    it.desk.submit("second", "plain", Priority.LOW)
    it.desk.service.settle()


def test_topology_with_a_size_shows_usage_and_what_fits(tmp_path: Path) -> None:
    with api(tmp_path, cluster=CLUSTER) as it:
        busy(it)
        answer = it.get("/api/v1/topology", pool="hosts", size="1x2", holders=1)
    fit = {"now": 0, "after_low": 1, "ever": 2}
    of_first = {"gang": "first-1/main-group", "pool": "hosts", "priority": "NORMAL", "state": "ADMITTED"}
    held = {
        "gpus": gpus(4, 1, firm=2, low=1),
        "gangs": fit,
        "holders": [of_first | {"pods": 1, "gpus": 2}],
        "others": {"gangs": 1, "gpus": 1},
    }
    assert answer == {
        "size": {"pods": 1, "gpus": 2},
        "maps": [
            {
                "pools": ["hosts"],
                "keys": [HOST],
                "flavors": ["default"],
                "levels": [level(HOST, 1, fit)],
                "all": domain(None, [], domain("host", ["n0"], **held), **held),
                "apart": [],
            }
        ],
    }


def test_level_limits_the_result_to_maps_that_have_it(tmp_path: Path) -> None:
    with api(tmp_path, cluster=CLUSTER) as it:
        of_rack = it.get("/api/v1/topology", level="rack")["maps"]
        of_host = it.get("/api/v1/topology", level="host")["maps"]
    assert [each["pools"] for each in of_rack] == [["racks"]]
    assert [each["pools"] for each in of_host] == [["hosts", "team", "team--a"], ["racks"]]


def test_without_pools_topology_is_empty(tmp_path: Path) -> None:
    with api(tmp_path, cluster="pools: [{name: gone, quota: 1}]") as it:
        it.call("DELETE", "/api/configs/pool/gone")
        assert it.get("/api/v1/topology") == {"size": None, "maps": []}
        assert it.error("GET", "/api/v1/topology", pool="gone")[0] == 404


SIZE = "Use a number of 1-GPU pods (64) or PODSxGPUS (8x8), each from 1 to 999999999"
WRONG: list[tuple[dict[str, Any], int, str, str]] = [
    ({"pool": "nope"}, 404, "pool", "unknown pool 'nope' (pools: hosts, plain, racks, team, team--a)"),
    *(
        ({"size": text}, 422, "size", f"invalid size {text!r}. {SIZE}")
        for text in ("8by8", "", "0", "8x0", "-8", "1000000000", "8x8x8", "x8", "8.5", "٣")
    ),
    ({"level": "rak"}, 422, "level", "unknown level 'rak' (topology keys: host, rack)"),
    (
        {"level": "rack", "pool": "plain"},
        422,
        "level",
        "unknown level 'rack': these pools have no topology keys. Omit it",
    ),
    ({"nodes": True, "level": "host"}, 422, "nodes", "nodes are listed only below the finest level. Omit level"),
    ({"holders": -1}, 422, "holders", "holders: invalid value '-1'"),
]


@pytest.mark.parametrize(("query", "status", "where", "message"), WRONG, ids=lambda value: str(value)[:40])
def test_errors_are_reported_with_the_way_out(
    query: dict[str, Any], status: int, where: str, message: str, tmp_path: Path
) -> None:
    with api(tmp_path, cluster=CLUSTER) as it:
        found, body = it.error("GET", "/api/v1/topology", **query)
    assert (found, body["error_code"]) == (status, {404: "NOTFOUND", 422: "USAGE"}[status])
    assert message in body["message"]
    if status == 422:
        assert [each["path"] for each in body["details"]["problems"]] == [where]


@pytest.mark.parametrize(
    ("text", "size"), [("64", (64, 1)), ("8x8", (8, 8)), ("8X2", (8, 2)), (" 16×4 ", (16, 4)), ("007", (7, 1))]
)
def test_a_size_is_pods_or_pods_times_gpus(text: str, size: tuple[int, int], tmp_path: Path) -> None:
    with api(tmp_path, cluster=CLUSTER) as it:
        assert it.get("/api/v1/topology", size=text)["size"] == {"pods": size[0], "gpus": size[1]}
