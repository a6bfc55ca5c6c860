"""Users with their roles, tokens and history, for administrators."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Annotated

from fastapi import Query, Response

from runrig.domain.access import GrantRow, Permission, User, role_named
from runrig.domain.errors import InvalidInput, NotFound
from runrig.http.permissions import needs
from runrig.http.routing import Asked, Serving
from runrig.service.service import Service
from runrig.web.asking import Filled, Form
from runrig.web.pages.tokens import page_of
from runrig.web.rendering import html
from runrig.web.routes import form, router

MOST = 200
"""Users on the page."""
MOST_EVENTS = 50
"""Changes to a user on the page, the latest."""
_ACCESS = [needs(Permission.ACCESS)]


@router.get("/access", dependencies=_ACCESS)
def access(
    request: Asked,
    service: Serving,
    q: Annotated[str, Query(max_length=200, description="Part of a name or role")] = "",
) -> Response:
    rows = [
        (user, roles) for user, roles in _rows(service) if any(q in each for each in (user.name, *map(_role, roles)))
    ]
    return html(request, "access.html", q=q, rows=rows[:MOST], count=len(rows))


def _role(row: GrantRow) -> str:
    return str(row.grant)


def _rows(service: Service) -> Iterable[tuple[User, Sequence[GrantRow]]]:
    grants: dict[str, list[GrantRow]] = {}
    for row in service.access.users.grants():
        grants.setdefault(row.user, []).append(row)
    for user in sorted(service.access.users.all(), key=lambda each: each.name):
        yield user, sorted(grants.get(user.name, ()), key=_role)


@router.get("/access/user/{user}", dependencies=_ACCESS)
def of_user(request: Asked, service: Serving, user: str) -> Response:
    access = service.access
    it = access.users.get(user)
    events = access.events(user=it.name, limit=MOST_EVENTS + 1)
    return html(
        request,
        "user.html",
        it=it,
        address=page_of(it.name),
        roles=sorted(access.users.grants(it.name), key=_role),
        tokens=access.tokens.of(it.name),
        events=events[:MOST_EVENTS],
        more=len(events) > MOST_EVENTS,
    )


@form("/access/create", dependencies=_ACCESS)
async def create(it: Filled) -> Response:
    def do() -> None:
        roles = [role_named(each) for each in it.words("roles")]
        it.service.access.users.create(_named(it), roles, actor=it.user)

    draw = partial(it.shown, "access_create.html", it.typed(user="", roles=""))
    return await it.answered(draw, do, page_of(it.field("user")))


def _named(it: Form) -> str:
    if not (user := it.field("user")):
        raise InvalidInput.one("name the user", "user")
    return user


@form("/access/user/{user}/disable", dependencies=_ACCESS)
async def disable(it: Filled, user: str) -> Response:
    says = "Their tokens stop working, and their browsers are signed out. Their workflows keep running."
    return await _switched(it, user, "disable", says)


@form("/access/user/{user}/enable", dependencies=_ACCESS)
async def enable(it: Filled, user: str) -> Response:
    return await _switched(it, user, "enable", "Tokens that are still valid work again.")


async def _switched(it: Form, user: str, act: str, says: str) -> Response:
    users = it.service.access.users
    do = partial(users.set_disabled, user, act == "disable", actor=it.user)
    return await it.sure(f"{act.capitalize()} {user}", says, do, page_of(user), partial(users.get, user))


@form("/access/grant", dependencies=_ACCESS)
async def grant(it: Filled, user: Annotated[str, Query(max_length=200)] = "") -> Response:
    def do() -> None:
        it.service.access.users.grant(_named(it), role_named(it.field("role")), actor=it.user)

    draw = partial(it.shown, "access_grant.html", it.typed(user=user, role=""))
    return await it.answered(draw, do, page_of(it.field("user")))


@form("/access/revoke/{user}/{role}", dependencies=_ACCESS)
async def revoke(it: Filled, user: str, role: str) -> Response:
    users = it.service.access.users
    granted = role_named(role)

    def check() -> None:
        if granted not in users.get(user).grants:
            raise NotFound(f"user {user} does not have the role {granted}")

    says = f"{user} loses what only this role allows with the next request. Workflows keep running."
    do = partial(users.withdraw, user, granted, actor=it.user)
    return await it.sure(f"Revoke {granted} of {user}", says, do, page_of(user), check)
