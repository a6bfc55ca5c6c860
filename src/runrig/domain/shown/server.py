"""The server itself, sign-in, sessions and lines of output."""

from dataclasses import dataclass, field
from datetime import datetime

from runrig.domain.access import Grant
from runrig.domain.value import Shown, at, shown_as

_TIME = 1769860800.0


@dataclass(frozen=True, slots=True)
class Version(Shown):
    version: str


shown_as(Version("0.1.0"))


@dataclass(frozen=True, slots=True)
class ClusterFile(Shown):
    """YAML of all ACTIVE pools. Nodes and backend are left out, because they cannot be changed after the start."""

    file: str


shown_as(ClusterFile("pools:\n- name: vision\n  quota: {default: {gpu: {nominal: 8}}}\n"))


@dataclass(frozen=True, slots=True)
class ClockAccepted(Shown):
    """The server's time before and after it accepted the system clock. *doubt*: why it had not trusted the clock; null
    if it had.
    """

    before: datetime
    now: datetime
    doubt: str | None


shown_as(
    ClockAccepted(at(_TIME), at(_TIME + 5400), doubt="the system clock is 90.0 minutes ahead of the server's time")
)

# ---------------------------------------------------------------- sign-in


@dataclass(frozen=True, slots=True)
class SignInOffer(Shown):
    """Where to sign in. A client sends a browser to `authorization_endpoint` with response_type code, a code_challenge
    (S256), state and nonce.

    *device*: whether the identity provider also supports sign-in without a browser.
    """

    issuer: str
    client_id: str
    authorization_endpoint: str
    scope: str
    device: bool


shown_as(
    SignInOffer(
        issuer="https://login.example.org/realms/people",
        client_id="runrig",
        authorization_endpoint="https://login.example.org/realms/people/protocol/openid-connect/auth",
        scope="openid profile email groups offline_access",
        device=True,
    )
)


@dataclass(frozen=True, slots=True)
class DeviceStarted(Shown):
    """The user opens *verification_uri* on any machine and enters *user_code*; *verification_uri_complete* already contains it."""

    device_code: str = field(repr=False)
    user_code: str
    verification_uri: str
    verification_uri_complete: str | None
    expires_in_s: int
    interval_s: int


shown_as(
    DeviceStarted(
        device_code="the-device-code-of-the-start",
        user_code="WDJB-MJHT",
        verification_uri="https://login.example.org/device",
        verification_uri_complete="https://login.example.org/device?user_code=WDJB-MJHT",
        expires_in_s=600,
        interval_s=5,
    )
)


@dataclass(frozen=True, slots=True)
class SignedIn(Shown):
    """*token*: a token of this server, valid until *expires_at* by the server's clock, or for *expires_in_s* from now.

    *refresh_token*: of the identity provider, for the next renewal; it can change with each renewal. Null: it cannot be
    renewed.
    """

    UNTOLD = ("grants",)

    user: str
    token: str = field(repr=False)
    expires_at: datetime
    expires_in_s: int
    refresh_token: str | None = field(repr=False)
    grants: tuple[Grant, ...] = ()
    """The roles that the groups of the user grant."""

    @property
    def ends_at(self) -> float:
        """*expires_at* in seconds since the epoch."""
        return self.expires_at.timestamp()


shown_as(
    SignedIn(
        user="oidc:alice",
        token="a.token.of-this-server",  # noqa: S106 - an example
        expires_at=at(_TIME + 900),
        expires_in_s=900,
        refresh_token="the-refresh-token-of-the-provider",  # noqa: S106
    )
)


@dataclass(frozen=True, slots=True)
class BrowserCode(Shown):
    """Open `/login#CODE` of this server in a browser to sign in; the code works once, within *expires_in_s*."""

    code: str
    expires_in_s: int


shown_as(BrowserCode("a-code-of-chance-of-43-characters", 300))

# ---------------------------------------------------------------- running tasks


@dataclass(frozen=True, slots=True)
class Session(Shown):
    """Open a WebSocket to ``/api/v1/sessions/{key}`` within a minute, with a token of the same user, to start the
    session.
    """

    key: str


shown_as(Session("EXEC-2vQb0cCkq3mV6aT1y0nXzw"))


@dataclass(frozen=True, slots=True)
class LogRecord(Shown):
    """A line of output, as `format=records` sends it.  *attempt* counts from 0.  *stream*: stdout or stderr."""

    time: datetime
    task: str
    attempt: int
    stream: str
    text: str


shown_as(LogRecord(at(_TIME + 0.25), "main", 0, "stdout", "step 0  loss 7.9"))
