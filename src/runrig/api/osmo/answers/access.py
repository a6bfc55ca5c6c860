"""Users, roles and tokens as answers."""

from collections.abc import Iterable
from typing import Any

from runrig import wire
from runrig.domain.access import AccessEvent, GrantRow, TokenRow, User
from runrig.service.access.accounts import MadeToken
from runrig.wire.base import utc


def token(row: TokenRow, now: float) -> wire.TokenAnswer:
    return wire.TokenAnswer(**_token(row, now))


def tokens(rows: Iterable[TokenRow], now: float) -> wire.TokensAnswer:
    return wire.TokensAnswer(tokens=[token(row, now) for row in rows])


def made(token: MadeToken, now: float) -> wire.TokenMadeAnswer:
    return wire.TokenMadeAnswer(**_token(token.row, now), token=token.text)


def _token(row: TokenRow, now: float) -> dict[str, Any]:
    return {
        "name": row.name,
        "user": row.user,
        "state": row.problem(now) or "good",
        "created_at": utc(row.created_at),
        "expires_at": utc(row.expires_at),
        "last_used_at": utc(row.last_used_at),
        "revoked_at": utc(row.revoked_at),
    }


def user(found: User) -> wire.UserAnswer:
    roles = [str(grant) for grant in found.grants]
    return wire.UserAnswer.model_validate(
        {"name": found.name, "roles": roles, "created_at": utc(found.created_at), "disabled": found.disabled}
    )


def role(row: GrantRow) -> wire.RoleAnswer:
    return wire.RoleAnswer.model_validate(
        {
            "user": row.user,
            "role": str(row.grant),
            "pool": row.grant.pool,
            "granted_at": utc(row.granted_at),
            "granted_by": row.granted_by,
        }
    )


def event(found: AccessEvent) -> wire.AccessEventAnswer:
    return wire.AccessEventAnswer.model_validate(
        {
            "number": found.number,
            "time": utc(found.time),
            "actor": found.actor,
            "what": found.kind.value,
            "user": found.user,
            "subject": found.subject,
        }
    )
