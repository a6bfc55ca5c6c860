"""Routes with which the osmo client sets, lists and deletes credentials."""

from collections.abc import Iterable, Mapping

from fastapi import APIRouter

from runrig import wire
from runrig.domain.access import Permission
from runrig.domain.credentials import Credential, CredentialKind
from runrig.domain.errors import InvalidInput
from runrig.http.error_docs import NO_CREDENTIAL
from runrig.http.permissions import needs
from runrig.http.routing import Route, Serving, User, answers

router = APIRouter(route_class=Route, tags=["access"])

_OWN = [needs(Permission.OWN_CREDENTIALS)]
_CHANGE = [needs(Permission.CHANGE_OWN)]


@router.get(
    "/api/credentials",
    summary="List your credentials, without values",
    dependencies=_OWN,
    responses=answers(wire.CredentialsAnswer),
)
def list_credentials(service: Serving, user: User) -> wire.CredentialsAnswer:
    return _answer(service.access.credentials.of(user))


@router.post(
    "/api/credentials/{name}",
    summary="Create or replace a credential",
    dependencies=_CHANGE,
    responses=answers(wire.CredentialsAnswer, 404, 409, 413),
)
def set_credential(service: Serving, user: User, name: str, body: wire.CredentialSetRequest) -> wire.CredentialsAnswer:
    kind, values = _sent(body)
    made, _ = service.access.credentials.set(user, name, kind, values, actor=user)
    return _answer([made])


def _sent(body: wire.CredentialSetRequest) -> tuple[CredentialKind, Mapping[str, str]]:
    """Raises InvalidInput unless exactly one kind was sent."""
    generic = None if body.generic_credential is None else body.generic_credential.credential
    data = None if body.data_credential is None else {key: each for key, each in body.data_credential.items() if each}
    sent = {
        CredentialKind.GENERIC: generic,
        CredentialKind.REGISTRY: _with_auth(body.registry_credential),
        CredentialKind.DATA: data,
    }
    found = [(kind, values) for kind, values in sent.items() if values is not None]
    if len(found) != 1:
        raise InvalidInput.one("send one of generic_credential, registry_credential and data_credential")
    return found[0]


def _with_auth(values: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """Accepts `password` as another name of `auth`."""
    if values is None or "password" not in values or "auth" in values:
        return values
    return {"auth" if key == "password" else key: value for key, value in values.items()}


@router.delete(
    "/api/credentials/{name}",
    summary="Delete a credential",
    dependencies=_CHANGE,
    responses=answers(wire.CredentialsAnswer, 404, said={404: NO_CREDENTIAL}),
)
def delete_credential(service: Serving, user: User, name: str) -> wire.CredentialsAnswer:
    return _answer([service.access.credentials.delete(user, name, actor=user)])


def _answer(found: Iterable[Credential]) -> wire.CredentialsAnswer:
    return wire.CredentialsAnswer(
        credentials=[
            wire.CredentialAnswer(cred_name=each.name, cred_type=each.kind.value, profile=each.profile or "-")
            for each in found
        ]
    )
