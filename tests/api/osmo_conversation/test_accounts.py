"""`token list|set|delete|roles`, `user list|get|create|update|delete`, and the roles that `profile list` shows."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.api.permissions.two_teams import TwoTeams
from tests.worlds.service import one_task

from .client import OPTIONAL, fits, refused, said, send

TOKEN = {"user_name": str, "token_name": str, "expires_at": str, "description": str, "roles": [str]}
ROLE = {"role_name": str, "assigned_by": str, "assigned_at": str}
ACCOUNT = {"id": str, "created_at": str, "created_by": OPTIONAL}
LATER = "2030-02-28"


def set_token(world: TwoTeams, actor: str, name: str, *, user: str | None = None, **params: Any) -> str:
    """As `token set` does; the token that it prints."""
    owner = "" if user is None else f"user/{user}/"
    answer = said(world, actor, "POST", f"api/auth/{owner}access_token/{name}", None, **{"expires_at": LATER} | params)
    fits(answer, str)
    return str(answer)


def tokens(world: TwoTeams, actor: str) -> dict[str, dict[str, Any]]:
    """As `token list` reads them, by name."""
    answer = said(world, actor, "GET", "api/auth/access_token")
    fits(answer, [TOKEN])
    for each in answer:
        datetime.strptime(each["expires_at"].split("T")[0], "%Y-%m-%d").replace(tzinfo=UTC)
    return {each["token_name"]: each for each in answer}


def as_holder(world: TwoTeams, token: str) -> TwoTeams:
    """*world*, in which ``holder`` has *token*."""
    return TwoTeams(world.api, {**world.tokens, "holder": token}, world.work, world.old)


def submits(world: TwoTeams, actor: str, pool: str) -> int:
    body: dict[str, Any] = {
        "file": one_task("x"),
        "set_variables": [],
        "set_string_variables": [],
        "uploaded_templated_spec": None,
    }
    return send(world, actor, "POST", f"api/pool/{pool}/workflow", body, {"priority": "LOW"}).status_code


# ---------------------------------------------------------------- tokens


@pytest.mark.parametrize("actor", ["tom", "ada", "nina"])
def test_a_token_is_set_listed_and_deleted(world: TwoTeams, actor: str) -> None:
    token = set_token(world, actor, "ci", description="for the builds")
    assert said(as_holder(world, token), "holder", "GET", "api/profile/settings")["profile"]["username"] == actor
    listed = tokens(world, actor)
    assert set(listed) == {"laptop", "ci"}
    assert listed["ci"].pop("expires_at").startswith(LATER)
    assert listed["ci"] == {
        "user_name": actor,
        "token_name": "ci",
        "description": "for the builds",
        "roles": {"tom": ["osmo-team-user"], "ada": ["osmo-admin"], "nina": []}[actor],
    }
    assert said(world, actor, "DELETE", "api/auth/access_token/ci") is None
    assert set(tokens(world, actor)) == {"laptop"}
    assert refused(as_holder(world, token), "holder", "GET", "api/profile/settings")[0] == 401
    status, message = refused(world, actor, "DELETE", "api/auth/access_token/ci")
    assert (status, message) == (404, f"unknown token 'ci' of {actor} (tokens: laptop)")


def test_roles_of_a_token_show_who_granted_them(still: TwoTeams) -> None:
    answer = said(still, "tom", "GET", "api/auth/access_token/laptop/roles")
    fits(answer, {"user_name": str, "token_name": str, "roles": [ROLE]})
    assert (answer["user_name"], answer["token_name"]) == ("tom", "laptop")
    assert [(each["role_name"], each["assigned_by"]) for each in answer["roles"]] == [("osmo-team-user", "ada")]
    assert said(still, "nina", "GET", "api/auth/access_token/laptop/roles")["roles"] == []
    assert refused(still, "tom", "GET", "api/auth/access_token/no/roles")[0] == 404


def test_token_that_never_expires_is_listed_with_a_day(world: TwoTeams) -> None:
    world.api.desk.service.access.tokens.create("tom", "forever", None, actor="tom")
    assert tokens(world, "tom")["forever"]["expires_at"] == "9999-12-31T00:00:00"


def test_token_grants_only_the_roles_that_it_was_created_with(world: TwoTeams) -> None:
    said(world, "ada", "POST", "api/auth/user/tom/roles", {"role_name": "osmo-team2-user"})
    holder = as_holder(world, set_token(world, "tom", "narrow", roles=["osmo-team2-user"]))
    assert tokens(world, "tom")["narrow"]["roles"] == ["osmo-team2-user"]
    assert (submits(holder, "holder", "team2"), submits(holder, "holder", "team")) == (200, 404)
    assert said(holder, "holder", "GET", "api/profile/settings")["roles"] == ["osmo-team2-user"]
    again = as_holder(world, set_token(holder, "holder", "child"))
    assert submits(again, "holder", "team") == 404
    ours = holder.send("holder", "POST", "/api/v1/tokens", {"name": "ours"}).json()["token"]
    assert submits(as_holder(world, ours), "holder", "team") == 404
    status, message = refused(
        holder, "holder", "POST", "api/auth/access_token/wide", None, expires_at=LATER, roles=["team-user"]
    )
    assert (status, message.partition(" (")[0]) == (
        422,
        "tom does not have the role team-user, so a token cannot grant it",
    )
    said(world, "ada", "DELETE", "api/auth/user/tom/roles/osmo-team2-user")
    assert submits(holder, "holder", "team2") == 404
    said(world, "ada", "POST", "api/auth/user/tom/roles", {"role_name": "admin"})
    assert said(holder, "holder", "GET", "api/profile/settings")["roles"] == []


def test_admin_manages_tokens_of_other_users(world: TwoTeams) -> None:
    token = set_token(world, "ada", "robot", user="tom", roles=["osmo-team-user"])
    assert said(as_holder(world, token), "holder", "GET", "api/profile/settings")["profile"]["username"] == "tom"
    answer = said(world, "ada", "GET", "api/auth/user/tom/access_token")
    fits(answer, [TOKEN])
    assert sorted(each["token_name"] for each in answer) == ["laptop", "robot"]
    assert said(world, "ada", "DELETE", "api/auth/user/tom/access_token/robot") is None
    assert set(tokens(world, "tom")) == {"laptop"}
    assert refused(world, "ada", "GET", "api/auth/user/nobody/access_token")[0] == 404


@pytest.mark.parametrize(
    ("name", "params", "words"),
    [
        ("a", {"expires_at": "tomorrow"}, "invalid day 'tomorrow'"),
        ("a", {"expires_at": "2020-01-31"}, "2020-01-31 has already begun"),
        ("a", {"expires_at": "9999-12-31"}, "9999-12-31 is too late: a token ends on "),
        ("a", {"expires_at": LATER, "description": "a" * 201}, "invalid description"),
        ("a", {"expires_at": LATER, "description": "a\nb"}, "invalid description"),
        ("a", {"expires_at": LATER, "roles": ["boss"]}, "'boss' is not a role"),
        ("-a", {"expires_at": LATER}, "token name '-a' must be"),
        ("a", {}, "expires_at is missing"),
    ],
)
def test_invalid_token_request_is_refused_with_a_message(
    still: TwoTeams, name: str, params: dict[str, Any], words: str
) -> None:
    status, message = refused(still, "tom", "POST", f"api/auth/access_token/{name}", None, **params)
    assert (status, message[: len(words)]) == (422, words)
    assert set(tokens(still, "tom")) == {"laptop"}


def test_day_means_its_start_in_utc(world: TwoTeams) -> None:
    now = datetime.fromtimestamp(world.api.desk.service.access.now(), UTC)
    assert refused(world, "tom", "POST", "api/auth/access_token/a", None, expires_at=f"{now:%Y-%m-%d}")[0] == 422
    tomorrow = f"{now + timedelta(days=1):%Y-%m-%d}"
    set_token(world, "tom", "a", expires_at=tomorrow)
    assert tokens(world, "tom")["a"]["expires_at"].startswith(tomorrow)


# ---------------------------------------------------------------- users


def accounts(world: TwoTeams, **params: Any) -> list[str]:
    """As `user list` asks, and reads."""
    answer = said(world, "ada", "GET", "api/auth/user", None, **{"count": 100} | params)
    fits(answer, {"users": [ACCOUNT], "total_results": int, "start_index": int, "items_per_page": int})
    assert answer["items_per_page"] == len(answer["users"])
    return [each["id"] for each in answer["users"]]


def roles_of(world: TwoTeams, user: str) -> list[str]:
    """As `user get` reads them."""
    answer = said(world, "ada", "GET", f"api/auth/user/{user}")
    fits(answer, {**ACCOUNT, "roles": [ROLE]})
    return [each["role_name"] for each in answer["roles"]]


@pytest.mark.parametrize(
    ("filters", "users"),
    [
        ({}, ["ada", "nina", "tess", "tina", "tom", "uwe", "vera"]),
        ({"id_prefix": "t"}, ["tess", "tina", "tom"]),
        ({"id_prefix": "x"}, []),
        ({"roles": ["osmo-team-user"]}, ["tess", "tom"]),
        ({"roles": ["osmo-admin", "viewer"]}, ["ada", "vera"]),
        ({"roles": ["osmo-team-user"], "id_prefix": "to"}, ["tom"]),
        ({"count": 2}, ["ada", "nina"]),
        ({"count": 2, "start_index": 3}, ["tess", "tina"]),
    ],
)
def test_every_user_filter_works(still: TwoTeams, filters: dict[str, Any], users: list[str]) -> None:
    assert accounts(still, **filters) == users


def test_user_is_created_with_roles_under_both_names(world: TwoTeams) -> None:
    answer = said(
        world, "ada", "POST", "api/auth/user", {"id": "zoe@example.com", "roles": ["osmo-team-user", "team2-admin"]}
    )
    fits(answer, ACCOUNT)
    assert roles_of(world, "zoe@example.com") == ["osmo-team-user", "osmo-team2-admin"]
    said(world, "ada", "POST", "api/auth/user", {"id": "zac"})
    assert roles_of(world, "zac") == []
    assert refused(world, "ada", "POST", "api/auth/user", {"id": "tom"})[0] == 409
    assert refused(world, "ada", "POST", "api/auth/user", {"id": "new", "roles": ["osmo-nowhere-user"]})[0] == 404
    assert refused(world, "ada", "POST", "api/auth/user", {"id": "new", "roles": ["boss"]})[0] == 422
    assert "new" not in accounts(world)
    assert said(world, "ada", "GET", "api/auth/user", None, count=1, id_prefix="z")["total_results"] == 2


def test_roles_are_granted_and_revoked_one_by_one(world: TwoTeams) -> None:
    answer = said(world, "ada", "POST", "api/auth/user/tom/roles", {"role_name": "osmo-user"})
    fits(answer, {**ROLE, "user_id": str})
    assert roles_of(world, "tom") == ["osmo-team-user", "osmo-user"]
    assert said(world, "ada", "DELETE", "api/auth/user/tom/roles/osmo-team-user") is None
    assert roles_of(world, "tom") == ["osmo-user"]
    assert [str(each) for each in world.api.desk.service.access.users.get("tom").grants] == ["user"]
    assert refused(world, "ada", "DELETE", "api/auth/user/tom/roles/osmo-team-user")[0] == 404
    assert refused(world, "ada", "POST", "api/auth/user/nobody/roles", {"role_name": "osmo-user"})[0] == 404


def test_deleted_user_has_no_roles_or_tokens_and_can_be_created_again(world: TwoTeams) -> None:
    assert said(world, "ada", "DELETE", "api/auth/user/tom") is None
    assert "tom" not in accounts(world)
    assert refused(world, "ada", "GET", "api/auth/user/tom")[0] == 404
    assert refused(world, "ada", "DELETE", "api/auth/user/tom")[0] == 404
    assert refused(world, "tom", "GET", "api/profile/settings")[0] == 401
    said(world, "ada", "POST", "api/auth/user", {"id": "tom", "roles": ["osmo-team2-user"]})
    assert roles_of(world, "tom") == ["osmo-team2-user"]
    assert refused(world, "tom", "GET", "api/profile/settings")[0] == 401
    assert said(world, "ada", "GET", "api/auth/user/tom/access_token") == []
    trail = [(each.what.value, each.subject) for each in world.api.desk.service.access.events(user="tom", limit=6)]
    assert trail == [
        ("role granted", "team2-user"),
        ("user enabled", ""),
        ("credential deleted", "spare"),
        ("role revoked", "team-user"),
        ("token revoked", "laptop"),
        ("user disabled", ""),
    ]


def test_role_that_both_apis_would_read_differently_is_refused(world: TwoTeams) -> None:
    made = world.send("ada", "POST", "/api/v1/pools", {"name": "osmo", "quota": 0})
    assert made.status_code == 201, made.text
    status, message = refused(world, "ada", "POST", "api/auth/user/tom/roles", {"role_name": "osmo-admin"})
    assert (status, message.rpartition(". ")[2]) == (422, "Use 'admin' or 'osmo-osmo-admin'")
    said(world, "ada", "POST", "api/auth/user/tom/roles", {"role_name": "osmo-osmo-admin"})
    assert roles_of(world, "tom") == ["osmo-osmo-admin", "osmo-team-user"]
