"""Sign-in with the identity provider, for the command line and for pages of this server: exchanges codes for a token of
this server.

The routes are open, because clients have no token yet. They send a code or a refresh token, which only the provider can
verify.
"""

from fastapi import APIRouter

from runrig.api.v1.frame import shows
from runrig.domain.shown.server import DeviceStarted, SignedIn, SignInOffer
from runrig.http.error_docs import Said
from runrig.http.permissions import OPEN
from runrig.http.routing import Base, Route, Serving, Source
from runrig.wire import v1

router = APIRouter(route_class=Route, tags=["access"])

_NONE: Said = ("single sign-on is not configured on this server. Log in with a token: `runrig login URL`", {})
_REFUSED: Said = ("the identity provider refused: invalid_grant", {"provider": "invalid_grant"})
_PENDING: Said = (
    "the sign-in is not confirmed yet. Try again after the interval",
    {"pending": True, "slower": False},
)
_SAID = {403: _REFUSED, 404: _NONE, 409: _PENDING}


@router.get(
    "/api/v1/sign-in",
    summary="Show where to sign in",
    dependencies=[OPEN],
    responses=shows(SignInOffer, 404, said=_SAID),
)
def get_sign_in(service: Serving) -> SignInOffer:
    signs = service.access.sign_ins
    found = signs.metadata()
    return SignInOffer(
        issuer=signs.spec.issuer,
        client_id=signs.spec.client_id,
        authorization_endpoint=found.authorization_endpoint,
        scope=found.scopes,
        device=found.device_endpoint is not None,
    )


@router.post(
    "/api/v1/sign-in/code",
    summary="Exchange an authorization code for a token",
    dependencies=[OPEN],
    responses=shows(SignedIn, 404, 413, said=_SAID),
)
def sign_in_by_code(service: Serving, base: Base, address: Source, body: v1.SignInByCode) -> SignedIn:
    return service.access.sign_ins.by_code(
        body.code,
        verifier=body.code_verifier,
        redirect_uri=body.redirect_uri,
        nonce=body.nonce,
        own=base,
        source=address,
    )


@router.post(
    "/api/v1/sign-in/device",
    summary="Start a device sign-in",
    dependencies=[OPEN],
    responses=shows(DeviceStarted, 404, said=_SAID),
)
def start_device_sign_in(service: Serving, address: Source) -> DeviceStarted:
    return service.access.sign_ins.start_device(address)


@router.post(
    "/api/v1/sign-in/device/token",
    summary="Get a token once the user has confirmed the device",
    description="Returns 409 with `pending` until then. Try again after the interval, and add five seconds to it each time that `slower` "
    "is true.",
    dependencies=[OPEN],
    responses=shows(SignedIn, 404, 409, 413, said=_SAID),
)
def sign_in_by_device(service: Serving, address: Source, body: v1.SignInByDevice) -> SignedIn:
    return service.access.sign_ins.by_device(body.device_code, address)


@router.post(
    "/api/v1/sign-in/renewal",
    summary="Exchange a refresh token for a new token with the user's current groups",
    dependencies=[OPEN],
    responses=shows(SignedIn, 404, 413, said=_SAID),
)
def renew_sign_in(service: Serving, address: Source, body: v1.SignInRenewal) -> SignedIn:
    return service.access.sign_ins.renewed(body.refresh_token, address)
