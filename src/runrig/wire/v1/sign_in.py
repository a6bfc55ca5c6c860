"""Sign-in at the provider of identities: what a client is told, sends and is given."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from runrig.wire.base import Request, example
from runrig.wire.v1.base import Shown

Word = Annotated[str, Field(min_length=1, max_length=8192)]
_ENDPOINT = "https://login.example.org/realms/people/protocol/openid-connect/auth"


class SignInOffer(Shown):
    """What a client needs to send a browser to the provider: `authorization_endpoint` with response_type code, a code_challenge (S256),
    state and nonce.  *device*: whether the provider signs in without a browser too."""

    model_config = example(
        {
            "issuer": "https://login.example.org/realms/people",
            "client_id": "runrig",
            "authorization_endpoint": _ENDPOINT,
            "scope": "openid profile email groups offline_access",
            "device": True,
        }
    )

    issuer: str
    client_id: str
    authorization_endpoint: str
    scope: str
    device: bool


class SignInByCode(Request):
    """*redirect_uri*: as the browser was sent with it: on loopback, or on this server.  *code_verifier*: of PKCE."""

    model_config = example(
        {
            "code": "the-code-that-the-provider-sent-the-browser-back-with",
            "code_verifier": "a-word-of-43-characters-that-only-we-two-know",
            "redirect_uri": "http://127.0.0.1:40123/",
            "nonce": "a-word-that-the-ID-token-repeats",
        }
    )

    code: Word
    code_verifier: Annotated[str, Field(min_length=43, max_length=128)]
    redirect_uri: Annotated[str, Field(min_length=1, max_length=2000)]
    nonce: Annotated[str, Field(min_length=16, max_length=200)]


class SignInByDevice(Request):
    model_config = example({"device_code": "the-device-code-of-the-start"})

    device_code: Word


class SignInRenewal(Request):
    model_config = example({"refresh_token": "the-refresh-token-of-the-sign-in-or-of-the-last-renewal"})

    refresh_token: Word


class DeviceStarted(Shown):
    """The user opens *verification_uri* on any machine and writes *user_code*; *verification_uri_complete* has it already."""

    model_config = example(
        {
            "device_code": "the-device-code-of-the-start",
            "user_code": "WDJB-MJHT",
            "verification_uri": "https://login.example.org/device",
            "verification_uri_complete": "https://login.example.org/device?user_code=WDJB-MJHT",
            "expires_in_s": 600,
            "interval_s": 5,
        }
    )

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str | None
    expires_in_s: int
    interval_s: int


class SignedIn(Shown):
    """*token*: of this server, good until *expires_at*, by its clock, or for *expires_in_s* from now.

    *refresh_token*: of the provider, for the next renewal; it may be another one each time.  Null: it cannot be renewed.
    """

    model_config = example(
        {
            "user": "oidc:alice",
            "token": "a.token.of-this-server",
            "expires_at": "2026-01-31T12:15:00Z",
            "expires_in_s": 900,
            "refresh_token": "the-refresh-token-of-the-provider",
        }
    )

    user: str
    token: str
    expires_at: datetime
    expires_in_s: int
    refresh_token: str | None


class BrowserCode(Shown):
    """Open `/login#CODE` of this server with it: that signs a browser in, once, within *expires_in_s*."""

    model_config = example({"code": "a-code-of-chance-of-43-characters", "expires_in_s": 300})

    code: str
    expires_in_s: int
