"""A provider of identities that lies, hangs or talks too much, and people who try codes: nobody gets in, and nobody else waits."""

import hashlib
import hmac
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from runrig.domain.errors import NotAllowed, NotLoggedIn, RunrigError, TooMany
from runrig.domain.shown.server import SignedIn
from runrig.service.access.oidc import fetching, provider
from runrig.service.access.oidc.fetching import ProviderSilent
from runrig.service.access.oidc.metadata import ProviderUnusable
from runrig.service.access.oidc.sign_ins import AT_ONCE, FAILURES
from tests.patience import until
from tests.provider.access import BACK, ELSEWHERE, OWN, Signing, settings, signing
from tests.provider.forger import ACCESS, NONCE, Forger, forger, public, said, some_key

VERIFIER = "v" * 43
DISCOVERY = "/o/.well-known/openid-configuration"


@pytest.fixture
def lying() -> Iterator[Forger]:
    with forger() as it:
        yield it


@pytest.fixture
def it(lying: Forger, tmp_path: Path) -> Iterator[Signing]:
    with signing(tmp_path, settings(lying.issuer)) as made:
        yield made


def sign_in(it: Signing, code: str = "c") -> SignedIn:
    return it.signs.by_code(code, verifier=VERIFIER, redirect_uri=BACK, nonce=NONCE, own=OWN, source=ELSEWHERE)


def test_forging_client_can_sign_in_with_valid_responses(it: Signing) -> None:
    assert sign_in(it).user == "oidc:mallory"


# ---------------------------------------------------------------- ID tokens

Lie = Callable[[Forger], Any]


def _claims(**changed: Any) -> Lie:
    return lambda lying: lying.claims.update(changed)


def _signed(key: Any, algorithm: str, **header: Any) -> Lie:
    def lie(lying: Forger) -> None:
        lying.key, lying.algorithm = key, algorithm
        lying.header.update(header)

    return lie


def _with_the_public_key_as_a_secret(lying: Forger) -> None:
    """The library refuses to make such a token, so it is made by hand."""
    pem = some_key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def token() -> str:
        head = jwt.utils.base64url_encode(b'{"alg":"HS256","kid":"k"}')
        body = lying.signed().split(".")[1].encode()
        mac = jwt.utils.base64url_encode(hmac.digest(pem, head + b"." + body, hashlib.sha256))
        return b".".join((head, body, mac)).decode()

    lying.token = token


def _two_keys_of_one_name(lying: Forger) -> None:
    lying.keys.append(public(some_key(number=1)))


def _a_short_key(lying: Forger) -> None:
    """The same."""
    lying.keys = [public(some_key(1024))]

    def token() -> str:
        signed = lying.signed().rpartition(".")[0]
        mac = some_key(1024).sign(signed.encode(), PKCS1v15(), SHA256())
        return f"{signed}.{jwt.utils.base64url_encode(mac).decode()}"

    lying.token = token


def _a_shared_key(lying: Forger) -> None:
    lying.key, lying.algorithm = "s" * 64, "HS256"
    lying.keys = [{"kty": "oct", "k": jwt.utils.base64url_encode(b"s" * 64).decode(), "kid": "k"}]


def _cut(lying: Forger) -> None:
    lying.token = lambda: lying.signed().rpartition(".")[0] + "."


def _changed(lying: Forger) -> None:
    def token() -> str:
        head, _, mac = lying.signed().split(".")
        other = jwt.encode({**lying.claims, "sub": "1"}, some_key(), "RS256").split(".")[1]
        return f"{head}.{other}.{mac}"

    lying.token = token


