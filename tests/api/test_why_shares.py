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


def test_work_that_is_older_than_the_subpool_is_named_and_its_end_is_what_it_waits_for(tmp_path: Path) -> None:
    with api(tmp_path, cluster=CLUSTER) as it:
        submit(it, "n", "team", 4, duration=100)
        give(it, "a", 2)
        submit(it, "one", "team--a", 1)
        sentence = (
            "team with its subpools has 0 of its quota of default/gpu left, and it asks for 1; n-1 started in team "
            "before its subpools had that quota, and keeps what it holds until it ends: it starts when n-1 ends"
        )
        assert why(it, "one-1") == (sentence, [sentence])
        it.desk.later(200)
        assert (status(it, "n-1"), status(it, "one-1")) == ("COMPLETED", "RUNNING")


def test_of_several_that_are_older_enough_have_to_end(tmp_path: Path) -> None:
    with api(tmp_path, cluster=CLUSTER) as it:
        submit(it, "m", "team", 2, duration=100)
        submit(it, "n", "team", 2)
        give(it, "a", 2)
        submit(it, "one", "team--a", 1)
        assert why(it, "one-1")[0] == (
            "team with its subpools has 0 of its quota of default/gpu left, and it asks for 1; m-1 and n-1 started in team "
            "before its subpools had that quota, and keep what they hold until they end: it starts when enough of them end"
        )
        it.desk.later(200)
        assert status(it, "one-1") == "RUNNING"


def test_work_that_is_older_than_a_cut_is_named(tmp_path: Path) -> None:
    with api(tmp_path, cluster=CLUSTER) as it:
        give(it, "a", 3)
        submit(it, "big", "team--a", 3)
        it.call("PATCH", "/api/configs/pool/team/subpool/a", {"quota": 1})
        submit(it, "one", "team--a", 1)
        submit(it, "two", "team", 2)
        older = "big-1 started in team--a before its quota was cut, and keeps what it holds until it ends: it starts when big-1 ends"
        assert why(it, "one-1")[0] == f"team--a is 2 over its quota of default/gpu, and it asks for 1; {older}"
        assert why(it, "two-1")[0] == (
            f"team with its subpools has 1 of its quota of default/gpu left, and it asks for 2; {older}"
        )


def test_the_own_share_of_a_parent_and_all_of_it_are_told_apart(tmp_path: Path) -> None:
    with api(tmp_path, cluster=CLUSTER, gpus=8) as it:
        give(it, "a", 2)
        submit(it, "sub", "team--a", 2)
        submit(it, "own", "team", 2)
        submit(it, "next", "team", 1)
        assert why(it, "next-1")[1] == [
            "team without its subpools has 0 of its own share of default/gpu left, and it asks for 1; held by own-1",
            "team with its subpools has 0 of its quota of default/gpu left, and it asks for 1; held by own-1, sub-1",
        ]
        submit(it, "more", "team--a", 1)
        assert why(it, "more-1")[1] == [
            "team--a has 0 of its quota of default/gpu left, and it asks for 1; held by sub-1",
            "team with its subpools has 0 of its quota of default/gpu left, and it asks for 1; held by own-1, sub-1",
        ]


def test_a_pool_without_subpools_has_one_share(tmp_path: Path) -> None:
    with api(tmp_path, cluster=CLUSTER, gpus=8) as it:
        submit(it, "own", "team", 4)
        submit(it, "next", "team", 1)
        sentence = "team has 0 of its quota of default/gpu left, and it asks for 1; held by own-1"
        assert why(it, "next-1") == (sentence, [sentence])
