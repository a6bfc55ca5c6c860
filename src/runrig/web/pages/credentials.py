"""The user's credentials on `/me`: created, replaced, deleted. No page shows a value, also not one that was just typed."""

from functools import partial
from typing import Annotated, Any

from fastapi import Query, Response

from runrig.domain.access import Permission
from runrig.domain.credentials import CredentialKind
from runrig.domain.errors import InvalidInput
from runrig.http.permissions import needs
from runrig.spec.credentials import read_values
from runrig.web.asking import Filled
from runrig.web.routes import form

KINDS = tuple(each.value for each in CredentialKind)
_CHANGE = [needs(Permission.CHANGE_OWN)]


@form("/me/credential", dependencies=_CHANGE)
async def credential(it: Filled, of: Annotated[str, Query(max_length=200)] = "") -> Response:
    """*of*: the credential to replace."""
    credentials = it.service.access.credentials

    def draw(**more: Any) -> Response:
        before = credentials.get(it.user, of) if of else None
        usual = {"name": of, "type": KINDS[0] if before is None else before.kind.value}
        typed = usual | {name: it.fields[name] for name in usual if name in it.fields}
        return it.shown("me_credential.html", typed, (*typed, "values"), before=before, kinds=KINDS, **more)

    def do() -> None:
        if (kind := it.fields.get("type")) not in KINDS:
            raise InvalidInput.one("choose a type from the list", "type")
        values = read_values(it.fields.get("values", ""), "text")
        credentials.set(it.user, it.field("name"), CredentialKind(kind), values, actor=it.user)

    return await it.answered(draw, do, "/me")


@form("/me/credential/delete/{name}", dependencies=_CHANGE)
async def delete(it: Filled, name: str) -> Response:
    credentials = it.service.access.credentials

    says = "Running tasks keep its values; tasks that start later fail without it."
    do = partial(credentials.delete, it.user, name, actor=it.user)
    return await it.sure(f"Delete credential {name}", says, do, "/me", partial(credentials.get, it.user, name))
