"""Routes with which the osmo client sets, lists and deletes credentials."""

from collections.abc import Iterable, Mapping

from runrig.api.error_docs import NO_CREDENTIAL
from runrig.api.osmo import models
from runrig.api.routes import Router
from runrig.domain.access import Permission
from runrig.domain.credentials import Credential, CredentialKind
from runrig.domain.errors import InvalidInput
from runrig.http.permissions import needs
from runrig.http.routing import NamedUser, Serving

router = Router("access")

_OWN = needs(Permission.OWN_CREDENTIALS)
_CHANGE = needs(Permission.CHANGE_OWN)


@router("GET /api/credentials", _OWN)
def list_credentials(service: Serving, user: NamedUser) -> models.CredentialsAnswer:
    """List your credentials, without values."""
    return _answer(service.access.credentials.of(user))


@router("POST /api/credentials/{name}", _CHANGE, errors=(409,))
def set_credential(
    service: Serving, user: NamedUser, name: str, body: models.CredentialSetRequest
) -> models.CredentialsAnswer:
    """Create or replace a credential."""
    kind, values = _sent(body)
    made, _ = service.access.credentials.set(user, name, kind, values, actor=user)
    return _answer([made])


def _sent(body: models.CredentialSetRequest) -> tuple[CredentialKind, Mapping[str, str]]:
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


@router("DELETE /api/credentials/{name}", _CHANGE, said={404: NO_CREDENTIAL})
def delete_credential(service: Serving, user: NamedUser, name: str) -> models.CredentialsAnswer:
    """Delete a credential."""
    return _answer([service.access.credentials.delete(user, name, actor=user)])


def _answer(found: Iterable[Credential]) -> models.CredentialsAnswer:
    return models.CredentialsAnswer(
        credentials=[
            models.CredentialAnswer(cred_name=each.name, cred_type=each.kind.value, profile=each.profile or "-")
            for each in found
        ]
    )