SOON = int(time.time())
LIES: dict[str, tuple[Lie, str]] = {
    "no signature": (_signed(None, "none"), "signed with 'none'; accepted: RS256"),
    "HS256 with the public key": (_with_the_public_key_as_a_secret, "signed with 'HS256'; accepted: RS256"),
    "a shared key": (_a_shared_key, "signed with 'HS256'; accepted: RS256"),
    "another key": (_signed(some_key(number=1), "RS256"), "wrong signature"),
    "an unknown key": (_signed(some_key(number=1), "RS256", kid="other"), "is signed with key 'other' for RS256"),
    "two keys of one name": (_two_keys_of_one_name, "which the identity provider does not publish"),
    "a short key": (_a_short_key, "which the identity provider does not publish"),
    "a cut signature": (_cut, "wrong signature"),
    "a changed body": (_changed, "wrong signature"),
    "no token": (lambda lying: setattr(lying, "token", lambda: "x"), "malformed or wrong signature"),
    "a long token": (lambda lying: setattr(lying, "token", lambda: "x" * 200_000), "too long \\(200000 characters"),
    "another issuer": (_claims(iss="https://evil.example.org"), "the issuer is 'https://evil.example.org'"),
    "another audience": (_claims(aud="elsewhere"), "the audience is 'elsewhere', not runrig"),
    "no audience": (_claims(aud=None), "the audience is None"),
    "several, and another party": (_claims(aud=["runrig", "x"], azp="x"), "the authorized party is 'x'"),
    "several, and no party": (_claims(aud=["runrig", "x"]), "the authorized party is None"),
    "another party": (_claims(azp="x"), "the authorized party is 'x'"),
    "another nonce": (_claims(nonce="other"), "the nonce belongs to another sign-in"),
    "no nonce": (_claims(nonce=None), "the nonce belongs to another sign-in"),
    "an access token that is no text": (
        lambda lying: lying.answers.update(
            {"/o/token": lambda: said({"id_token": lying.token(), "access_token": "\ud800"})}
        ),
        "at_hash does not match the access token",
    ),
    "another access token": (_claims(at_hash="x"), "at_hash does not match the access token"),
    "ended": (_claims(exp=SOON - 70), r"expired \d+ s ago"),
    "no end": (_claims(exp=None), "exp is None, not a time"),
    "an endless end": (_claims(exp=1e300), "exp is 1e.300, not a time"),
    "from the future": (_claims(iat=SOON + 1000), r"not valid for another \d+ s"),
    "not yet": (_claims(nbf=SOON + 1000), r"not valid for another \d+ s"),
    "no subject": (_claims(sub=""), "the subject is ''"),
    "a subject of another kind": (_claims(sub=["42"]), "the subject is \\['42'\\]"),
    "a subject with a line break": (_claims(sub="4\n2"), "the subject is"),
}


@pytest.mark.parametrize("lie", LIES)
def test_no_forged_id_token_is_accepted(it: Signing, lying: Forger, lie: str) -> None:
    change, words = LIES[lie]
    change(lying)
    with pytest.raises(NotAllowed, match=words):
        sign_in(it)
    assert it.access.users.all() == ()


@pytest.mark.parametrize("skew_s", [-50, 50])
def test_small_clock_differences_are_accepted(it: Signing, lying: Forger, skew_s: int) -> None:
    now = int(time.time()) + skew_s
    lying.claims.update(iat=now, nbf=now, exp=now + 5)
    assert sign_in(it).user == "oidc:mallory"


@pytest.mark.parametrize("groups", ["root", None, 7, {"root": 1}, [["root"], {"a": 1}, None], ["ROOT", "root ", ""]])
def test_roles_come_only_from_a_name_or_a_list_of_names(it: Signing, lying: Forger, groups: object) -> None:
    lying.claims["groups"] = groups
    assert it.roles(sign_in(it).token) == (["admin"] if groups == "root" else [])


@pytest.mark.parametrize("name", ["admin/../x", "a b", "-x", "x" * 300, "\ud800", "é", "oidc:root", 7, None])
def test_user_names_of_the_provider_are_never_used_unchanged(it: Signing, lying: Forger, name: object) -> None:
    lying.claims["preferred_username"] = name
    assert sign_in(it).user == "oidc:42"


def test_user_name_falls_back_to_email_or_hash(it: Signing, lying: Forger) -> None:
    lying.claims |= {"preferred_username": None, "email": "m@example.org"}
    assert sign_in(it).user == "oidc:m@example.org"
    lying.claims |= {"email": None, "sub": "auth0|7"}
    account = hashlib.sha256(f"{lying.issuer}#auth0|7".encode()).hexdigest()
    assert sign_in(it).user == f"oidc:{account[:16]}"


