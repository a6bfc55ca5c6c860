"""No way in without the token."""

import base64
import json
import time
from collections.abc import Iterator
from typing import Any

import jwt
import pytest

from tests.attack.target import TREASURE, Target, refused, up
from tests.attack.wire import Answer
from tests.patience import until

SIGN_IN = [f"/api/v1/sign-in{each}" for each in ("", "/code", "/device", "/device/token", "/renewal")]
OPEN = (
    "/healthz",
    "/readyz",
    "/api/auth/login",
    "/api/auth/jwt/access_token",
    "/api/auth/oidc/device",
    "/api/auth/oidc/token",
    *SIGN_IN,
)
NOT_BY_NAME = (
    "the request has no token, and `login --method dev` is not enabled on this server. Instead, "
    "log in with a token: `login URL --method token --token-file FILE`"
)
VALUES = {"pool": "team2", "name": "team", "parent": "team", "subpool": "a", "id": "treasure-1", "user": "ann"}


def _unsigned(claims: dict[str, object]) -> str:
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
        for part in ({"alg": "none", "typ": "JWT"}, claims)
    ]
    return ".".join([*parts, ""])


def credentials(token: str) -> list[list[tuple[str, str]]]:
    """Headers that must not open anything."""
    claims = {"sub": "admin", "roles": ["admin"], "exp": int(time.time()) + 300, "iat": int(time.time())}
    values = [
        "",
        "Bearer",
        "Bearer ",
        f"Bearer {token[:-1]}",
        f"Bearer {token}A",
        f"Bearer {token.swapcase()}",
        f"Bearer {token}, Bearer {token}",
        f"Basic {base64.b64encode(f'admin:{token}'.encode()).decode()}",
        f"Digest {token}",
        token,
        f"Bearer {_unsigned(claims)}",
        f"Bearer {_unsigned(claims)}x",
        f"Bearer {jwt.encode(claims, 'a wrong key of thirty-two bytes!', algorithm='HS256')}",
        f"Bearer {jwt.encode(claims, '', algorithm='none')}",
        "Bearer null",
        "Bearer undefined",
        "Bearer ' OR '1'='1",
        "Bearer *",
        "Bearer \u00e9\u4e2d",
        f"Bearer {'x' * 20_000}",
    ]
    many = [[("Authorization", value)] for value in values]
    twice = [("Authorization", "Bearer wrong"), ("Authorization", f"Bearer {token}")]
    elsewhere = [
        [("Cookie", f"token={token}; Authorization=Bearer {token}")],
        [("X-Authorization", f"Bearer {token}")],
        [("Proxy-Authorization", f"Bearer {token}")],
        [("x-osmo-user", "admin"), ("x-osmo-roles", "osmo-admin"), ("x-osmo-auth", token)],
        [("X-Forwarded-User", "admin"), ("X-Remote-User", "admin"), ("X-Forwarded-For", "127.0.0.1")],
    ]
    return [[], *many, twice, twice[::-1], *elsewhere]


def operations(target: Target) -> list[tuple[str, str]]:
    """Every method and path of the server, with names in it that are there."""
    paths = target.ok("GET", "/openapi.json")["paths"]
    found = [(method.upper(), path) for path, methods in paths.items() for method in methods if path not in OPEN]
    return [(method, path.format_map(_Names())) for method, path in found]


class _Names(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return VALUES.get(name, "x")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """A server of its own: it turns people away differently who fail too often, and here they shall be told each time."""
    with up(tmp_path_factory.mktemp("tokens")) as target:
        yield target


def _somewhere(number: int) -> str:
    """An address that nobody failed from yet."""
    return f"127.1.{number // 250}.{number % 250 + 1}"


def turned_away(
    target: Target, method: str, path: str, headers: list[tuple[str, str]], body: object, source: str
) -> tuple[Answer, dict[str, Any]]:
    """The 401 and what it says.  The server bears only so many failures a second, whoever they are from: then it says 429."""
    answers: list[Answer] = []

    def told() -> bool:
        answers.append(target.ask(method, path, headers=headers, body=body, source=source))
        return answers[-1].status != 429

    until(told)
    return answers[-1], refused(target, answers[-1], 401)


def test_every_route_refuses_missing_and_wrong_tokens(target: Target) -> None:
    host = ("Host", f"127.0.0.1:{target.port}")
    body = {"file": TREASURE, "quota": 1, "name": "x"}
    forged = _unsigned({"sub": "admin", "exp": int(time.time()) + 300})
    for number, (method, path) in enumerate(operations(target)):
        for headers in ([], [("Authorization", f"Bearer {forged}")]):
            answer, _ = turned_away(target, method, path, [host, *headers], body, _somewhere(number))
            assert answer.headers["connection"] == "close"


@pytest.mark.parametrize("number", range(28))
def test_text_that_resembles_a_token_is_refused(target: Target, number: int) -> None:
    tried = credentials(target.tokens["admin"])
    assert len(tried) == 28
    host = ("Host", f"127.0.0.1:{target.port}")
    for method, path, body in (
        ("GET", "/api/workflow/treasure-1/spec", None),
        ("POST", "/api/pool/team/workflow", {"file": TREASURE}),
        ("DELETE", "/api/configs/pool/zebra", None),
        ("GET", "/api/v1/workflows/treasure-1/spec", None),
        ("POST", "/api/v1/workflows", {"pool": "team", "file": TREASURE}),
        ("GET", "/api/v1/events/stream", None),
    ):
        headers = [host, *tried[number]]
        answer, said = turned_away(target, method, path, headers, body, _somewhere(1000 + number))
        assert answer.headers["www-authenticate"] == "Bearer"
        assert said["message"] in (
            "the token is missing or invalid. Send the header 'Authorization: Bearer TOKEN'",
            NOT_BY_NAME if any(name == "x-osmo-user" for name, _ in tried[number]) else None,
        )


def test_token_in_the_url_is_ignored(target: Target) -> None:
    token = target.tokens["admin"]
    for query in (f"token={token}", f"access_token={token}", f"Authorization=Bearer%20{token}"):
        refused(target, target.ask("GET", f"/api/workflow?{query}", user=None), 401)


def test_open_paths_reveal_almost_nothing(target: Target) -> None:
    for path, said in (("/healthz", {"status": "ok"}), ("/readyz", {"status": "ready"})):
        assert target.ask("GET", path, user=None).json == said
        refused(target, target.ask("POST", path, user=None, body={}), 401, 405)
    refused(target, target.ask("GET", "/api/auth/login", user=None), 404)


@pytest.mark.parametrize(
    "body", [None, {}, [], "x", {"refresh_token": "x"}, {"token": ["x"]}, {"token": None}, b"token=x", b"\xff"]
)
def test_login_of_the_osmo_client_requires_a_token(target: Target, body: object) -> None:
    address = _somewhere(2000 + len(repr(body)))
    for query in ("", "?access_token=x", "?refresh_token=" + "x" * 1000):
        answer = target.ask("POST", f"/api/auth/jwt/access_token{query}", user=None, body=body, source=address)
        refused(target, answer, 400, 401, 403, 422)
