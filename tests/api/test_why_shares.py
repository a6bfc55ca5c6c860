"""Why work waits where a pool has subpools: which share is full, and what holds it from before (laws P2, R7, S1)."""

from pathlib import Path
from typing import Any

from tests.api.client import Api, api
from tests.worlds.service import one_task

CLUSTER = "pools: [{name: team, quota: 4}]"


def submit(it: Api, name: str, pool: str, gpus: int, duration: float = 9000) -> None:
    it.desk.time[0] += 1
    it.submit(one_task(name, gpus=gpus, duration=duration), pool)
    it.desk.later(1)


def give(it: Api, name: str, quota: int) -> None:
    it.call("POST", "/api/configs/pool/team/subpool", {"name": name, "quota": quota})


def why(it: Api, id: str) -> tuple[str, list[str]]:
    """(the first reason, all that are about quotas of pools)."""
    (group,) = it.get(f"/api/v1/workflows/{id}/why")["groups"]
    shown = [each["reason"] for each in group["blockers"]]
    return group["reasons"][0]["sentence"], [each["sentence"] for each in shown if each["code"] == "QuotaFull"]


def status(it: Api, id: str) -> Any:
    return it.get(f"/api/v1/workflows/{id}")["status"]


def test_why_names_work_older_than_the_subpool_and_waits_for_it(tmp_path: Path) -> None:
    with api(tmp_path, cluster=CLUSTER) as it:
        submit(it, "n", "team", 4, duration=100)
        give(it, "a", 2)
        submit(it, "one", "team--a", 1)
        sentence = (
            "needs 1 GPU, but pool team and its subpools have no quota left; "
            "waiting for n-1 to finish, which started before pool team gave quota to its subpools"
        )
        assert why(it, "one-1") == (sentence, [sentence])
        it.desk.later(200)
        assert (status(it, "n-1"), status(it, "one-1")) == ("COMPLETED", "RUNNING")


def test_enough_of_several_older_workflows_must_end(tmp_path: Path) -> None:
    with api(tmp_path, cluster=CLUSTER) as it:
        submit(it, "m", "team", 2, duration=100)
        submit(it, "n", "team", 2)
        give(it, "a", 2)
        submit(it, "one", "team--a", 1)
        assert why(it, "one-1")[0] == (
            "needs 1 GPU, but pool team and its subpools have no quota left; "
            "waiting for enough of m-1 and n-1 to finish, which started before pool team gave quota to its subpools"
        )
        it.desk.later(200)
        assert status(it, "one-1") == "RUNNING"


def test_why_names_work_older_than_a_quota_cut(tmp_path: Path) -> None:
    with api(tmp_path, cluster=CLUSTER) as it:
        give(it, "a", 3)
        submit(it, "big", "team--a", 3)
        it.call("PATCH", "/api/configs/pool/team/subpool/a", {"quota": 1})
        submit(it, "one", "team--a", 1)
        submit(it, "two", "team", 2)
        older = "waiting for big-1 to finish, which started before the quota of pool team--a was cut"
        assert why(it, "one-1")[0] == f"needs 1 GPU, but pool team--a is 2 GPUs over its quota; {older}"
        assert why(it, "two-1")[0] == (
            f"needs 2 GPUs, but pool team and its subpools have only 1 GPU left of their quota; {older}"
        )


def test_parent_shows_its_own_share_and_its_total_separately(tmp_path: Path) -> None:
    with api(tmp_path, cluster=CLUSTER, gpus=8) as it:
        give(it, "a", 2)
        submit(it, "sub", "team--a", 2)
        submit(it, "own", "team", 2)
        submit(it, "next", "team", 1)
        assert why(it, "next-1")[1] == [
            "needs 1 GPU, but pool team has no unallocated quota left; in use by own-1",
            "needs 1 GPU, but pool team and its subpools have no quota left; in use by own-1 and sub-1",
        ]
        submit(it, "more", "team--a", 1)
        assert why(it, "more-1")[1] == [
            "needs 1 GPU, but pool team--a has no quota left; in use by sub-1",
            "needs 1 GPU, but pool team and its subpools have no quota left; in use by own-1 and sub-1",
        ]


def test_a_pool_without_subpools_has_one_share(tmp_path: Path) -> None:
    with api(tmp_path, cluster=CLUSTER, gpus=8) as it:
        submit(it, "own", "team", 4)
        submit(it, "next", "team", 1)
        sentence = "needs 1 GPU, but pool team has no quota left; in use by own-1"
        assert why(it, "next-1") == (sentence, [sentence])
