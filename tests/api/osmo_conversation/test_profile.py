"""`profile list`, `profile set pool` and `profile set notifications`, and what the default pool does."""

from dataclasses import replace
from typing import Any

import pytest

from tests.api.permissions.two_teams import TwoTeams
from tests.worlds.service import one_task

from .client import fits, refused, said

PROFILE = {
    "profile": {"username": str, "email_notification": bool, "slack_notification": bool, "pool": str | None},
    "pools": [str],
    "roles": [str],
    "token": {"name": str, "expires_at": str},
}


def listed(world: TwoTeams, actor: str) -> dict[str, Any]:
    """As `profile list` asks."""
    answer = said(world, actor, "GET", "api/profile/settings")
    fits(answer, PROFILE)
    profile: dict[str, Any] = answer["profile"]
    assert profile["username"] == actor
    return profile


def set_to(world: TwoTeams, actor: str, **changes: Any) -> None:
    """As `profile set` asks."""
    said(world, actor, "POST", "api/profile/settings", changes)


@pytest.mark.parametrize(("actor", "pool"), [("tom", "team"), ("uwe", "team2"), ("ada", None), ("nina", None)])
def test_only_top_level_pool_is_the_default(still: TwoTeams, actor: str, pool: str | None) -> None:
    assert listed(still, actor)["pool"] == pool


def test_token_without_expiry_has_a_date_that_the_client_can_read(world: TwoTeams) -> None:
    access = world.api.desk.service.access
    endless = access.tokens.create("tom", "endless", None, actor="tom").text
    answer = said(replace(world, tokens={"tom": endless}), "tom", "GET", "api/profile/settings")
    assert answer["token"] == {"name": "endless", "expires_at": "9999-12-31T00:00:00"}


def test_default_pool_is_stored_and_used(world: TwoTeams) -> None:
    set_to(world, "tom", pool="team--a")
    set_to(world, "ada", pool="team2")
    assert [listed(world, actor)["pool"] for actor in ("tom", "ada", "tess")] == ["team--a", "team2", "team"]
    pool = listed(world, "tom")["pool"]
    body: dict[str, Any] = {
        "file": one_task("x"),
        "set_variables": [],
        "set_string_variables": [],
        "uploaded_templated_spec": None,
    }
    name = said(world, "tom", "POST", f"api/pool/{pool}/workflow", body)["name"]
    assert said(world, "tom", "GET", f"api/workflow/{name}")["pool"] == "team--a"
    assert list(said(world, "tom", "GET", "/api/pool")["pools"]) == ["team", "team--a"]
    for all_pools, rows in ((False, {"team--a/default"}), (True, {"team/default", "team--a/default"})):
        answer = said(world, "tom", "GET", "api/resources", pools=[pool], all_pools=all_pools)
        assert {row for each in answer["resources"] for row in each["exposed_fields"]["pool/platform"]} == rows


def test_each_notification_is_set_separately(world: TwoTeams) -> None:
    for changes, wanted in (
        ({"email_notification": True}, (True, False, "team")),
        ({"slack_notification": True}, (True, True, "team")),
        ({"pool": "team--a"}, (True, True, "team--a")),
        ({"email_notification": False}, (False, True, "team--a")),
    ):
        set_to(world, "tom", **changes)
        found = listed(world, "tom")
        assert (found["email_notification"], found["slack_notification"], found["pool"]) == wanted
    assert not listed(world, "tess")["slack_notification"]
    set_to(world, "nina", slack_notification=True)
    assert listed(world, "nina")["slack_notification"]


@pytest.mark.parametrize(
    ("actor", "body", "status", "says"),
    [
        ("tom", {"pool": "team2"}, 404, "unknown pool 'team2'"),
        ("tom", {"pool": "teem"}, 404, "unknown pool 'teem'"),
        ("tom", {"pool": ""}, 404, "unknown pool ''"),
        ("nina", {"pool": "team"}, 404, "unknown pool 'team'"),
        ("vera", {"pool": "team"}, 403, "vera cannot submit to pool team"),
        ("ada", {"pool": "teem"}, 404, "unknown pool 'teem'"),
        ("tom", {}, 422, "no setting given"),
        ("tom", {"email_notification": "yes"}, 422, "email_notification"),
        ("tom", {"pool": 1}, 422, "pool"),
        ("tom", {"username": "ada"}, 422, "username"),
    ],
)
def test_invalid_settings_are_refused_and_change_nothing(
    world: TwoTeams, actor: str, body: dict[str, Any], status: int, says: str
) -> None:
    before = world.portrait()
    found, message = refused(world, actor, "POST", "api/profile/settings", body)
    assert (found, says in message) == (status, True), message
    assert world.portrait() == before


def test_deleted_default_pool_counts_as_none(world: TwoTeams) -> None:
    set_to(world, "tom", pool="team--a")
    said(world, "ada", "DELETE", "api/configs/pool/team--a", None)
    assert listed(world, "tom")["pool"] == "team"
    status, message = refused(world, "tom", "POST", "api/profile/settings", {"pool": "team--a"})
    assert (status, message) == (409, "pool team--a no longer accepts workflows. Use one of team")


def test_both_apis_show_the_same_default_pool(world: TwoTeams) -> None:
    set_to(world, "tom", pool="team--a")
    assert world.get("tom", "/api/v1/me")["default_pool"] == "team--a"
    set_to(world, "tom", email_notification=True)
    changed = world.send("tom", "PATCH", "/api/v1/me", {"default_pool": None})
    assert (changed.status_code, changed.json()) == (200, world.get("tom", "/api/v1/me"))
    assert (listed(world, "tom")["pool"], listed(world, "tom")["email_notification"]) == ("team", True)
    world.send("ada", "PATCH", "/api/v1/me", {"default_pool": "team2"})
    assert (listed(world, "ada")["pool"], listed(world, "tess")["pool"]) == ("team2", "team")


@pytest.mark.parametrize(
    ("actor", "body", "status", "says"),
    [
        ("tom", {"default_pool": "team2"}, 404, "unknown pool 'team2'"),
        ("tom", {"default_pool": ""}, 404, "unknown pool ''"),
        ("vera", {"default_pool": "team"}, 403, "vera cannot submit to pool team"),
        ("tom", {}, 422, "default_pool"),
        ("tom", {"default_pool": 1}, 422, "default_pool"),
        ("tom", {"default_pool": "team", "user": "ada"}, 422, "user"),
    ],
)
def test_an_invalid_default_pool_changes_nothing(
    world: TwoTeams, actor: str, body: dict[str, Any], status: int, says: str
) -> None:
    before = world.portrait()
    answer = world.send(actor, "PATCH", "/api/v1/me", body)
    assert (answer.status_code, says in answer.text) == (status, True), answer.text
    assert world.portrait() == before
