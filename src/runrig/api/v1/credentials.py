"""Credentials of the user: they can be set, deleted, and listed without their values, which are never shown."""

from typing import Annotated
from urllib.parse import quote

from fastapi import Path, Response

from runrig.api.error_docs import NO_CREDENTIAL
from runrig.api.routes import Router
from runrig.api.v1.paging import USUAL_PAGE, Cursor, Limit, cut
from runrig.domain import credentials
from runrig.domain.access import Permission
from runrig.domain.credentials import CredentialKind
from runrig.domain.shown.access import Credential, CredentialPage, Resealed
from runrig.http.permissions import needs
from runrig.http.routing import IfMatch, Serving, User, reply
from runrig.wire import v1

router = Router("access")

_OWN = needs(Permission.OWN_CREDENTIALS)
_CHANGE = needs(Permission.CHANGE_OWN)

Name = Annotated[str, Path(description="Letters, digits, '-' and '_'")]


@router("GET /api/v1/credentials", _OWN)
def list_credentials(service: Serving, user: User, limit: Limit = USUAL_PAGE, cursor: Cursor = None) -> CredentialPage:
    """List your credentials, without values."""
    page, following = cut(service.access.credentials.of(user), _by_name, limit, cursor, str)
    return CredentialPage(following, tuple(map(Credential.of, page)))


def _by_name(credential: credentials.Credential) -> tuple[str]:
    return (credential.name,)


@router("GET /api/v1/credentials/{name}", _OWN, tag=True, said={404: NO_CREDENTIAL})
def get_credential(service: Serving, user: User, name: Name) -> Credential:
    """Show one of your credentials, without values."""
    return Credential.of(service.access.credentials.get(user, name))


@router("PUT /api/v1/credentials/{name}", _CHANGE, creates=Credential, tag=True, tries=True, errors=(409,))
def put_credential(service: Serving, user: User, name: Name, expected: IfMatch, body: v1.CredentialRequest) -> Response:
    """Create or replace a credential.

    Returns 201 for a new credential, 200 for a replaced one.
    """
    kind = CredentialKind(body.type)
    made, new = service.access.credentials.set(user, name, kind, body.values, actor=user, expected=expected)
    location = f"/api/v1/credentials/{quote(name, safe='')}" if new else None
    return reply(Credential.of(made), 201 if new else 200, location=location)


@router("DELETE /api/v1/credentials/{name}", _CHANGE, said={404: NO_CREDENTIAL})
def delete_credential(service: Serving, user: User, expected: IfMatch, name: Name) -> None:
    """Delete a credential."""
    service.access.credentials.delete(user, name, actor=user, expected=expected)


@router("POST /api/v1/credentials:reseal", needs(Permission.ACCESS))
def reseal_credentials(service: Serving, user: User) -> Resealed:
    """Encrypt all credentials with the newest key of the key file."""
    count, unread = service.access.credentials.reseal(actor=user)
    return Resealed(count, unread)
