"""Users with their roles, tokens and history, for administrators."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Response

from runrig.domain.access import GrantRow, Permission, role_named
from runrig.domain.errors import InvalidInput, NotFound
from runrig.http.permissions import Asking, needs
from runrig.http.routing import Route, Serving
from runrig.service.rights import Asker
from runrig.service.service import Service
from runrig.web.asking import answered, form, form_shown, in_thread
from runrig.web.forms import sent
from runrig.web.pages.parts import Asked
from runrig.web.pages.tokens import page_of
from runrig.web.rendering import html

router = APIRouter(route_class=Route, include_in_schema=False)

MOST = 200
"""Users on the page."""
MOST_EVENTS = 50
"""Changes to a user on the page, the latest."""
_ACCESS = [needs(Permission.ACCESS)]


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    disabled: bool
    roles: tuple[GrantRow, ...]


@router.get("/access", dependencies=_ACCESS)
def access(
    request: Asked,
    service: Serving,
    q: Annotated[str, Query(max_length=200, description="Part of a name or role")] = "",
) -> Response:
    rows = [each for each in _rows(service) if q in each.name or any(q in str(row.grant) for row in each.roles)]
    return html(request, "access.html", q=q, rows=rows[:MOST], count=len(rows))


def _rows(service: Service) -> Iterable[Row]:
    grants: dict[str, list[GrantRow]] = {}
    for row in service.access.users.grants():
        grants.setdefault(row.user, []).append(row)
    for user in sorted(service.access.users.all(), key=lambda each: each.name):
        yield Row(user.name, user.disabled, tuple(sorted(grants.get(user.name, ()), key=lambda each: str(each.grant))))


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
        roles=sorted(access.users.grants(it.name), key=lambda each: str(each.grant)),
        tokens=access.tokens.of(it.name),
        events=events[:MOST_EVENTS],
        more=len(events) > MOST_EVENTS,
    )


@form(router, "/access/create", dependencies=_ACCESS)
async def create(request: Asked, service: Serving, asker: Asking) -> Response:
    fields, actor = await sent(request), asker.identity.user
    name = fields.get("user", "").strip()

    def draw(**more: Any) -> Response:
        typed = {"user": "", "roles": ""} | dict(fields)
        return form_shown(request, service, "access_create.html", ("user", "roles"), typed=typed, **more)

    def do() -> None:
        if not name:
            raise InvalidInput.one("name the user", "user")
        roles = fields.get("roles", "").replace(",", " ").split()
        service.access.users.create(name, [role_named(each) for each in roles], actor=actor)

    return await answered(request, asker, fields, draw=draw, do=in_thread(do, page_of(name)))


@form(router, "/access/user/{user}/disable", dependencies=_ACCESS)
async def disable(request: Asked, service: Serving, asker: Asking, user: str) -> Response:
    says = "Their tokens stop working, and their browsers are signed out. Their workflows keep running."
    return await _switched(request, service, asker, user, "disable", says)


@form(router, "/access/user/{user}/enable", dependencies=_ACCESS)
async def enable(request: Asked, service: Serving, asker: Asking, user: str) -> Response:
    return await _switched(request, service, asker, user, "enable", "Tokens that are still valid work again.")


async def _switched(request: Asked, service: Service, asker: Asker, user: str, act: str, says: str) -> Response:
    users = service.access.users

    def draw(**more: Any) -> Response:
        name = users.get(user).name
        does = f"{act.capitalize()} {name}"
        return form_shown(request, service, "sure.html", does=does, says=says, address=page_of(name), act=act, **more)

    do = in_thread(lambda: users.set_disabled(user, act == "disable", actor=asker.identity.user), page_of(user))
    return await answered(request, asker, await sent(request), draw=draw, do=do)


@form(router, "/access/grant", dependencies=_ACCESS)
async def grant(
    request: Asked, service: Serving, asker: Asking, user: Annotated[str, Query(max_length=200)] = ""
) -> Response:
    fields, actor = await sent(request), asker.identity.user

    def draw(**more: Any) -> Response:
        typed = {"user": user, "role": ""} | dict(fields)
        return form_shown(request, service, "access_grant.html", ("user", "role"), typed=typed, **more)

    def do() -> None:
        if not (name := fields.get("user", "").strip()):
            raise InvalidInput.one("name the user", "user")
        service.access.users.grant(name, role_named(fields.get("role", "").strip()), actor=actor)

    then = page_of(fields.get("user", "").strip())
    return await answered(request, asker, fields, draw=draw, do=in_thread(do, then))


@form(router, "/access/revoke/{user}/{role}", dependencies=_ACCESS)
async def revoke(request: Asked, service: Serving, asker: Asking, user: str, role: str) -> Response:
    actor, users = asker.identity.user, service.access.users

    def draw(**more: Any) -> Response:
        granted = role_named(role)
        if granted not in users.get(user).grants and "error" not in more:
            raise NotFound(f"user {user} does not have the role {granted}")
        return form_shown(
            request,
            service,
            "sure.html",
            does=f"Revoke {granted} of {user}",
            says=f"{user} loses what only this role allows with the next request. Workflows keep running.",
            address="/access",
            act=f"revoke/{quote(user, safe='')}/{quote(str(granted), safe='')}",
            **more,
        )

    do = in_thread(lambda: users.withdraw(user, role_named(role), actor=actor), page_of(user))
    return await answered(request, asker, await sent(request), draw=draw, do=do)
