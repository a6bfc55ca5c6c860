"""`pool list`: the rows of parents and subpools add up to the sum, and what is lent is borrowed."""

from pathlib import Path
from typing import Any

import pytest

from tests.api.client import Api, api
from tests.worlds.service import one_task

POOL = "pools: [{name: team, quota: 4}, {name: zero, quota: 0}]"
SUBPOOL = "/api/configs/pool/team/subpool"


def rows(it: Api) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """(pools by name, the sums), as `pool list` asks for them."""
    answer = it.get("/api/pool_quota", all_pools="True")
    pools = [pool for node_set in answer["node_sets"] for pool in node_set["pools"]]
    return {pool["name"]: pool for pool in pools}, answer["resource_sum"]


def submit(it: Api, name: str, pool: str, gpus: int, priority: str) -> None:
    it.desk.time[0] += 1
    it.submit(one_task(name, gpus=gpus, duration=9000), pool, priority=priority)
    it.desk.later(1)


def numbers(it: Api, *fields: str) -> dict[str, tuple[int, ...]]:
    return {name: tuple(pool[field] for field in fields) for name, pool in rows(it)[0].items()}


LOADS: dict[str, list[tuple[str, int, str]]] = {
    "the parent alone": [("team", 2, "NORMAL")],
    "the subpool alone": [("team--a", 1, "NORMAL")],
    "both": [("team", 1, "NORMAL"), ("team--a", 1, "NORMAL"), ("team", 1, "LOW"), ("team--a", 1, "LOW")],
    "LOW of the parent on the idle quota of the subpool": [("team", 4, "LOW")],
    "LOW of the subpool on the idle quota of the parent": [("team--a", 4, "LOW")],
    "LOW beyond the whole pool": [("team", 2, "NORMAL"), ("team--a", 6, "LOW")],
    "LOW of another pool": [("team--a", 1, "NORMAL"), ("zero", 6, "LOW")],
    "LOW of all three": [("team", 3, "LOW"), ("team--a", 1, "NORMAL"), ("zero", 2, "LOW")],
}


@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS)
@pytest.mark.parametrize("subpools", [["a"], ["a", "b"]])
def test_rows_add_up_and_lent_equals_borrowed(
    tmp_path: Path, load: list[tuple[str, int, str]], subpools: list[str]
) -> None:
    with api(tmp_path, cluster=POOL, gpus=8) as it:
        for name in subpools:
            it.call("POST", SUBPOOL, {"name": name, "quota": 2 // len(subpools) or 1})
        for number, (pool, gpus, priority) in enumerate(load):
            submit(it, f"w{number}", pool, gpus, priority)
        pools, sums = rows(it)
        running = sum(gpus for pool, gpus, _ in load)
        for field in ("total_usage", "quota_used", "quota_limit", "quota_free"):
            assert sum(int(pool["resource_usage"][field]) for pool in pools.values()) == int(sums[field]), field
        held = sum(int(pool["resource_usage"]["total_usage"]) for pool in pools.values())
        assert (held, sum(pool["used"] + pool["low"] for pool in pools.values())) == (running, running)
        lent, borrowed = (sum(pool[field] for pool in pools.values()) for field in ("lent", "borrowed"))
        assert lent <= borrowed, "somebody borrows all that is lent"
        # Quota of 4 on 8 GPUs: 4 belong to no guarantee, and are borrowed first across pools.
        assert all(0 <= pool["lent"] <= pool["unallocated"] - pool["used"] for pool in pools.values() if pool["lent"])


def test_work_older_than_a_subpool_borrows_the_quota_of_the_subpool(tmp_path: Path) -> None:
    with api(tmp_path, cluster=POOL, gpus=4) as it:
        submit(it, "n", "team", 4, "NORMAL")
        it.call("POST", SUBPOOL, {"name": "a", "quota": 2})
        assert numbers(it, "unallocated", "used", "low", "available", "borrowed", "lent", "total") == {
            "team": (2, 4, 0, -2, 2, 0, 4),
            "team--a": (2, 0, 0, 2, 0, 2, 0),
            "zero": (0, 0, 0, 0, 0, 0, 0),
        }


def test_borrowing_of_a_subpool_appears_only_in_its_own_row(tmp_path: Path) -> None:
    with api(tmp_path, cluster="pools: [{name: team, quota: 2}, {name: rich, quota: 4}]", gpus=6) as it:
        it.call("POST", SUBPOOL, {"name": "a", "quota": 1})
        submit(it, "n", "team--a", 5, "LOW")
        assert numbers(it, "low", "borrowed", "lent", "total") == {
            "team": (0, 0, 1, 5),
            "team--a": (5, 4, 0, 5),
            "rich": (0, 0, 3, 0),
        }


def test_a_pool_that_is_listed_alone_shows_its_own_work(tmp_path: Path) -> None:
    with api(tmp_path, cluster=POOL, gpus=8) as it:
        it.call("POST", SUBPOOL, {"name": "a", "quota": 2})
        submit(it, "own", "team", 1, "NORMAL")
        submit(it, "sub", "team--a", 2, "LOW")
        for name, held in (("team", "1"), ("team--a", "2")):
            answer = it.get("/api/pool_quota", pools=name, all_pools="False")
            (pool,) = answer["node_sets"][0]["pools"]
            assert (pool["resource_usage"]["total_usage"], answer["resource_sum"]["total_usage"]) == (held, held)
