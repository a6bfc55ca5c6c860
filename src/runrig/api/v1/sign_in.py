"""Sign-in with the identity provider, for the command line and for pages of this server: exchanges codes for a token of
this server. And of a browser, by a user who is logged in on the command line.

The routes are open, because clients have no token yet, except for the last one. They send a code or a refresh token, which only the
provider can verify.
"""

from runrig.api.error_docs import Said
from runrig.api.routes import Router
from runrig.domain.access import Permission
from runrig.domain.shown.server import BrowserCode, DeviceStarted, SignedIn, SignInOffer
from runrig.http.permissions import OPEN, needs
from runrig.http.routing import Base, Serving, Source, Who
from runrig.service.access.browser_sessions import CODE_S
from runrig.wire import v1

router = Router("access")

_NONE: Said = ("single sign-on is not configured on this server. Log in with a token: `runrig login URL`", {})
_REFUSED: Said = ("the identity provider refused: invalid_grant", {"provider": "invalid_grant"})
_PENDING: Said = (
    "the sign-in is not confirmed yet. Try again after the interval",
    {"pending": True, "slower": False},
)
_SAID = {403: _REFUSED, 404: _NONE}


@router("GET /api/v1/sign-in", OPEN, said=_SAID)
def get_sign_in(service: Serving) -> SignInOffer:
    """Show where to sign in."""
    signs = service.access.sign_ins
    found = signs.metadata()
    return SignInOffer(
        issuer=signs.spec.issuer,
        client_id=signs.spec.client_id,
        authorization_endpoint=found.authorization_endpoint,
        scope=found.scopes,
        device=found.device_endpoint is not None,
    )


@router("POST /api/v1/sign-in/code", OPEN, said=_SAID)
def sign_in_by_code(service: Serving, base: Base, address: Source, body: v1.SignInByCode) -> SignedIn:
    """Exchange an authorization code for a token."""
    return service.access.sign_ins.by_code(
        body.code,
        verifier=body.code_verifier,
        redirect_uri=body.redirect_uri,
        nonce=body.nonce,
        own=base,
        source=address,
    )


@router("POST /api/v1/sign-in/device", OPEN, said=_SAID)
def start_device_sign_in(service: Serving, address: Source) -> DeviceStarted:
    """Start a device sign-in."""
    return service.access.sign_ins.start_device(address)


@router("POST /api/v1/sign-in/device/token", OPEN, said=_SAID | {409: _PENDING})
def sign_in_by_device(service: Serving, address: Source, body: v1.SignInByDevice) -> SignedIn:
    """Get a token once the user has confirmed the device.

    Returns 409 with `pending` until then. Try again after the interval, and add five seconds to it each time that
    `slower` is true.
    """
    return service.access.sign_ins.by_device(body.device_code, address)


@router("POST /api/v1/sign-in/renewal", OPEN, said=_SAID)
def renew_sign_in(service: Serving, address: Source, body: v1.SignInRenewal) -> SignedIn:
    """Exchange a refresh token for a new token with the user's current groups."""
    return service.access.sign_ins.renewed(body.refresh_token, address)


@router("POST /api/v1/browser-codes", needs(Permission.OWN_TOKENS))
def make_browser_code(service: Serving, who: Who) -> BrowserCode:
    """Create a one-time code that signs a browser in as you. It expires after one minute."""
    return BrowserCode(service.access.browsers.make_code(who), int(CODE_S))