def test_more_roles_than_a_token_can_have_are_refused(lying: Forger, tmp_path: Path) -> None:
    roles = {f"g{number}": (f"a-rather-long-name-of-a-pool-{number}-user",) for number in range(500)}
    with signing(tmp_path, settings(lying.issuer, roles)) as it:
        lying.claims["groups"] = list(roles)
        with pytest.raises(NotAllowed, match="grant too many roles for a token \\(500\\)"):
            sign_in(it)


def test_own_tokens_are_not_sign_ins_and_vice_versa(it: Signing, lying: Forger) -> None:
    key = it.access.authentication.key
    sign_in(it)
    for claims in (
        {"aud": "runrig", "sub": "oidc:mallory", "roles": ["admin"]},
        {"aud": "sign-in", "sub": "nobody", "roles": ["admin"]},
        {"sub": "oidc:mallory", "roles": ["admin"]},
    ):
        forged = jwt.encode({**claims, "exp": time.time_ns() // 10**9 + 100}, key, "HS256")
        with pytest.raises(NotLoggedIn):
            it.ask(forged)
    with pytest.raises(NotLoggedIn):
        it.ask(lying.signed())  # issued by the provider itself


# ---------------------------------------------------------------- the provider's description of itself

DOCUMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "another issuer": ({"issuer": "https://evil.example.org"}, "its issuer is 'https://evil.example.org'"),
    "no issuer": ({"issuer": None}, "its issuer is None"),
    "metadata of a cloud": ({"jwks_uri": "http://169.254.169.254/latest"}, "does not use https"),
    "a number": ({"token_endpoint": "https://169.254.169.254/token"}, "has an IP address other than the issuer's"),
    "a long number": ({"token_endpoint": "https://2130706433/token"}, "has an IP address other than the issuer's"),
    "a number in disguise": ({"jwks_uri": "https://0x7f.1/"}, "has an IP address other than the issuer's"),
    "a file": ({"jwks_uri": "file:///etc/passwd"}, "is not a plain URL"),
    "no scheme": ({"token_endpoint": "/token"}, "is not a plain URL"),
    "a user": ({"token_endpoint": "https://a@example.org/"}, "is not a plain URL"),
    "a line break": ({"token_endpoint": "https://example.org/\r\nX: y"}, "is not a plain URL"),
    "no address": ({"token_endpoint": "https://[::1"}, "is not a URL"),
    "something else": ({"authorization_endpoint": ["x"]}, "is not text"),
    "plain http": ({"token_endpoint": "http://example.org/token"}, "does not use https"),
    "no PKCE": ({"code_challenge_methods_supported": ["plain"]}, "it does not support PKCE with S256"),
    "shared keys": ({"id_token_signing_alg_values_supported": ["HS256"]}, "an algorithm with a public key is required"),
}


@pytest.mark.parametrize("lie", DOCUMENTS)
def test_provider_with_a_forbidden_configuration_is_not_used(it: Signing, lying: Forger, lie: str) -> None:
    change, words = DOCUMENTS[lie]
    lying.document |= change
    with pytest.raises(ProviderUnusable, match=words):
        sign_in(it)
    assert lying.asked == [DISCOVERY]


@pytest.mark.parametrize("path", [DISCOVERY, "/o/token", "/o/jwks"])
@pytest.mark.parametrize(
    "answer",
    [
        (302, {"Location": "/o/elsewhere"}, b"{}"),
        (200, {}, b"[" * 100_000),
        (200, {}, b"\xff\xfe"),
        (200, {}, b'"text"'),
        (200, {}, b" " * (fetching.LARGEST + 1)),
        (500, {}, b"{}"),
        (200, {"Content-Length": "9"}, b"{}"),
    ],
    ids=["a redirect", "deep", "no text", "no object", "too much", "broken", "too little"],
)
def test_malformed_provider_responses_are_refused(
    it: Signing, lying: Forger, path: str, answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider.TimeLeft.__init__, "__defaults__", (0.5,))
    lying.answers[path] = lambda: answer
    with pytest.raises(ProviderSilent, match=r"does not respond|returned an unusable response"):
        sign_in(it)
    assert "/o/elsewhere" not in lying.asked
    assert it.access.users.all() == ()


def test_answers_that_cannot_be_used_are_refused_at_once(it: Signing, lying: Forger) -> None:
    lying.answers["/o/token"] = lambda: said({"refresh_token": "\ud800"})
    with pytest.raises(ProviderSilent, match="surrogates not allowed"):
        sign_in(it)
    device = {
        "device_code": "d",
        "user_code": "u",
        "verification_uri": "https://example.org",
        "expires_in": float("inf"),
    }
    lying.answers["/o/device"] = lambda: said(device)
    with pytest.raises(ProviderUnusable, match="does not follow RFC 8628"):
        it.signs.start_device(ELSEWHERE)


def test_excess_provider_keys_are_not_read(it: Signing, lying: Forger) -> None:
    lying.keys = [{"kty": "RSA", "kid": str(number)} for number in range(2000)] + lying.keys
    with pytest.raises(NotAllowed, match="which the identity provider does not publish"):
        sign_in(it)


# ---------------------------------------------------------------- many and slow requests


def test_guessing_codes_is_slowed_down_without_asking_the_provider(it: Signing, lying: Forger) -> None:
    lying.answers["/o/token"] = lambda: said({"error": "invalid_grant", "error_description": "no\x1b[2J"}, 400)
    for _ in range(FAILURES.at_once):
        with pytest.raises(NotAllowed, match=r"^the identity provider refused: invalid_grant$"):
            sign_in(it)
    asked = len(lying.asked)
    with pytest.raises(TooMany, match=r"too many failed sign-ins\. Try again in 2 s"):
        sign_in(it)
    assert len(lying.asked) == asked
    del lying.answers["/o/token"]
    it.shift[0] += FAILURES.every_s
    assert sign_in(it).user == "oidc:mallory"


def test_slow_provider_uses_few_threads_and_little_time(
    it: Signing, lying: Forger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider.TimeLeft.__init__, "__defaults__", (2.0,))
    it.signs.metadata()
    held, waiting = threading.Event(), threading.Semaphore(0)

    def slow() -> Any:
        waiting.release()
        held.wait(30)
        return said({})

    def tried(_: int) -> RunrigError:
        with pytest.raises(RunrigError) as refused:
            sign_in(it)
        return refused.value

    lying.answers["/o/token"] = slow
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = [pool.submit(tried, number) for number in range(AT_ONCE)]
        for _ in found:
            waiting.acquire()
        with pytest.raises(ProviderSilent, match="too many sign-ins in progress \\(8\\)"):
            sign_in(it)
        errors = [each.result() for each in found]
    held.set()
    assert {type(each) for each in errors} == {ProviderSilent}
    assert "no complete response within" in errors[0].message


def test_dripping_response_ends_in_time(it: Signing, lying: Forger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider.TimeLeft.__init__, "__defaults__", (1.0,))
    ended = threading.Event()

    def drops() -> Iterator[bytes]:
        while not ended.wait(0.05):
            yield b" "

    lying.answers[DISCOVERY] = lambda: (200, {}, drops())
    with pytest.raises(ProviderSilent, match="no complete response within"):
        it.signs.metadata()
    ended.set()
    until(lambda: not [each for each in threading.enumerate() if each.name == "provider"])


def test_messages_of_the_provider_cannot_harm_a_terminal(it: Signing, lying: Forger) -> None:
    lying.answers["/o/token"] = lambda: said({"error": "\x1b]0;x", "error_description": "a\nb"}, 400)
    with pytest.raises(NotAllowed, match=r"^the identity provider refused: no reason given$"):
        sign_in(it)
    device = {"device_code": "d", "user_code": "\x1b[2J", "verification_uri": "https://x", "expires_in": 9}
    lying.answers["/o/device"] = lambda: said(device)
    with pytest.raises(ProviderUnusable, match="does not follow RFC 8628"):
        it.signs.start_device(ELSEWHERE)


def test_provider_tokens_appear_in_no_repr_and_no_log(it: Signing, caplog: pytest.LogCaptureFixture) -> None:
    found = sign_in(it, code="the-code")
    for secret in ("the-code", ACCESS, "a-refresh-token", found.token, VERIFIER):
        assert secret not in caplog.text
        assert secret not in repr(found)
