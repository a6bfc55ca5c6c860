"""Signed, short-lived tokens for the reference client, which exchanges its access token for one and reads its expiry."""

from typing import Any

import jwt

from runrig.domain.access import Identity

LIFETIME_S = 300
_ALGORITHM = "HS256"
LONGEST = 8192
"""Characters."""


def signed(key: str, identity: Identity, id: str, now: float) -> tuple[str, int]:
    """(the JWT, when it expires).  *id*: of the token that it stands for."""
    expires_at = int(now) + LIFETIME_S
    claims = {
        "exp": expires_at,
        "iat": int(now),
        "jti": id,
        "name": identity.user,
        "roles": [str(grant) for grant in identity.grants],
    }
    return jwt.encode(claims, key, algorithm=_ALGORITHM), expires_at


def looks_like_one(text: str) -> bool:
    return text.count(".") == 2


def token_id(key: str, text: str, now: float) -> str | None:
    """The id of the token that *text*, a JWT, stands for; None if it was not signed with *key*, or has ended.

    Its other claims are not trusted: the present grants decide.
    """
    if len(text) > LONGEST:
        return None
    # By our clock: a test cannot set the library's.
    options: Any = {"require": ["exp", "jti"], "verify_exp": False, "verify_iat": False}
    try:
        claims = jwt.decode(text, key, algorithms=[_ALGORITHM], options=options)
    except (jwt.InvalidTokenError, ValueError, RecursionError):  # not every version of the library catches all three
        return None
    expires_at, id = claims["exp"], claims["jti"]
    if type(expires_at) is not int or not isinstance(id, str) or expires_at <= now:
        return None
    return id
