"""Sign-ins with the identity provider: its answer becomes a token of this server, for 15 minutes.

The client keeps the refresh token for renewals, so this server has nothing to steal. A user of the provider is
identified by issuer and subject, and has a name that begins with `oidc:`, unlike local users.
"""

import hashlib
import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from runrig.domain.access import LONGEST_USER_NAME, Grant, SignIn, User, user_problem
from runrig.domain.errors import InvalidInput, NotAllowed, TooMany
from runrig.domain.shown.server import DeviceStarted, SignedIn
from runrig.domain.trail import AccessEventKind
from runrig.domain.value import at
from runrig.service.access import jwts
from runrig.service.access.accounts import Accounts
from runrig.service.access.logins import FailedLogins, Limit
from runrig.service.access.oidc.fetching import ProviderSilent
from runrig.service.access.oidc.id_tokens import Expected, checked
from runrig.service.access.oidc.metadata import Metadata
from runrig.service.access.oidc.provider import Pending, Provider, ProviderTokens, TimeLeft
from runrig.service.runtime import logs
from runrig.spec.serve_settings import OidcSpec, is_loopback

PREFIX = "oidc:"
AT_ONCE = 8
"""Maximum concurrent sign-ins, so that a slow provider cannot block the threads of other requests."""
FAILURES = Limit(30, 2.0)
"""Failed attempts per address. Each attempt calls the provider, so excess ones are refused before that."""
_NAMES = ("preferred_username", "email", "upn", "sub")
"""Claims that can become a name; the first valid one is used."""

_log = logging.getLogger(__name__)


