"""Users and their roles, for administrators."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Response

from runrig.api.permissions import Asking, needs
from runrig.api.routing import Route, Serving
from runrig.domain.access import GrantRow, Permission, role_named
from runrig.domain.errors import InvalidInput, NotFound
from runrig.service.service import Service
from runrig.web.asking import answered, form, form_shown, in_thread
from runrig.web.forms import sent
from runrig.web.pages.parts import Asked
from runrig.web.rendering import html

router = APIRouter(route_class=Route, include_in_schema=False)

MOST = 200
"""Users on the page."""
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

    then = f"/access?q={quote(fields.get('user', '').strip())}"
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

    do = in_thread(lambda: users.withdraw(user, role_named(role), actor=actor), f"/access?q={quote(user)}")
    return await answered(request, asker, await sent(request), draw=draw, do=do)
