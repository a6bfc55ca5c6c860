"""The token of a single sign-on: saved like other tokens, and renewed before it expires.

Only one process renews at a time: many identity providers treat a second use of a refresh token as theft.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from runrig.client import saved
from runrig.client.saved import Logins, Renewal
from runrig.client.server_address import Address, ServerAddress
from runrig.client.transport import Transport
from runrig.domain.errors import NotAllowed, RunrigError

AHEAD_S = 300.0
"""Seconds before expiry at which a token is renewed."""
AGAIN_S = 30.0
"""Seconds to wait after a failed renewal while the token is still valid."""
ANSWER_S = 20.0
SIGN_IN = "/api/v1/sign-in"


class SignIn:
    """The token for *address* as a `network.KeptToken`, renewed if it comes from a sign-in."""

    def __init__(self, found: ServerAddress, address: Address) -> None:
        self._address = address
        self.token = found.token(address)
        kept = saved.read()
        mine = self.token is not None and kept.token(address.url) == self.token
        self._renewal = kept.renewal(address.url) if mine else None
        self._quiet_until = 0.0

    @property
    def is_due(self) -> bool:
        return self._renewal is not None and _due(self._renewal) and time.time() >= self._quiet_until

    @property
    def is_good(self) -> bool:
        renewal = self._renewal
        return renewal is None or renewal.begun_at <= time.time() < renewal.ends_at

    def renew(self) -> None:
        """Raises NotAllowed if it cannot be renewed, the error of the renewal if the token has expired."""
        with _alone():
            kept = saved.read()
            renewal = kept.renewal(self._address.url)
            if renewal is not None and _due(renewal):  # Otherwise another process has renewed it or logged in again.
                kept = self._renewed(kept, renewal)
            self.token = kept.token(self._address.url)
            self._renewal = kept.renewal(self._address.url)

    def _renewed(self, kept: Logins, renewal: Renewal) -> Logins:
        url = self._address.url
        body = {"refresh_token": renewal.refresh_token}
        try:
            answer = Transport(self._address, None).call("POST", f"{SIGN_IN}/renewal", body=body, timeout_s=ANSWER_S)
        except NotAllowed as error:
            raise NotAllowed(
                f"{error.message}. Sign in again: `runrig login {url} --method oidc`", error.details
            ) from None
        except RunrigError as error:
            if time.time() >= renewal.ends_at:
                raise
            self._quiet_until = min(time.time() + AGAIN_S, renewal.ends_at)
            _warn(f"{error.message}. The sign-in was not renewed and expires {_clock(renewal.ends_at)}")
            return kept
        after = with_sign_in(kept, url, answer)
        saved.write(Logins(kept.current, after.tokens, after.renewals))
        return after


def with_sign_in(kept: Logins, url: str, answer: Mapping[str, Any]) -> Logins:
    """Returns *kept* with the answer of the server *url* to a sign-in or renewal."""
    now = time.time()
    refresh_token = answer["refresh_token"]
    renewal = None if refresh_token is None else Renewal(refresh_token, now, now + answer["expires_in_s"])
    return kept.with_token(url, answer["token"], renewal)


def _due(renewal: Renewal) -> bool:
    return not renewal.begun_at <= time.time() < renewal.ends_at - AHEAD_S


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("at %H:%M:%S")


def _warn(text: str) -> None:
    """Warns on stderr, unless the calling program configures the log."""
    import logging

    shown = "".join(character if character.isprintable() else "?" for character in text)
    logging.getLogger(__name__).warning("%s", shown)


@contextmanager
def _alone() -> Iterator[None]:
    """Without file locks, two processes can renew at the same time; one of them then has to sign in again."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    file = saved.file().with_name("logins.lock")
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
