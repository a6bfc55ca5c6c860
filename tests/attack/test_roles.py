"""With a good token of somebody: no further than the role goes, on a real `runrig serve`."""

import base64
import itertools
import json
import sqlite3
import time
from collections.abc import Iterator

import jwt
import pytest

from tests.attack.target import CANARY, TREASURE, Target, refused, serve
from tests.attack.test_tokens import operations
from tests.patience import until

SECRET_NAMES = [b"treasure", b"team2", b"zebra", CANARY.encode()]
"""What nobody of team may read in an answer."""
FREE = ("/api/v1/tokens", "/api/v1/browser-codes", "/api/v1/me", "/api/auth", "/api/profile")
"""About oneself, or open."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with serve(tmp_path_factory.mktemp("roles")) as target:
        yield target


def _bearer(target: Target, token: str) -> list[tuple[str, str]]:
    return [*target.headers(None), ("Authorization", f"Bearer {token}")]


# ---------------------------------------------------------------- tokens that are no longer valid


_addresses = (f"127.6.{number // 250}.{number % 250 + 1}" for number in itertools.count())


def _is_out(target: Target, token: str) -> None:
    address = next(_addresses)  # an address without failed attempts
    for method, path in (("GET", "/api/pool"), ("POST", "/api/pool/team/workflow")):
        headers = _bearer(target, token)
        answer = target.ask(method, path, headers=headers, body={"file": TREASURE}, source=address)
        refused(target, answer, 401)


def _exchanged(target: Target, token: str) -> str:
    answer = target.ask("POST", "/api/auth/jwt/access_token", user=None, body={"token": token})
    assert answer.status == 200, answer
    return str(answer.json["token"])


def test_expired_token_and_its_jwt_do_not_work(target: Target) -> None:
    made = target.ok("POST", "/api/v1/users/ann/tokens", {"name": "short", "expires_in_s": 5})
    headers = _bearer(target, made["token"])
    short = _exchanged(target, made["token"])
    until(lambda: target.ask("GET", "/api/pool", headers=headers).status != 200)
    _is_out(target, made["token"])
    _is_out(target, short)


def test_revoked_token_and_its_jwt_do_not_work(target: Target) -> None:
    token = target.ok("POST", "/api/v1/tokens", {"name": "lost"}, user="ann")["token"]
    short = _exchanged(target, token)
    assert target.ask("GET", "/api/pool", headers=_bearer(target, short)).status == 200
    target.ok("DELETE", "/api/v1/tokens/lost", user="ann")
    _is_out(target, token)
    _is_out(target, short)


def test_disabled_user_and_revoked_role_lose_access_immediately(shared: Target) -> None:
    shared.ok("POST", "/api/v1/users", {"name": "gone", "roles": ["team-user"]})
    token = shared.ok("POST", "/api/v1/users/gone/tokens", {"name": "t"})["token"]
    short = _exchanged(shared, token)
    assert list(shared.ask("GET", "/api/pool", headers=_bearer(shared, short)).json["pools"]) == [
        "team",
        "team--a",
        "team--b",
    ]
    shared.ok("DELETE", "/api/v1/roles/gone/team-user")
    for each in (token, short):
        assert shared.ask("GET", "/api/pool/team/workflow", headers=_bearer(shared, each)).status in (404, 405)
        answer = shared.ask("POST", "/api/pool/team/workflow", headers=_bearer(shared, each), body={"file": TREASURE})
        refused(shared, answer, 403, 404)
    shared.ok("PATCH", "/api/v1/users/gone", {"disabled": True})
    _is_out(shared, token)
    _is_out(shared, short)


def test_tampered_jwt_is_rejected(target: Target) -> None:
    short = _exchanged(target, target.tokens["ann"])
    head, claims, signature = short.split(".")
    said = json.loads(base64.urlsafe_b64decode(claims + "=="))
    admin = said | {"name": "admin", "roles": ["admin"]}

    def packed(part: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()

    with sqlite3.connect(f"file:{target.data / 'runrig.db'}?mode=ro", uri=True) as database:
        ((key,),) = database.execute("SELECT value FROM secrets").fetchall()
    forged = [
        f"{packed({'alg': 'none', 'typ': 'JWT'})}.{claims}.",
        f"{packed({'alg': 'None'})}.{packed(admin)}.",
        f"{packed({'alg': 'nOnE'})}.{packed(admin)}.{signature}",
        f"{head}.{packed(admin)}.{signature}",
        f"{head}.{claims}.",
        f"{head}.{claims}.{signature[::-1]}",
        f"{packed({'alg': 'HS256', 'jwk': {'kty': 'oct', 'k': 'AA'}})}.{packed(admin)}.{signature}",
        f"{packed({'alg': 'HS256', 'kid': '../../dev/null'})}.{packed(admin)}.{signature}",
        jwt.encode(admin, "x" * 32, algorithm="HS256"),
        jwt.encode(said, "x" * 64, algorithm="HS512"),
        jwt.encode(said, key.encode()[:16] * 4, algorithm="HS256"),
        # Signed with the right key, which takes a stolen database: it must still have an expiry and a user.
        jwt.encode(said | {"exp": int(time.time()) - 1}, key, algorithm="HS256"),
        jwt.encode({name: value for name, value in said.items() if name != "exp"}, key, algorithm="HS256"),
        jwt.encode(said | {"exp": "9" * 20}, key, algorithm="HS256"),
        jwt.encode(said | {"exp": True}, key, algorithm="HS256"),
        jwt.encode(said | {"jti": "admin"}, key, algorithm="HS256"),
        jwt.encode(said | {"jti": ["x"]}, key, algorithm="HS256"),
        "..",
        "a.b.c",
        "." * 5000,
    ]
    for number, token in enumerate(forged):
        answer = target.ask("GET", "/api/v1/users", headers=_bearer(target, token), source=f"127.5.0.{number + 1}")
        assert refused(target, answer, 401)["message"].startswith("the token is missing or invalid"), token
    # If a signed token claims the role of an administrator, its user's roles still decide.
    promoted = jwt.encode(admin, key, algorithm="HS256")
    refused(target, target.ask("GET", "/api/v1/users", headers=_bearer(target, promoted)), 403)


def test_jwt_of_another_server_is_rejected(target: Target, tmp_path_factory: pytest.TempPathFactory) -> None:
    with serve(tmp_path_factory.mktemp("elsewhere")) as other:
        foreign = _exchanged(other, other.tokens["admin"])
        _is_out(target, foreign)
        _is_out(target, other.tokens["admin"])
        refused(other, other.ask("POST", "/api/auth/jwt/access_token", user=None, body={"token": foreign}), 401)


# ---------------------------------------------------------------- no more than the role allows


@pytest.mark.parametrize("user", ["ann", "tim", "nobody"])
def test_no_response_names_a_hidden_object(target: Target, user: str) -> None:
    """Every route that there is, asked about the own pool and with every switch that could widen it."""
    for method, path in operations(target):
        if method != "GET" or path.endswith("/stream"):  # which never ends
            continue
        own = path.replace("treasure-1", "nothing-1").replace("team2", "team")
        for query in ("", "?all_users=true&all_pools=true&verbose=true&archived=true&limit=100"):
            answer = target.ask("GET", own + query, user=user)
            assert answer.status in (200, 400, 401, 403, 404, 422), (own, answer)
            named = [name for name in SECRET_NAMES if name in answer.body]
            assert named == [], (user, own + query, answer)


@pytest.mark.parametrize("user", ["vera", "nobody"])
def test_viewer_can_change_nothing(target: Target, user: str) -> None:
    for method, path in operations(target):
        if method == "GET" or path.startswith(FREE):
            continue
        body = {"file": TREASURE, "name": "x", "quota": 1, "user": user, "role": "admin", "disabled": False}
        answer = target.ask(method, path, user=user, body=body)
        refused(target, answer, 403, 404, 422)


@pytest.mark.parametrize("user", ["tim", "ann", "eve", "vera", "nobody"])
def test_users_cannot_extend_their_own_permissions(target: Target, user: str) -> None:
    for method, path, body in (
        ("POST", "/api/v1/roles", {"user": user, "role": "admin"}),
        ("POST", "/api/v1/roles", {"user": user, "role": "zebra-admin"}),
        ("POST", "/api/v1/users", {"name": "mallory", "roles": ["admin"]}),
        ("PATCH", "/api/v1/users/admin", {"disabled": True}),
        ("POST", "/api/v1/users/admin/tokens", {"name": "mine"}),
        ("GET", "/api/v1/users/admin/tokens", None),
        ("DELETE", "/api/v1/users/admin/tokens/t", None),
        ("DELETE", f"/api/v1/roles/{user}/viewer", None),
        ("GET", "/api/v1/access-events", None),
        (
            "POST",
            "/api/v1/apply",
            {"file": f"pools: [{{name: team, quota: 16}}]\nroles: [{{user: {user}, role: admin}}]"},
        ),
        ("POST", "/api/v1/pools", {"name": "mine", "quota": 1}),
        ("PATCH", "/api/configs/pool/team", {"configs_dict": {"weight": 2}}),
        ("PUT", "/api/configs/pool", {"configs": {"team": {"weight": 2}}}),
        ("POST", "/api/v1/cohorts", {"name": "mine", "quota": 1}),
        ("POST", "/api/v1/apply", {"file": "pools: [{name: team, quota: 16}]"}),
        ("PATCH", "/api/v1/pools/team", {"quota": 16}),
    ):
        refused(target, target.ask(method, path, user=user, body=body), 403, 404)
    # A user may request more roles for their own token than they have, but the request is refused.
    for body in ({"name": "x", "user": "admin"}, {"name": "x", "roles": ["admin"]}, {"name": "t", "expires_in_s": -1}):
        refused(target, target.ask("POST", "/api/v1/tokens", user=user, body=body), 409, 422)


def test_pool_user_cannot_change_settings_or_work_of_others(shared: Target) -> None:
    id = shared.ok("POST", "/api/pool/team--a/workflow", {"file": TREASURE.replace("treasure", "ours")}, "tim")["name"]
    shared.ok("GET", f"/api/v1/workflows/{id}/wait?for=RUNNING&timeout=120")
    with shared.unharmed():
        for method, path, body in (
            ("POST", "/api/configs/pool/team/subpool", {"name": "c", "quota": 1}),
            ("PATCH", "/api/configs/pool/team/subpool/a", {"quota": 1}),
            ("DELETE", "/api/configs/pool/team/subpool/a", None),
            ("PATCH", "/api/v1/pools/team--a", {"quota": 1}),
            ("PATCH", "/api/configs/pool/team", {"configs_dict": {"description": "mine"}}),
            ("POST", f"/api/workflow/{id}/cancel", None),
        ):
            refused(shared, shared.ask(method, path, user="ann", body=body), 403)
    shared.ok("POST", f"/api/workflow/{id}/cancel", user="tim")


def test_identity_headers_are_ignored(shared: Target) -> None:
    lies = [
        ("x-osmo-user", "admin"),
        ("x-osmo-roles", "osmo-admin,admin"),
        ("x-osmo-auth", shared.tokens["ann"]),
        ("X-Forwarded-User", "admin"),
        ("X-Remote-User", "admin"),
        ("Remote-User", "admin"),
    ]
    with shared.unharmed():
        headers = [*shared.headers("ann"), *lies]
        assert shared.ask("GET", "/api/profile/settings", headers=headers).json["profile"]["username"] == "ann"
        refused(shared, shared.ask("GET", "/api/v1/users", headers=headers), 403)
        refused(shared, shared.ask("GET", "/api/v1/users", headers=[*shared.headers(None), *lies]), 401)
    text = TREASURE.replace("treasure", "mine")
    id = shared.ask("POST", "/api/pool/team/workflow", headers=headers, body={"file": text}).json["name"]
    assert shared.ok("GET", f"/api/workflow/{id}")["submitted_by"] == "ann"
    shared.ok("POST", f"/api/workflow/{id}/cancel", user="ann")
