"""The user, the pools to which they may submit, and their settings."""

from dataclasses import asdict

from runrig.api.error_docs import CLOSED, NO_POOL
from runrig.api.osmo import models
from runrig.api.osmo.accounts import NEVER, name_of
from runrig.api.routes import Router
from runrig.domain.access import Permission
from runrig.domain.errors import InvalidInput
from runrig.http.permissions import Asking, needs
from runrig.http.routing import NamedUser, Serving
from runrig.service.rights import Asker
from runrig.service.service import Service
from runrig.wire.base import utc

router = Router("access")

_CONNECT = needs(Permission.CONNECT)


@router("GET /api/profile/settings", _CONNECT)
def profile(service: Serving, user: NamedUser, asker: Asking) -> models.ProfileAnswer:
    """Show your user, your pools and your settings."""
    return _answer(service, user, asker)


@router("POST /api/profile/settings", needs(Permission.CHANGE_OWN), said={404: NO_POOL, 409: CLOSED})
def set_profile(service: Serving, user: NamedUser, asker: Asking, body: models.ProfileRequest) -> models.ProfileAnswer:
    """Set your default pool or your notifications."""
    changes = body.model_dump(exclude_none=True)
    if not changes:
        raise InvalidInput.one("no setting given. Send pool, email_notification or slack_notification", "pool")
    if body.pool is not None:
        asker.check_submits(body.pool)
    service.access.set_profile(user, changes)
    return _answer(service, user, asker)


def _answer(service: Service, user: str, asker: Asker) -> models.ProfileAnswer:
    pools, own = asker.submits_to(), service.access.profile(user)
    token = service.access.tokens.get(asker.identity.token)
    return models.ProfileAnswer(
        profile={
            "username": user,
            **{name: value for name, value in asdict(own).items() if name != "pool"},
            "pool": own.default_of(pools),
        },
        roles=[name_of(grant) for grant in asker.identity.grants],
        pools=pools,
        token=None
        if token is None
        else {"name": token.name, "expires_at": (utc(token.expires_at) or NEVER).isoformat()},
    )
