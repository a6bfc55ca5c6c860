"""The short-lived tokens of the reference client: made for a good token, and believed only as made."""

import base64
import hmac
import json
from pathlib import Path
from typing import Any

import jwt
import pytest

from runrig.domain.access import Identity
from runrig.domain.errors import NotLoggedIn
from runrig.service.access.access import Access
from runrig.store import SqlStore
from tests.service.access.people import ELSEWHERE, People, people
from tests.worlds.service import T0


def encoded(plain: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(plain).encode()).rstrip(b"=").decode()


def signed(head: Any, claims: Any, key: str, digest: str = "sha256") -> str:
    """Signs by hand, as no library would."""
    body = f"{encoded(head)}.{encoded(claims)}"
    mark = hmac.new(key.encode(), body.encode(), digest).digest()
    return f"{body}.{base64.urlsafe_b64encode(mark).rstrip(b'=').decode()}"


def key_of(it: People) -> str:
    return it.store.access.secret("jwt", "not made")


def test_valid_token_is_exchanged_for_a_jwt_of_five_minutes(any_store: str) -> None:
    with people(any_store) as it:
        text, expires_at = it.access.authentication.exchange(it.token("bob", "team-user"), ELSEWHERE)
        id = it.access.tokens.of("bob")[0].id
        assert expires_at == T0 + 300
        assert jwt.decode(text, options={"verify_signature": False}) == {
            "exp": expires_at,
            "iat": T0,
            "jti": id,
            "name": "bob",
            "roles": ["team-user"],
        }
        assert it.ask(text) == Identity("bob", it.access.users.get("bob").grants, id)
        assert it.again().authentication.authenticate(text, ELSEWHERE).user == "bob"  # after a failover
        it.time[0] = T0 + 299.9
        assert it.ask(text).user == "bob"
        it.time[0] = T0 + 300
        with pytest.raises(NotLoggedIn):
            it.ask(text)


def test_jwt_stops_working_with_its_token_and_its_user_and_their_roles(any_store: str) -> None:
    with people(any_store) as it:
        text, _ = it.access.authentication.exchange(it.token("bob", "team-user"), ELSEWHERE)
        it.access.users.withdraw("bob", it.access.users.get("bob").grants[0], actor="root")
        assert it.ask(text).grants == ()
        it.access.users.set_disabled("bob", True, actor="root")
        with pytest.raises(NotLoggedIn):
            it.ask(text)
        it.access.users.set_disabled("bob", False, actor="root")
        it.access.tokens.revoke("bob", "t", actor="root")
        with pytest.raises(NotLoggedIn):
            it.ask(text)


def test_jwt_cannot_be_exchanged_again(tmp_path: Path) -> None:
    with people(str(tmp_path / "runrig.db")) as it:
        text, _ = it.access.authentication.exchange(it.token("bob"), ELSEWHERE)
        for wrong in (text, "", "x" * 43):
            with pytest.raises(NotLoggedIn):
                it.access.authentication.exchange(wrong, ELSEWHERE)


FORGED = (
    "alg none",
    "alg None",
    "no signature",
    "wrong key",
    "empty key",
    "HS384",
    "HS512",
    "RS256 said",
    "head of another",
    "claims changed",
    "ended",
    "no exp",
    "exp is text",
    "exp is a float",
    "exp is true",
    "exp is null",
    "exp is huge",
    "no jti",
    "jti is a number",
    "jti is another's",
    "jti is owner",
    "claims are a list",
    "crit",
    "key in the head",
    "large",
    "deep head",
    "deep claims",
    "head is no JSON",
    "head is a list",
    "letters beyond ASCII",
)


