"""Users, roles, tokens and the login over HTTP: the real application on a real service."""

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.api.client import TOKEN, URL, Api, api
from tests.worlds.service import one_task

WRONG = {
    "message": "the token is missing or invalid. Send the header 'Authorization: Bearer TOKEN'",
    "error_code": "FORBIDDEN",
    "details": {},
}


def made(it: Api, user: str, *roles: str) -> str:
    """The token of a new user."""
    it.call("POST", "/api/v1/users", {"name": user, "roles": list(roles)})
    return str(it.call("POST", f"/api/v1/users/{user}/tokens", {"name": "t"})["token"])


def asked(it: Api, bearer: str, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    answer = it.http.request(method, path, json=body, headers={"Authorization": f"Bearer {bearer}", **headers})
    return answer.status_code, answer.json() if answer.content else None


def test_admin_creates_and_removes_a_user_a_token_and_a_role(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        assert it.get("/api/v1/users")["items"] == []
        bob = it.call("POST", "/api/v1/users", {"name": "bob", "roles": ["pool1-user"]})
        assert (bob["name"], bob["roles"], bob["disabled"]) == ("bob", ["pool1-user"], False)
        token = it.call("POST", "/api/v1/users/bob/tokens", {"name": "laptop", "expires_in_s": 60})
        shown = {name: value for name, value in token.items() if name != "token"}
        assert it.get("/api/v1/users/bob/tokens")["items"] == [shown]
        assert (shown["name"], shown["user"], shown["state"]) == ("laptop", "bob", "good")
        assert it.call("POST", "/api/v1/roles", {"user": "bob", "role": "viewer"})["role"] == "viewer"
        assert it.get("/api/v1/users/bob")["roles"] == ["pool1-user", "viewer"]
        assert [(each["user"], each["role"], each["pool"]) for each in it.get("/api/v1/roles")["items"]] == [
            ("bob", "pool1-user", "pool1"),
            ("bob", "viewer", None),
        ]
        it.call("DELETE", "/api/v1/roles/bob/viewer")
        assert it.get("/api/v1/users/bob")["roles"] == ["pool1-user"]
        assert asked(it, token["token"], "GET", "/api/profile/settings") == (
            200,
            {
                "profile": {
                    "username": "bob",
                    "email_notification": False,
                    "slack_notification": False,
                    "pool": "pool1",
                },
                "roles": ["osmo-pool1-user"],
                "pools": ["pool1"],
                "token": {"name": "laptop", "expires_at": shown["expires_at"].removesuffix("Z")},
            },
        )
        assert it.call("DELETE", "/api/v1/users/bob/tokens/laptop")["state"] == "revoked"
        assert asked(it, token["token"], "GET", "/api/version") == (401, WRONG)
        assert it.get("/api/v1/users/bob/tokens")["items"] == []
        assert [each["state"] for each in it.get("/api/v1/users/bob/tokens", ended=True)["items"]] == ["revoked"]
        assert it.call("PATCH", "/api/v1/users/bob", {"disabled": True})["disabled"] is True
        assert [(each["number"], each["actor"], each["what"]) for each in it.get("/api/v1/access-events")["items"]] == [
            (7, "ann", "user disabled"),
            (6, "ann", "token revoked"),
            (5, "ann", "role revoked"),
            (4, "ann", "role granted"),
            (3, "ann", "token created"),
            (2, "ann", "role granted"),
            (1, "ann", "user created"),
        ]
        page = it.get("/api/v1/access-events", limit=3, user="bob")
        assert [each["number"] for each in page["items"]] == [7, 6, 5]
        page = it.get("/api/v1/access-events", limit=4, cursor=page["next_cursor"])
        assert ([each["number"] for each in page["items"]], page["next_cursor"]) == ([4, 3, 2, 1], None)


def test_users_see_only_their_own_tokens(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        bob, _carl = made(it, "bob", "pool1-user"), made(it, "carl", "pool1-admin")
        status, second = asked(it, bob, "POST", "/api/v1/tokens", {"name": "ci"})
        assert (status, second["user"], second["state"]) == (201, "bob", "good")
        assert [each["name"] for each in asked(it, bob, "GET", "/api/v1/tokens")[1]["items"]] == ["t", "ci"]
        assert asked(it, second["token"], "DELETE", "/api/v1/tokens/t")[0] == 200
        assert asked(it, bob, "GET", "/api/v1/tokens")[0] == 401
        before = it.get("/api/v1/access-events")
        for method, path, body in (
            ("GET", "/api/v1/users", None),
            ("POST", "/api/v1/users", {"name": "eve"}),
            ("GET", "/api/v1/users/carl", None),
            ("PATCH", "/api/v1/users/carl", {"disabled": True}),
            ("GET", "/api/v1/users/carl/tokens", None),
            ("POST", "/api/v1/users/carl/tokens", {"name": "x"}),
            ("POST", "/api/v1/users/bob/tokens", {"name": "x"}),
            ("DELETE", "/api/v1/users/carl/tokens/t", None),
            ("GET", "/api/v1/roles", None),
            ("POST", "/api/v1/roles", {"user": "bob", "role": "admin"}),
            ("DELETE", "/api/v1/roles/carl/pool1-admin", None),
            ("GET", "/api/v1/access-events", None),
        ):
            status, answer = asked(it, second["token"], method, path, body)
            assert (status, answer["code"], method, path) == (403, "FORBIDDEN", method, path)
        assert asked(it, second["token"], "DELETE", "/api/v1/tokens/nope")[0] == 404
        assert it.get("/api/v1/access-events") == before


def test_user_of_up_is_admin_and_can_create_tokens(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        assert it.get("/api/profile/settings")["profile"]["username"] == "ann"
        own = it.call("POST", "/api/v1/tokens", {"name": "phone"})
        assert asked(it, own["token"], "GET", "/api/v1/users")[1]["items"][0]["roles"] == ["admin"]
        assert it.get("/api/v1/tokens")["items"][0]["name"] == "phone"


def test_user_of_up_can_act_as_another_user_with_their_permissions(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        other = it.submit(one_task("other"), "pool2")["name"]
        una = it.named("una", "pool1-user")

        def as_una(method: str, path: str, body: Any = None) -> tuple[int, Any]:
            return asked(it, TOKEN, method, path, body, **una)

        assert as_una("POST", "/api/pool/pool1/workflow", {"file": one_task("own")})[0] == 200
        assert it.get("/api/workflow/own-1")["submitted_by"] == "una"
        profile = as_una("GET", "/api/profile/settings")[1]
        assert (profile["profile"]["username"], profile["roles"], profile["pools"]) == (
            "una",
            ["osmo-pool1-user"],
            ["pool1"],
        )
        assert as_una("POST", "/api/pool/pool2/workflow", {"file": one_task("x")})[0] == 404
        assert as_una("GET", f"/api/workflow/{other}")[0] == 404
        assert as_una("POST", f"/api/workflow/{other}/cancel")[0] == 404
        assert as_una("PATCH", "/api/configs/pool/pool1", {"configs_dict": {"description": "x"}})[0] == 403
        assert as_una("GET", "/api/auth/user")[0] == 403
        assert as_una("POST", "/api/auth/access_token/t?expires_at=2030-01-01")[0] == 403
        assert as_una("GET", "/api/v1/users")[0] == 200, "our own door does not believe the header"
        it.call("DELETE", "/api/auth/user/una/roles/osmo-pool1-user")
        assert as_una("POST", "/api/pool/pool1/workflow", {"file": one_task("x")})[0] == 404


def test_unknown_and_disabled_users_cannot_be_impersonated(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        it.named("una")
        it.call("DELETE", "/api/auth/user/una")
        for name in ("una", "nobody", "a\x7fb", "una, una", "x" * 300):
            status, answer = asked(it, TOKEN, "GET", "/api/workflow", **{"x-osmo-user": name})
            assert (status, answer["message"]) == (
                403,
                f"x-osmo-user names {name!r:.80}, who is not a user of this server, or is disabled. "
                "To add a user: `runrig user create NAME`",
            )
        assert asked(it, TOKEN, "GET", "/api/workflow", **{"x-osmo-user": "ann"})[0] == 200


def test_header_selects_the_user_only_for_the_user_of_up(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        bob = made(it, "bob", "pool1-user")
        it.named("carl")
        headers = {"x-osmo-user": "carl", "x-osmo-roles": "admin", "x-osmo-allowed-pools": "pool2"}
        for name, bearer in (("carl", TOKEN), ("bob", bob)):
            body = {"file": one_task("a")}
            status, answer = asked(it, bearer, "POST", "/api/pool/pool1/workflow", body, **headers)
            assert status == 200, answer
            assert it.get(f"/api/workflow/{answer['name']}")["submitted_by"] == name
        status, answer = asked(it, bob, "GET", "/api/profile/settings", **headers)
        assert (answer["profile"]["username"], answer["roles"], answer["pools"]) == (
            "bob",
            ["osmo-pool1-user"],
            ["pool1"],
        )
        assert asked(it, bob, "GET", "/api/v1/users", **headers)[0] == 403


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("POST", "/api/v1/users", {"name": "b b"}, 422, "user name 'b b' must be letters"),
        ("POST", "/api/v1/users", {"name": "x", "roles": ["boss"]}, 422, "'boss' is not a role"),
        ("POST", "/api/v1/users", {"name": "x", "roles": ["pool9-user"]}, 404, "unknown pool 'pool9'"),
        ("POST", "/api/v1/users", {"name": "bob"}, 409, "user bob already exists"),
        ("GET", "/api/v1/users/eve", None, 404, "user 'eve' not found"),
        ("PATCH", "/api/v1/users/eve", {"disabled": True}, 404, "user 'eve' not found"),
        ("POST", "/api/v1/users/eve/tokens", {"name": "x"}, 404, "user 'eve' not found"),
        ("POST", "/api/v1/users/bob/tokens", {"name": "t"}, 409, "bob already has a token 't'"),
        ("POST", "/api/v1/users/bob/tokens", {"name": "x", "expires_in_s": 0}, 422, "invalid token lifetime 0 s"),
        (
            "POST",
            "/api/v1/users/bob/tokens",
            {"name": "x", "expires_in_s": 8_639_913_600.0},
            422,
            "invalid token lifetime 8639913600 s. Use more than 0 and at most 316224000 s (3660 days), or never",
        ),
        (
            "POST",
            "/api/v1/users/bob/tokens",
            {"name": "x", "expires_in_s": "soon"},
            422,
            "expires_in_s: invalid value 'soon'",
        ),
        ("POST", "/api/v1/users/bob/tokens", {"name": "x", "hash": "y"}, 422, "unknown field 'hash'"),
        ("DELETE", "/api/v1/users/bob/tokens/x", None, 404, "unknown token 'x' of bob (tokens: t"),
        ("POST", "/api/v1/roles", {"user": "eve", "role": "admin"}, 404, "user 'eve' not found"),
        ("DELETE", "/api/v1/roles/bob/viewer", None, 404, "user bob does not have the role viewer"),
        ("DELETE", "/api/v1/roles/bob/boss", None, 422, "'boss' is not a role"),
        ("POST", "/api/v1/users", {"name": "engine"}, 422, "user name 'engine' is reserved"),
    ],
)
def test_invalid_requests_are_reported_and_change_nothing(
    tmp_path: Path, method: str, path: str, body: Any, status: int, message: str
) -> None:
    with api(tmp_path) as it:
        made(it, "bob", "pool1-user")
        before = (it.get("/api/v1/users"), it.get("/api/v1/roles"), it.get("/api/v1/access-events"))
        answered, answer = it.error(method, path, body)
        assert (answered, answer["message"][: len(message)]) == (status, message)
        assert (it.get("/api/v1/users"), it.get("/api/v1/roles"), it.get("/api/v1/access-events")) == before


# ---------------------------------------------------------------- the osmo client


def test_osmo_client_logs_in_with_a_token_and_continues_with_a_jwt(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        bob = made(it, "bob", "pool1-user")
        client = TestClient(it.http.app, base_url=URL)
        other = client.get("/api/auth/login")
        assert (other.status_code, other.json()["message"]) == (
            404,
            "this method is not available. Instead, log in with a token: `login URL --method token --token-file FILE`",
        )
        for token, name in ((bob, "bob"), (TOKEN, "ann")):
            answer = client.post("/api/auth/jwt/access_token", json={"token": token})
            assert (answer.status_code, answer.json()["error"]) == (200, None)
            jwt = answer.json()["token"]
            assert asked(it, jwt, "GET", "/api/profile/settings")[1]["profile"]["username"] == name
        refused = client.post("/api/auth/jwt/access_token", json={"token": "x" * 43})
        assert (refused.status_code, refused.json()) == (401, WRONG)
        assert refused.headers["www-authenticate"] == "Bearer"
        client.close()


def test_page_of_another_site_cannot_use_the_login(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        for headers in ({"Origin": "https://evil.example"}, {"Host": "evil.example"}):
            answer = it.http.post("/api/auth/jwt/access_token", json={"token": TOKEN}, headers=headers)
            assert answer.status_code == 403


def test_excess_failed_logins_get_a_retry_time_and_valid_tokens_still_work(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        bob = made(it, "bob")
        answers = [it.http.get("/api/version", headers={"Authorization": f"Bearer {at}"}) for at in range(12)]
        assert [each.status_code for each in answers] == [401] * 10 + [429] * 2
        assert answers[-1].headers["retry-after"] == str(answers[-1].json()["details"]["retry_after_s"])
        assert answers[-1].json()["error_code"] == "UNAVAILABLE"
        login = it.http.post("/api/auth/jwt/access_token", json={"token": "wrong"})
        assert (login.status_code, "retry-after" in login.headers) == (429, True)
        assert asked(it, bob, "GET", "/api/version")[0] == 200
        assert it.http.get("/api/version", headers={"Authorization": ""}).status_code == 401


@pytest.mark.parametrize("extra", [{}, {"Authorization": "Bearer x"}])
def test_duplicate_header_counts_as_none(tmp_path: Path, extra: dict[str, str]) -> None:
    with api(tmp_path) as it:
        headers = [("Authorization", f"Bearer {TOKEN}"), ("Authorization", f"Bearer {TOKEN}"), *extra.items()]
        client = TestClient(it.http.app, base_url=URL)
        assert client.get("/api/version", headers=headers).status_code == 401
        client.close()
