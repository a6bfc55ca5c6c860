"""Tokens, users, roles, and their audit trail."""

from collections.abc import Mapping, Sequence
from typing import Any

from runrig.osmo.shape import naive

Answer = Mapping[str, Any]

_TIMES = ("created_at", "expires_at", "last_used_at", "revoked_at", "granted_at", "time")


def row(answer: Answer) -> dict[str, Any]:
    """Returns a token, a user, a role, or a change of one."""
    return {name: naive(value) if name in _TIMES else value for name, value in answer.items()}


def events(found: Sequence[Answer], *, more: bool) -> dict[str, Any]:
    """*next*: the number of the last one, if *more* follow."""
    return {"events": [row(each) for each in found], "next": found[-1]["number"] if more else None}
