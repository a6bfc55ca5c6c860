"""Users, roles and tokens as answers."""

from collections.abc import Sequence
from typing import Any

from runrig.domain.access import AccessEvent, GrantRow, Identity, TokenRow, User
from runrig.service.access.accounts import MadeToken
from runrig.wire import v1


def token(row: TokenRow, now: float) -> v1.Token:
    return v1.Token(**_token(row, now))


def made(token: MadeToken, now: float) -> v1.TokenMade:
    return v1.TokenMade(**_token(token.row, now), token=token.text)


def _token(row: TokenRow, now: float) -> dict[str, Any]:
    return {
        "name": row.name,
        "user": row.user,
        "description": row.description,
        "roles": None if row.roles is None else list(row.roles),
        "state": row.problem(now) or "good",
        "created_at": v1.at(row.created_at),
        "expires_at": v1.at(row.expires_at),
        "last_used_at": v1.at(row.last_used_at),
        "revoked_at": v1.at(row.revoked_at),
    }


def user(found: User) -> v1.User:
    return v1.User(
        name=found.name,
        roles=[str(grant) for grant in found.grants],
        created_at=v1.at(found.created_at),
        disabled=found.disabled,
    )


def role(row: GrantRow) -> v1.Role:
    return v1.Role(
        user=row.user,
        role=str(row.grant),
        pool=row.grant.pool,
        granted_at=v1.at(row.granted_at),
        granted_by=row.granted_by,
    )


def event(found: AccessEvent) -> v1.AccessEvent:
    return v1.AccessEvent(
        number=found.number,
        time=v1.at(found.time),
        actor=found.actor,
        what=found.kind.value,
        user=found.user,
        subject=found.subject,
    )


def me(who: Identity, pools: Sequence[str], default: str | None, row: TokenRow | None) -> v1.Me:
    return v1.Me(
        user=who.user,
        roles=[str(grant) for grant in who.grants],
        pools=list(pools),
        default_pool=default,
        token=_own(who, row),
    )


def _own(who: Identity, row: TokenRow | None) -> v1.MyToken | None:
    if who.sign_in is not None:
        return v1.MyToken(name="sign-in", expires_at=v1.at(who.sign_in.ends_at))
    return None if row is None else v1.MyToken(name=row.name, expires_at=v1.at(row.expires_at))
