"""Signed, short-lived tokens of two kinds, which cannot replace each other.

One is for the osmo client, which exchanges its access token for one and reads its expiry. The other is for sign-ins
with the identity provider (`oidc/`), with the roles of the user's groups; it has an audience.
"""

from dataclasses import dataclass
from typing import Any

import jwt

from runrig.domain.access import Grant, Identity, SignIn, role_named

LIFETIME_S = 300
SIGN_IN_S = 900
"""Seconds for which a revoked group can stay effective."""
_SIGN_IN = "sign-in"
_ALGORITHM = "HS256"
LONGEST = 8192
"""Maximum characters."""


def signed(key: str, identity: Identity, id: str, now: float) -> tuple[str, int]:
    """Returns (the JWT, when it expires). *id*: of the access token that it represents."""
    expires_at = int(now) + LIFETIME_S
    claims = {
        "exp": expires_at,
        "iat": int(now),
        "jti": id,
        "name": identity.user,
        "roles": [str(grant) for grant in identity.grants],
    }
    return jwt.encode(claims, key, algorithm=_ALGORITHM), expires_at


def for_sign_in(
    key: str, user: str, grants: tuple[Grant, ...], now: float, nonce: str | None = None
) -> tuple[str, int]:
    """Returns (the JWT, when it expires). *nonce*: from the provider's token, for clients that compare it themselves."""
    expires_at = int(now) + SIGN_IN_S
    claims = {"aud": _SIGN_IN, "exp": expires_at, "iat": int(now), "sub": user, "roles": [str(each) for each in grants]}
    if nonce is not None:
        claims |= {"nonce": nonce, "name": user}
    return jwt.encode(claims, key, algorithm=_ALGORITHM), expires_at


def looks_like_one(text: str) -> bool:
    return text.count(".") == 2


@dataclass(frozen=True, slots=True)
class OfSignIn:
    user: str
    sign_in: SignIn


def read(key: str, text: str, now: float) -> str | OfSignIn | None:
    """Returns the id of the access token in *text*, or the sign-in; None if *key* did not sign it, or it has expired.

    For an access token no other claim is trusted: the current grants decide.
    """
    if len(text) > LONGEST:
        return None
    # Checked by the server's clock, because tests cannot set the library's.
    options: Any = {"require": ["exp"], "verify_exp": False, "verify_iat": False, "verify_aud": False}
    try:
        claims = jwt.decode(text, key, algorithms=[_ALGORITHM], options=options)
    except (jwt.InvalidTokenError, ValueError, RecursionError):
        # Not every version of the library catches all of these.
        return None
    expires_at = claims["exp"]
    if type(expires_at) is not int or expires_at <= now:
        return None
    if "aud" in claims:
        return _of_sign_in(claims, expires_at) if claims["aud"] == _SIGN_IN else None
    id = claims.get("jti")
    return id if isinstance(id, str) else None


def _of_sign_in(claims: dict[str, Any], expires_at: int) -> OfSignIn:
    """Returns the sign-in in *claims*, which this server wrote."""
    return OfSignIn(claims["sub"], SignIn(tuple(role_named(each) for each in claims["roles"]), expires_at))