def forged(kind: str, good: str, key: str, id: str) -> str:
    head: dict[str, Any] = {"alg": "HS256", "typ": "JWT"}
    claims: dict[str, Any] = {"exp": int(T0) + 300, "iat": int(T0), "jti": id, "name": "bob", "roles": ["admin"]}
    first, middle, last = good.split(".")
    other = {"exp": int(T0) + 3000, "jti": id}
    made = {
        "alg none": lambda: f"{encoded({'alg': 'none'})}.{encoded(claims)}.",
        "alg None": lambda: f"{encoded({'alg': 'None'})}.{encoded(claims)}.{last}",
        "no signature": lambda: f"{first}.{middle}.",
        "wrong key": lambda: signed(head, claims, "k" * 64),
        "empty key": lambda: signed(head, claims, ""),
        "HS384": lambda: signed({"alg": "HS384"}, claims, key, "sha384"),
        "HS512": lambda: signed({"alg": "HS512"}, claims, key, "sha512"),
        "RS256 said": lambda: signed({"alg": "RS256"}, claims, key),
        "head of another": lambda: f"{encoded({'alg': 'none'})}.{middle}.{last}",
        "claims changed": lambda: f"{first}.{encoded(other)}.{last}",
        "ended": lambda: signed(head, claims | {"exp": int(T0)}, key),
        "no exp": lambda: signed(head, {"jti": id}, key),
        "exp is text": lambda: signed(head, claims | {"exp": str(int(T0) + 300)}, key),
        "exp is a float": lambda: signed(head, claims | {"exp": T0 + 300.5}, key),
        "exp is true": lambda: signed(head, claims | {"exp": True}, key),
        "exp is null": lambda: signed(head, claims | {"exp": None}, key),
        "exp is huge": lambda: signed(head, claims | {"exp": 10**400}, "k"),
        "no jti": lambda: signed(head, {"exp": int(T0) + 300}, key),
        "jti is a number": lambda: signed(head, claims | {"jti": 7}, key),
        "jti is another's": lambda: signed(head, claims | {"jti": "0" * 16}, key),
        "jti is owner": lambda: signed(head, claims | {"jti": "owner"}, key),
        "claims are a list": lambda: signed(head, [1], key),
        "crit": lambda: signed(head | {"crit": ["x"], "x": 1}, claims, key),
        "key in the head": lambda: signed(head | {"jwk": {"kty": "oct", "k": "aw"}}, claims, "k"),
        "large": lambda: signed(head, claims | {"name": "x" * 9000}, key),
        "deep head": lambda: f"{base64.urlsafe_b64encode(b'[' * 5100).decode()}.{middle}.{last}",
        "deep claims": lambda: f"{first}.{base64.urlsafe_b64encode(b'[' * 5100).decode()}.{last}",
        "head is no JSON": lambda: f"{'A' * 8}.{middle}.{last}",
        "head is a list": lambda: signed([1], claims, key),
        "letters beyond ASCII": lambda: f"{first}.\xff\xfe.{last}",
    }
    assert tuple(made) == FORGED
    return made[kind]()


@pytest.mark.parametrize("kind", FORGED)
def test_forged_jwt_is_rejected(tmp_path: Path, kind: str) -> None:
    with people(str(tmp_path / "runrig.db")) as it:
        good, _ = it.access.authentication.exchange(it.token("bob", expires_in_s=None), ELSEWHERE)
        id = it.access.tokens.of("bob")[0].id
        assert it.ask(signed({"alg": "HS256"}, {"exp": int(T0) + 300, "jti": id}, key_of(it))).user == "bob"
        with pytest.raises(NotLoggedIn):
            it.ask(forged(kind, good, key_of(it), id))


def test_each_server_has_its_own_signing_key_and_keeps_it(tmp_path: Path) -> None:
    with people(str(tmp_path / "one.db")) as one, people(str(tmp_path / "two.db")) as two:
        text, _ = one.access.authentication.exchange(one.token("bob"), ELSEWHERE)
        assert key_of(one) != key_of(two)
        assert len(key_of(one)) == 64
        with pytest.raises(NotLoggedIn):
            two.ask(text)
        store = SqlStore.open(tmp_path / "one.db")
        assert Access(store.access, now=lambda: T0).authentication.authenticate(text, ELSEWHERE).user == "bob"
        store.close()
