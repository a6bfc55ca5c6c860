"""The login of the osmo client: with a token, or if configured, with the identity provider.

The client speaks OAuth: it requests the URL for a browser, and sends a code, device code or refresh token to the token
endpoint. That endpoint belongs to this server, which asks the provider and returns its own token, as for the runrig
client (`api.v1.sign_in`).
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from fastapi.responses import JSONResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from runrig.api.osmo import models
from runrig.api.routes import Router
from runrig.domain.errors import NotFound, RunrigError
from runrig.domain.shown.server import SignedIn
from runrig.domain.statuses import status_of
from runrig.http.permissions import OPEN
from runrig.http.routing import Asked, Base, Serving, Source
from runrig.service.access.dev_login import BY_TOKEN
from runrig.service.access.jwts import SIGN_IN_S
from runrig.service.access.oidc.provider import Pending
from runrig.service.service import Service
from runrig.wire.json import to_plain

router = Router("access")

TOKEN, DEVICE = "/api/auth/oidc/token", "/api/auth/oidc/device"
LONGEST_FORM = 16 * 1024
_DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"


def _form(*fields: str) -> dict[str, Any]:
    """Documents the form body of a route."""
    properties = {name: {"type": "string"} for name in fields}
    schema = {"type": "object", "properties": properties, "required": list(fields[:1])}
    example = dict.fromkeys(fields, "")
    return {
        "requestBody": {
            "required": True,
            "content": {"application/x-www-form-urlencoded": {"schema": schema, "example": example}},
        }
    }


@router("GET /api/auth/login", OPEN, errors=(404,))
def login(service: Serving, base: Base) -> models.LoginAnswer:
    """Show login methods other than tokens.

    Returns 404 if single sign-on is not configured. The client shows the message to users who chose another method.
    """
    try:
        signs = service.access.sign_ins
    except NotFound:
        raise NotFound(f"this method is not available. Instead, {BY_TOKEN}") from None
    return models.LoginAnswer(
        device_endpoint=base + DEVICE,
        device_client_id=signs.spec.client_id,
        browser_endpoint=signs.metadata().authorization_endpoint,
        browser_client_id=signs.spec.client_id,
        token_endpoint=base + TOKEN,
    )


@router(f"POST {DEVICE}", OPEN, shows=models.DeviceAnswer, errors=(404,), openapi_extra=_form("client_id", "scope"))
def begin_oidc_device(service: Serving, address: Source) -> Response:
    """Start a device sign-in (OAuth)."""
    try:
        found = service.access.sign_ins.start_device(address)
    except RunrigError as error:
        return _refused(error)
    # The standard has the same fields, without their units.
    return JSONResponse({name.removesuffix("_s"): each for name, each in to_plain(found).items() if each is not None})


@router(
    f"POST {TOKEN}",
    OPEN,
    shows=models.OAuthTokenAnswer,
    errors=(404,),
    openapi_extra=_form("grant_type", "code", "code_verifier", "redirect_uri", "refresh_token", "device_code"),
)
async def give_oidc_token(service: Serving, request: Asked, base: Base, address: Source) -> Response:
    """Exchange a code, device code or refresh token for a token of 15 minutes (OAuth).

    Returns 400 with `error` and `error_description` if there is no token, or not yet.
    """
    form = await _fields(request)
    return await run_in_threadpool(_given, service, form, base, address)


async def _fields(request: Request) -> Mapping[str, str]:
    """Returns the fields of a form, the last value of each; none if it is not a form, or too long."""
    body = await request.body()
    try:
        found = parse_qs(body.decode("ascii"), max_num_fields=20) if len(body) <= LONGEST_FORM else {}
    except ValueError:
        return {}
    return {name: values[-1] for name, values in found.items()}


def _given(service: Service, form: Mapping[str, str], base: str, address: str) -> Response:
    try:
        found = _signed_in(service, form, base, address)
    except Pending as error:
        return _error("slow_down" if error.details["slower"] else "authorization_pending", error.message)
    except RunrigError as error:
        return _refused(error)
    if found is None:
        how = form.get("grant_type", "")
        return _error("unsupported_grant_type", f"method {how!r:.80} is not available. Instead, {BY_TOKEN}")
    answer = models.OAuthTokenAnswer(id_token=found.token, refresh_token=found.refresh_token, expires_in=SIGN_IN_S)
    return Response(answer.model_dump_json(), media_type="application/json")


def _signed_in(service: Service, form: Mapping[str, str], base: str, address: str) -> SignedIn | None:
    """Returns None for a grant type other than these three."""
    signs, text = service.access.sign_ins, form.get
    match form.get("grant_type"):
        case "authorization_code":
            verifier, uri = text("code_verifier", ""), text("redirect_uri", "")
            return signs.by_code(
                text("code", ""), verifier=verifier, redirect_uri=uri, nonce=None, own=base, source=address
            )
        case "refresh_token":
            return signs.renewed(text("refresh_token", ""), address)
        case kind if kind == _DEVICE_CODE:
            return signs.by_device(text("device_code", ""), address)
    return None


def _refused(error: RunrigError) -> Response:
    """Returns errors as in OAuth; faults of the server and of the provider have the usual format."""
    if isinstance(error, NotFound) or status_of(error) in (429, 500, 503):
        raise error
    return _error("invalid_grant", error.message)


def _error(code: str, text: str) -> Response:
    return JSONResponse({"error": code, "error_description": text}, 400)


@router("POST /api/auth/jwt/access_token", OPEN)
def exchange(
    service: Serving,
    address: Source,
    body: models.ExchangeRequest,
) -> models.ExchangeAnswer:
    """Exchange an access token for a JWT of five minutes (for the osmo client)."""
    token, expires_at = service.access.authentication.exchange(body.token, address)
    return models.ExchangeAnswer(token=token, expires_at=expires_at)
