"""Users, roles and tokens in the format of the osmo client.

There, a role is `osmo-` and its name in runrig: `osmo-admin`, `osmo-user`, `osmo-vision-user`, `osmo-vision-admin`.
"""

from collections.abc import Collection, Iterable
from datetime import datetime

from runrig import wire
from runrig.domain.access import Grant, GrantRow, TokenRow, User, role_named
from runrig.domain.errors import InvalidInput
from runrig.wire.base import utc

PREFIX = "osmo-"
NEVER = datetime(9999, 12, 31)  # noqa: DTZ001 - as the client reads times


def name_of(grant: Grant) -> str:
    return f"{PREFIX}{grant}"


def role_meant(text: str, pools: Collection[str]) -> Grant:
    """Returns the role that *text* names, in either spelling. *pools*: the existing ones.

    Raises InvalidInput, also if both spellings fit: a pool can be called `osmo`, or begin with `osmo-`.
    """
    theirs = text.removeprefix(PREFIX)
    if theirs == text:
        return role_named(text)
    try:
        ours = role_named(text)
    except InvalidInput:
        ours = None
    if ours is not None and ours.pool in pools:
        raise InvalidInput.one(
            f"{text!r} is ambiguous: the osmo name of {theirs!r}, or the role {ours} on pool {ours.pool!r}. "
            f"Use {theirs!r} or {name_of(ours)!r}",
            "role",
        )
    return role_named(theirs)


def token(row: TokenRow, grants: tuple[Grant, ...]) -> wire.AccessTokenAnswer:
    """*grants*: the roles of its user."""
    return wire.AccessTokenAnswer(
        user_name=row.user,
        token_name=row.name,
        expires_at=utc(row.expires_at) or NEVER,
        description=row.description,
        roles=[name_of(each) for each in row.gives(grants)],
    )


def token_roles(row: TokenRow, grants: Iterable[GrantRow]) -> wire.AccessTokenRolesAnswer:
    """*grants*: the roles of its user."""
    given = [each for each in grants if row.gives((each.grant,))]
    return wire.AccessTokenRolesAnswer(user_name=row.user, token_name=row.name, roles=[role(each) for each in given])


def role(row: GrantRow) -> wire.AssignedRoleAnswer:
    granted = utc(row.granted_at)
    return wire.AssignedRoleAnswer(role_name=name_of(row.grant), assigned_by=row.granted_by, assigned_at=granted)


def assignment(row: GrantRow) -> wire.RoleAssignmentAnswer:
    return wire.RoleAssignmentAnswer(user_id=row.user, **role(row).model_dump())


def account(user: User) -> wire.AccountAnswer:
    return wire.AccountAnswer(id=user.name, created_at=utc(user.created_at))


def account_with_roles(user: User, grants: Iterable[GrantRow]) -> wire.AccountWithRolesAnswer:
    """*grants*: the roles of the user."""
    return wire.AccountWithRolesAnswer(**account(user).model_dump(), roles=[role(each) for each in grants])
