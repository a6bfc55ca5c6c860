"""The user's credentials on `/me`: created, replaced, deleted. No page shows a value, also not one that was just typed."""

from functools import partial
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Response

from runrig.domain.access import Permission
from runrig.domain.credentials import CredentialKind
from runrig.domain.errors import InvalidInput
from runrig.http.permissions import Asking, needs
from runrig.http.routing import Route, Serving
from runrig.spec.credentials import read_values
from runrig.web.asking import answered, form, form_shown, in_thread
from runrig.web.forms import sent
from runrig.web.pages.parts import Asked

router = APIRouter(route_class=Route, include_in_schema=False)

KINDS = tuple(each.value for each in CredentialKind)
_CHANGE = [needs(Permission.CHANGE_OWN)]


@form(router, "/me/credential", dependencies=_CHANGE)
async def credential(
    request: Asked, service: Serving, asker: Asking, of: Annotated[str, Query(max_length=200)] = ""
) -> Response:
    """*of*: the credential to replace."""
    fields, user = await sent(request), asker.identity.user

    def draw(**more: Any) -> Response:
        before = service.access.credentials.get(user, of) if of else None
        usual = {"name": of, "type": KINDS[0] if before is None else before.kind.value}
        typed = usual | {name: fields[name] for name in usual if name in fields}
        known = ("name", "type", "values")
        return form_shown(
            request, service, "me_credential.html", known, typed=typed, before=before, kinds=KINDS, **more
        )

    def do() -> None:
        if (kind := fields.get("type")) not in KINDS:
            raise InvalidInput.one("choose a type from the list", "type")
        name = fields.get("name", "").strip()
        values = read_values(fields.get("values", ""), "text")
        service.access.credentials.set(user, name, CredentialKind(kind), values, actor=user)

    return await answered(request, asker, fields, draw=draw, do=in_thread(do, "/me"))


@form(router, "/me/credential/delete/{name}", dependencies=_CHANGE)
async def delete(request: Asked, service: Serving, asker: Asking, name: str) -> Response:
    user = asker.identity.user

    def draw(**more: Any) -> Response:
        it = service.access.credentials.get(user, name)
        says = "Running tasks keep its values; tasks that start later fail without it."
        act, does = f"credential/delete/{quote(it.name, safe='')}", f"Delete credential {it.name}"
        return form_shown(request, service, "sure.html", does=does, says=says, address="/me", act=act, **more)

    do = in_thread(partial(service.access.credentials.delete, user, name, actor=user), "/me")
    return await answered(request, asker, await sent(request), draw=draw, do=do)
