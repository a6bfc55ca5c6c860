"""Checks the provider's ID token as in OpenID Connect Core 1.0, 3.1.3.7: signature, audience, time and nonce."""

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jwt

from runrig.domain.errors import NotAllowed
from runrig.spec.serve_settings import OidcSpec

SKEW_S = 60.0
"""Maximum seconds between the clocks of the provider and this server."""
LONGEST = 128 * 1024
"""Maximum characters; users can be in many groups."""
LONGEST_SUBJECT = 255

FindKey = Callable[[str | None, str], jwt.PyJWK]
"""(name of the key or None, algorithm) → key. Raises NotAllowed."""


@dataclass(frozen=True, slots=True)
class Expected:
    """*nonce* None: a renewal, which has none. *access_token*: sent with it; "" if none. *now*: by this server's clock."""

    algorithms: tuple[str, ...]
    nonce: str | None
    access_token: str
    now: float


def checked(text: str, spec: OidcSpec, expected: Expected, find_key: FindKey) -> Mapping[str, Any]:
    """Returns the claims. Raises NotAllowed with the reason."""
    if len(text) > LONGEST:
        raise _bad(f"too long ({len(text)} characters, maximum {LONGEST})")
    key, claims = _opened(text, expected.algorithms, find_key)
    _check_origin(claims, spec)
    _check_time(claims, expected.now)
    if expected.nonce is not None and not _same(claims.get("nonce"), expected.nonce):
        raise _bad("the nonce belongs to another sign-in")
    half = claims.get("at_hash")
    if half is not None and not _same(half, _half_hash(key, expected.access_token)):
        raise _bad("at_hash does not match the access token")
    return claims


def _opened(text: str, algorithms: tuple[str, ...], find_key: FindKey) -> tuple[jwt.PyJWK, dict[str, Any]]:
    """Returns (the key that signed it, the claims)."""
    try:
        header = jwt.get_unverified_header(text)
        algorithm, id = header.get("alg"), header.get("kid")
        if algorithm not in algorithms:
            raise _bad(f"signed with {algorithm!r:.40}; accepted: {', '.join(algorithms)}")
        key = find_key(id if isinstance(id, str) else None, str(algorithm))
        # By this server's clock and with its messages: all claims that the library would check are checked below.
        found = jwt.decode(text, key, algorithms=[str(algorithm)], options=_ONLY_SIGNATURE)
    except (jwt.InvalidTokenError, ValueError, RecursionError) as error:
        raise _bad(f"malformed or wrong signature ({type(error).__name__})") from None
    return key, found


_ONLY_SIGNATURE: Any = {f"verify_{claim}": False for claim in ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")}


def _check_origin(claims: Mapping[str, Any], spec: OidcSpec) -> None:
    if claims.get("iss") != spec.issuer:
        raise _bad(f"the issuer is {_shown(claims.get('iss'))}, not {spec.issuer}")
    found = claims.get("aud")
    audience = [found] if isinstance(found, str) else found if isinstance(found, list) else []
    if spec.client_id not in audience:
        raise _bad(f"the audience is {_shown(found)}, not {spec.client_id}")
    party = claims.get("azp")
    if party != spec.client_id and (party is not None or len(audience) > 1):
        raise _bad(f"it has several audiences, and the authorized party is {_shown(party)}, not {spec.client_id}")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= LONGEST_SUBJECT or not subject.isprintable():
        raise _bad(f"the subject is {_shown(subject)}, not 1 to {LONGEST_SUBJECT} printable characters")


def _check_time(claims: Mapping[str, Any], now: float) -> None:
    times = {name: claims.get(name) for name in ("exp", "iat", "nbf")}
    for name, value in times.items():
        optional = name == "nbf" and value is None
        if not optional and (isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e12):
            raise _bad(f"{name} is {_shown(value)}, not a time")
    ends_at, begins_at = float(times["exp"] or 0), max(float(times["iat"] or 0), float(times["nbf"] or 0))
    if ends_at + SKEW_S <= now:
        raise _bad(f"expired {now - ends_at:.0f} s ago. Check the clocks of the identity provider and this server")
    if begins_at - SKEW_S > now:
        raise _bad(
            f"not valid for another {begins_at - now:.0f} s. Check the clocks of the identity provider and this server"
        )


def _half_hash(key: jwt.PyJWK, access_token: str) -> str:
    size = "512" if key.algorithm_name == "EdDSA" else key.algorithm_name[-3:]
    digest = hashlib.new(f"sha{size}", access_token.encode("utf-8", "replace")).digest()
    return base64.urlsafe_b64encode(digest[: len(digest) // 2]).rstrip(b"=").decode()


def _same(found: object, wanted: str) -> bool:
    return isinstance(found, str) and hmac.compare_digest(found.encode("utf-8", "replace"), wanted.encode())


def _shown(value: object) -> str:
    return f"{value!r:.120}"


def _bad(why: str) -> NotAllowed:
    return NotAllowed(f"invalid ID token from the identity provider: {why}", {"provider": "id_token"})
