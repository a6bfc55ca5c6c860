"""The identity provider: its metadata and keys, and tokens for codes.

Metadata and keys are cached for an hour. Unknown keys are looked up again, but not for every token.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from jwt import PyJWK, PyJWTError

from runrig.domain.errors import Conflict, NotAllowed
from runrig.domain.shown.server import DeviceStarted
from runrig.service.access.oidc.fetching import ProviderSilent, fetch
from runrig.service.access.oidc.metadata import Metadata, ProviderUnusable, discovery_url, read_metadata
from runrig.spec import strict_json
from runrig.spec.serve_settings import OidcSpec

PATIENCE_S = 8.0
"""Seconds for all requests of a sign-in, because unauthenticated connections end after 10 s."""
KEPT_S = 3600.0
SEARCH_EVERY_S = 30.0
"""Minimum seconds between lookups of unknown keys."""
MOST_KEYS = 100
SHORTEST_RSA = 2048
_PENDING = ("authorization_pending", "slow_down")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ProviderTokens:
    """*refresh* None: it cannot be renewed."""

    id: str = field(repr=False)
    access: str = field(repr=False)
    refresh: str | None = field(repr=False)


class Pending(Conflict):
    """The user has not decided yet."""

    def __init__(self, slower: bool) -> None:
        details = {"pending": True, "slower": slower}
        super().__init__("the sign-in is not confirmed yet. Try again after the interval", details)


class TimeLeft:
    def __init__(self, seconds: float = PATIENCE_S) -> None:
        self._end = time.monotonic() + seconds

    def seconds(self) -> float:
        return max(0.05, self._end - time.monotonic())


class Provider:
    """Thread-safe. *clock*: monotonic seconds."""

    def __init__(self, spec: OidcSpec, clock: Callable[[], float] = time.monotonic) -> None:
        self._spec = spec
        self._clock = clock
        self._lock = threading.Lock()
        self._metadata: tuple[float, Metadata] | None = None
        self._keys: tuple[float, tuple[Mapping[str, Any], ...]] | None = None
        self._searched_at = float("-inf")

    def metadata(self, time_left: TimeLeft) -> Metadata:
        """Returns the discovery document, up to KEPT_S old. Raises ProviderSilent, ProviderUnusable."""
        kept = self._fresh(self._metadata, KEPT_S)
        if kept is None:
            kept = read_metadata(self._document(discovery_url(self._spec.issuer), time_left), self._spec)
            self._metadata = self._clock(), kept
        return kept

    def key(self, id: str | None, algorithm: str, time_left: TimeLeft) -> PyJWK:
        """Returns the public key *id* (None: the only one that fits) for *algorithm*. Raises NotAllowed if there is none."""
        with self._lock:  # Concurrent callers share one lookup.
            keys = self._fresh(self._keys, KEPT_S)
            if keys is None:
                keys = self._load_keys(time_left)
            found = self._found(keys, id, algorithm)
            if found is None and self._clock() - self._searched_at >= SEARCH_EVERY_S:
                self._searched_at = self._clock()
                found = self._found(self._load_keys(time_left), id, algorithm)
        if found is None:
            raise NotAllowed(
                f"the ID token is signed with key {id!r:.80} for {algorithm}, which the identity provider does not publish"
            )
        return found

    def _load_keys(self, time_left: TimeLeft) -> tuple[Mapping[str, Any], ...]:
        plain = self._document(self.metadata(time_left).jwks_uri, time_left).get("keys")
        keys = tuple(each for each in plain[:MOST_KEYS] if isinstance(each, dict)) if isinstance(plain, list) else ()
        self._keys = self._clock(), keys
        return keys

    def _found(self, keys: tuple[Mapping[str, Any], ...], id: str | None, algorithm: str) -> PyJWK | None:
        fitting = [each for each in keys if id in (None, each.get("kid")) and _fits(each, algorithm)]
        if len(fitting) != 1:  # Two keys with one name: neither can be trusted.
            return None
        try:
            key = PyJWK(dict(fitting[0]), algorithm)
        except (PyJWTError, ValueError, TypeError):
            return None
        short = key.key_type == "RSA" and key.key.key_size < SHORTEST_RSA
        return None if short else key

    def tokens(self, grant: Mapping[str, str], time_left: TimeLeft) -> ProviderTokens:
        """Returns the token endpoint's answer to *grant*. Raises Pending, NotAllowed, ProviderSilent, ProviderUnusable."""
        url = self.metadata(time_left).token_endpoint
        plain = self._posted(url, grant, time_left)
        if "id_token" not in plain and isinstance(plain.get("refresh_token"), str):
            # RFC 8628 does not mention ID tokens, so a device may get one only at the first renewal.
            plain = self._posted(
                url, {"grant_type": "refresh_token", "refresh_token": plain["refresh_token"]}, time_left
            )
        id, access, refresh = (plain.get(name) for name in ("id_token", "access_token", "refresh_token"))
        if not isinstance(id, str):
            raise ProviderUnusable(
                "the identity provider returned no ID token. Give its client the scope openid, for renewals too"
            )
        return ProviderTokens(
            id, access if isinstance(access, str) else "", refresh if isinstance(refresh, str) and refresh else None
        )

    def start_device(self, time_left: TimeLeft) -> DeviceStarted:
        metadata = self.metadata(time_left)
        if metadata.device_endpoint is None:
            raise NotAllowed("the identity provider does not support device sign-in. Omit --device")
        plain = self._posted(metadata.device_endpoint, {"scope": metadata.scopes}, time_left)
        try:
            full = plain.get("verification_uri_complete")
            return DeviceStarted(
                _text(plain["device_code"]),
                _text(plain["user_code"]),
                _text(plain["verification_uri"]),
                None if full is None else _text(full),
                int(plain["expires_in"]),
                max(1, min(60, int(plain.get("interval", 5)))),
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            raise ProviderUnusable("the identity provider's device response does not follow RFC 8628") from None

    def _posted(self, url: str, form: Mapping[str, str], time_left: TimeLeft) -> Mapping[str, Any]:
        status, plain = self._asked(url, {**form, "client_id": self._spec.client_id}, time_left)
        if status == 200 and plain is not None:
            return plain
        error = plain.get("error") if plain is not None else None
        if status >= 500 or not isinstance(error, str):
            raise ProviderSilent(f"the identity provider returned an unusable response at {url} (status {status})")
        if error in _PENDING:
            raise Pending(error == _PENDING[1])
        raise NotAllowed(f"the identity provider refused: {_said(error)}{_because(plain)}", {"provider": _said(error)})

    def _document(self, url: str, time_left: TimeLeft) -> Mapping[str, Any]:
        status, plain = self._asked(url, None, time_left)
        if status != 200 or plain is None:
            raise ProviderSilent(f"the identity provider returned an unusable response at {url} (status {status})")
        return plain

    def _asked(
        self, url: str, form: Mapping[str, str] | None, time_left: TimeLeft
    ) -> tuple[int, Mapping[str, Any] | None]:
        """Returns (status, the object in the response or None)."""
        fetched = fetch(url, form, time_left.seconds())
        try:
            plain = strict_json.read(fetched.body)
        except (ValueError, RecursionError):
            plain = None
        return fetched.status, plain if isinstance(plain, dict) else None

    def _fresh(self, kept: tuple[float, T] | None, seconds: float) -> T | None:
        return None if kept is None or self._clock() - kept[0] >= seconds else kept[1]


def _fits(key: Mapping[str, Any], algorithm: str) -> bool:
    return (
        key.get("kty") in ("RSA", "EC", "OKP")
        and key.get("use") in (None, "sig")
        and key.get("alg") in (None, algorithm)
    )


def _text(value: object) -> str:
    """Raises ValueError for text that is not safe to show on a terminal."""
    if not isinstance(value, str) or not value.isprintable() or not 0 < len(value) <= 2000:
        raise ValueError
    return value


def _said(error: object) -> str:
    return error if isinstance(error, str) and error.isidentifier() and len(error) <= 40 else "no reason given"


def _because(plain: Mapping[str, Any] | None) -> str:
    words = plain.get("error_description") if plain is not None else None
    return f" ({words[:200]})" if isinstance(words, str) and words.isprintable() and words else ""
