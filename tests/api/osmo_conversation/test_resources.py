"""`resource list`, `resource info`, `pool list` with pools by their names, and `app list`."""

import pytest

from tests.api.permissions.two_teams import TwoTeams

from .client import fits, refused, said

AMOUNTS = {"storage": str, "cpu": str, "memory": str, "gpu": str}
MAY = {"host_network": bool, "privileged": bool, "default_mounts": [str], "allowed_mounts": [str]}
NODE = {
    "exposed_fields": {"node": str, "pool/platform": [str], **AMOUNTS},
    "resource_type": str,
    "usage_fields": AMOUNTS,
    "allocatable_fields": AMOUNTS,
    "platform_allocatable_fields": {str: {str: AMOUNTS}},
    "pool_platform_labels": {str: [str]},
    "config_fields": {str: {str: MAY}},
}
TEXT_OR_NUMBER = int | str
USAGE = dict.fromkeys(
    ("quota_used", "quota_free", "quota_limit", "total_usage", "total_capacity", "total_free"), TEXT_OR_NUMBER
)
POOL = {"name": str, "description": str, "status": str, "resource_usage": USAGE}


def rows(world: TwoTeams, actor: str, *pools: str, all_pools: bool = False) -> set[str]:
    """The rows of `resource list`, pool/platform each."""
    answer = said(world, actor, "GET", "api/resources", pools=list(pools), all_pools=all_pools)
    fits(answer, {"resources": [NODE]})
    listed = {row for each in answer["resources"] for row in each["exposed_fields"]["pool/platform"]}
    for each in answer["resources"]:
        assert {row.partition("/")[0] for row in each["exposed_fields"]["pool/platform"]} == set(
            each["platform_allocatable_fields"]
        )
    return listed


def test_list_has_rows_of_the_requested_pools_only(world: TwoTeams) -> None:
    assert rows(world, "tom", "team") == {"team/default"}
    assert rows(world, "tom", "team--a", "team") == {"team/default", "team--a/default"}
    assert rows(world, "ada", "team", "team2--b") == {"team/default", "team2--b/default"}
    everything = {"team/default", "team--a/default", "team2/default", "team2--b/default"}
    assert rows(world, "ada", "team", all_pools=True) == everything
    assert rows(world, "tom", "team", all_pools=True) == {"team/default", "team--a/default"}
    assert refused(world, "tom", "GET", "api/resources", pools=["team2"], all_pools=False)[0] == 404
    assert refused(world, "nina", "GET", "api/resources", pools=["team"], all_pools=False)[0] == 403


def test_a_node_shows_its_capacity(world: TwoTeams) -> None:
    answer = said(world, "tom", "GET", "api/resources/n0")
    fits(answer, {"resources": [NODE]})
    (node,) = answer["resources"]
    assert node["exposed_fields"]["gpu"] == node["allocatable_fields"]["gpu"] != "0"
    assert refused(world, "tom", "GET", "api/resources/n99")[0] == 404
    assert refused(world, "nina", "GET", "api/resources/n0")[0] == 403


def test_pools_are_selected_by_exact_name(world: TwoTeams) -> None:
    found = said(world, "tom", "GET", "/api/pool", pools=["team"], all_pools=False)
    assert list(found["pools"]) == ["team"]
    answer = said(world, "tom", "GET", "/api/pool_quota", pools=["team"], all_pools=False)
    fits(answer, {"node_sets": [{"pools": [POOL]}], "resource_sum": USAGE})
    assert [pool["name"] for each in answer["node_sets"] for pool in each["pools"]] == ["team"]
    with_subpools = said(world, "tom", "GET", "api/pool_quota", pools=["team"], subpools=True)
    assert [pool["name"] for each in with_subpools["node_sets"] for pool in each["pools"]] == ["team", "team--a"]


def test_pool_that_drains_is_not_offline(world: TwoTeams) -> None:
    for name in ("team--a", "team"):
        said(world, "ada", "DELETE", f"api/configs/pool/{name}", None)
    answer = said(world, "tom", "GET", "/api/pool_quota", all_pools=True)
    shown = {pool["name"]: pool["status"] for each in answer["node_sets"] for pool in each["pools"]}
    assert shown["team"] == "MAINTENANCE"


@pytest.mark.parametrize("actor", ["ada", "tom", "nina"])
def test_the_list_of_apps_is_empty(world: TwoTeams, actor: str) -> None:
    answer = said(world, actor, "GET", "api/app", order="ASC", users=["tom"], limit=20, offset=0)
    assert answer == {"apps": [], "more_entries": False}