class SignIns:
    """*key*: signs the tokens."""

    def __init__(self, spec: OidcSpec, accounts: Accounts, key: str, provider: Provider | None = None) -> None:
        self.spec = spec
        self._accounts = accounts
        self._key = key
        self._provider = provider or Provider(spec)
        self._turns = threading.BoundedSemaphore(AT_ONCE)
        self._failures = FailedLogins(FAILURES)
        self.latest: dict[str, SignIn] = {}
        """The provider's latest answer, by user."""

    def metadata(self) -> Metadata:
        """Returns where to send a browser. Raises ProviderSilent, ProviderUnusable."""
        with self._turn():
            return self._provider.metadata(TimeLeft())

    def start_device(self, source: str) -> DeviceStarted:
        with self._turn(), self._attempt(source):
            return self._provider.start_device(TimeLeft())

    def by_code(
        self, code: str, *, verifier: str, redirect_uri: str, nonce: str | None, own: str, source: str
    ) -> SignedIn:
        """*verifier*: of PKCE. *own*: the address of this server as it was called; only it and loopback are allowed as
        return addresses.

        *nonce* None: for the osmo client, which compares it itself and is reached at the name of loopback.
        """
        if not _returns_here(redirect_uri, own, by_name=nonce is None):
            raise InvalidInput.one(
                f"invalid redirect_uri {redirect_uri!r:.200}. It must be on loopback or on {own}",
                "redirect_uri",
            )
        grant = {
            "grant_type": "authorization_code",
            "code": code,
            "code_verifier": verifier,
            "redirect_uri": redirect_uri,
        }
        return self._signed_in(grant, nonce, source, passes_nonce=nonce is None)

    def by_device(self, code: str, source: str) -> SignedIn:
        """Returns the sign-in of device code *code*. Raises Pending until the user has decided."""
        grant = {"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": code}
        return self._signed_in(grant, None, source)

    def renewed(self, refresh_token: str, source: str) -> SignedIn:
        """Returns the provider's current answer."""
        grant = {"grant_type": "refresh_token", "refresh_token": refresh_token}
        found = self._signed_in(grant, None, source, note=False)
        return found if found.refresh_token else replace(found, refresh_token=refresh_token)

    def _signed_in(
        self,
        grant: Mapping[str, str],
        nonce: str | None,
        source: str,
        *,
        note: bool = True,
        passes_nonce: bool = False,
    ) -> SignedIn:
        time_left = TimeLeft()
        with self._turn(), self._attempt(source):
            given = self._provider.tokens(grant, time_left)
            claims = self._claims(given, nonce, time_left)
            user = self._user(claims, note=note)
            if user.disabled:
                raise NotAllowed(
                    f"user {user.name} is disabled on this server. An administrator can enable it with `runrig user enable`"
                )
            grants = self._grants(claims)
            passed = claims.get("nonce") if passes_nonce else None
            token, ends_at = self._token(user, grants, passed if isinstance(passed, str) else None)
        return SignedIn(user.name, token, at(ends_at), jwts.SIGN_IN_S, given.refresh, grants)

    def _claims(self, given: ProviderTokens, nonce: str | None, time_left: TimeLeft) -> Mapping[str, Any]:
        algorithms = self._provider.metadata(time_left).algorithms
        expected = Expected(algorithms, nonce, given.access, self._accounts.now())
        return checked(
            given.id, self.spec, expected, lambda id, algorithm: self._provider.key(id, algorithm, time_left)
        )

    def _user(self, claims: Mapping[str, Any], *, note: bool) -> User:
        """Returns the user for the provider's account, created at the first sign-in."""
        account = f"{self.spec.issuer}#{claims['sub']}"
        with self._accounts.changing("oidc") as change:
            rows = self._accounts.rows
            user = rows.by_account.get(account)
            if user is not None and not note:
                return user
            if user is None:
                user = User(_free_name(claims, account, rows.users), (), change.now, account=account)
                change.user(user, AccessEventKind.USER_CREATED)
            change.tell(AccessEventKind.SIGNED_IN, user.name, self.spec.issuer)
        return self._accounts.rows.users[user.name]

    def _grants(self, claims: Mapping[str, Any]) -> tuple[Grant, ...]:
        """Returns the roles of the groups."""
        found = claims.get(self.spec.groups_claim)
        named = [found] if isinstance(found, str) else found if isinstance(found, list) else []
        groups = {each for each in named if isinstance(each, str)}
        grants: dict[Grant, None] = {}
        for group, roles in self.spec.role_map.items():
            if group in groups:
                grants |= dict.fromkeys(roles)
        return tuple(grants)

    def _token(self, user: User, grants: tuple[Grant, ...], nonce: str | None) -> tuple[str, int]:
        """Returns (a token of this server with *grants*, when it expires)."""
        token, ends_at = jwts.for_sign_in(self._key, user.name, grants, self._accounts.now(), nonce)
        if len(token) > jwts.LONGEST:
            raise NotAllowed(
                f"the groups of {user.name} grant too many roles for a token ({len(grants)}). Map a group to a role for all pools"
            )
        self.latest[user.name] = SignIn(grants, ends_at)
        return token, ends_at

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if not self._turns.acquire(blocking=False):
            raise ProviderSilent(f"too many sign-ins in progress ({AT_ONCE}). Try again in a few seconds")
        try:
            yield
        finally:
            self._turns.release()

    @contextmanager
    def _attempt(self, source: str) -> Iterator[None]:
        """Counts refusals, and refuses further attempts from an address with too many."""
        now = self._accounts.now()
        wait_s = self._failures.wait_s(source, now)
        if wait_s is not None:
            raise TooMany(f"too many failed sign-ins. Try again in {wait_s} s", wait_s)
        try:
            yield
        except Pending:
            raise
        except NotAllowed as error:
            if self._failures.count(source, now) is None:
                _log.warning("%s", logs.line("sign_in_failed", source=source, problem=error.message))
            raise


def _free_name(claims: Mapping[str, Any], account: str, taken: Mapping[str, object]) -> str:
    """Returns an unused name: the name of one account is never given to another."""
    wanted = next(filter(None, (_name(claims.get(each)) for each in _NAMES)), None)
    wanted = wanted or hashlib.sha256(account.encode()).hexdigest()[:16]
    name, number = PREFIX + wanted, 1
    while name in taken:
        number += 1
        name = f"{PREFIX}{wanted}-{number}"
    return name


def _name(value: object) -> str | None:
    room = LONGEST_USER_NAME - len(PREFIX) - 8
    return value if isinstance(value, str) and len(value) <= room and user_problem(value) is None else None


def _returns_here(uri: str, own: str, *, by_name: bool) -> bool:
    try:
        parts = urlsplit(uri)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return False
    if not uri.isascii() or not uri.isprintable() or "@" in parts.netloc or "\\" in uri or parts.fragment:
        return False
    loopback = is_loopback(host) and (by_name or host != "localhost")
    return (parts.scheme == "http" and loopback) or f"{parts.scheme}://{parts.netloc}" == own
