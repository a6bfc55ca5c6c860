"""Credentials of the user: they can be set, deleted, and listed without their values, which are never shown."""

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Path, Response

from runrig.api.v1.frame import IfMatch, User, creates, empties, reply, shows
from runrig.api.v1.paging import USUAL_PAGE, Cursor, Limit, cut
from runrig.domain import credentials
from runrig.domain.access import Permission
from runrig.domain.credentials import CredentialKind
from runrig.domain.shown.access import Credential, CredentialPage, Resealed
from runrig.http.error_docs import NO_CREDENTIAL
from runrig.http.permissions import needs
from runrig.http.routing import Route, Serving
from runrig.wire import v1

router = APIRouter(route_class=Route, tags=["access"])

_OWN = [needs(Permission.OWN_CREDENTIALS)]
_CHANGE = [needs(Permission.CHANGE_OWN)]

Name = Annotated[str, Path(description="Letters, digits, '-' and '_'")]


@router.get(
    "/api/v1/credentials",
    summary="List your credentials, without values",
    dependencies=_OWN,
    responses=shows(CredentialPage),
)
def list_credentials(service: Serving, user: User, limit: Limit = USUAL_PAGE, cursor: Cursor = None) -> CredentialPage:
    page, following = cut(service.access.credentials.of(user), _by_name, limit, cursor, str)
    return CredentialPage(following, tuple(map(Credential.of, page)))


def _by_name(credential: credentials.Credential) -> tuple[str]:
    return (credential.name,)


@router.get(
    "/api/v1/credentials/{name}",
    summary="Show one of your credentials, without values",
    dependencies=_OWN,
    responses=shows(Credential, 404, tag=True, said={404: NO_CREDENTIAL}),
)
def get_credential(service: Serving, user: User, name: Name) -> Credential:
    return Credential.of(service.access.credentials.get(user, name))


@router.put(
    "/api/v1/credentials/{name}",
    summary="Create or replace a credential",
    description="Returns 201 for a new credential, 200 for a replaced one.",
    dependencies=_CHANGE,
    responses=creates(Credential, 404, 409, 412, 413, tag=True, tries=True),
)
def put_credential(service: Serving, user: User, name: Name, expected: IfMatch, body: v1.CredentialRequest) -> Response:
    kind = CredentialKind(body.type)
    made, new = service.access.credentials.set(user, name, kind, body.values, actor=user, expected=expected)
    location = f"/api/v1/credentials/{quote(name, safe='')}" if new else None
    return reply(Credential.of(made), 201 if new else 200, location=location)


@router.delete(
    "/api/v1/credentials/{name}",
    summary="Delete a credential",
    dependencies=_CHANGE,
    responses=empties(404, 412, said={404: NO_CREDENTIAL}),
)
def delete_credential(service: Serving, user: User, expected: IfMatch, name: Name) -> None:
    service.access.credentials.delete(user, name, actor=user, expected=expected)


@router.post(
    "/api/v1/credentials:reseal",
    summary="Encrypt all credentials with the newest key of the key file",
    dependencies=[needs(Permission.ACCESS)],
    responses=shows(Resealed),
)
def reseal_credentials(service: Serving, user: User) -> Resealed:
    count, unread = service.access.credentials.reseal(actor=user)
    return Resealed(count, unread)
