"""Browser sign-in: the code flow through this server, bound to the browser.

State, nonce and PKCE verifier are derived from a random text that only the browser keeps, as a cookie. So the server
stores nothing, and a new leader can finish a sign-in that another one began.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from urllib.parse import urlencode, urlsplit

from runrig.domain.errors import NotAllowed
from runrig.service.access.accounts import Accounts
from runrig.service.access.browser_sessions import BrowserSessions
from runrig.service.access.oidc.sign_ins import SignIns

PATIENCE_S = 600.0
"""Seconds a user has for the provider's forms."""
_AGAIN = "Sign in again"


class InBrowsers:
    """*key*: of this server; without it the browser's text is worthless."""

    def __init__(self, sign_ins: SignIns, browsers: BrowserSessions, accounts: Accounts, key: str) -> None:
        self._sign_ins = sign_ins
        self._browsers = browsers
        self._accounts = accounts
        self._key = key.encode()

    @property
    def host(self) -> str:
        """Returns the provider's host name, for users."""
        return urlsplit(self._sign_ins.spec.issuer).hostname or ""

    def begin(self, redirect_uri: str) -> tuple[str, str]:
        """Returns (the text for the browser's cookie, the address to redirect to). Raises ProviderSilent, ProviderUnusable."""
        kept = f"{int(self._accounts.now())}.{secrets.token_urlsafe(32)}"
        metadata = self._sign_ins.metadata()
        digest = hashlib.sha256(self._made_of(kept, "verifier").encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self._sign_ins.spec.client_id,
            "redirect_uri": redirect_uri,
            "scope": metadata.scopes,
            "state": self._made_of(kept, "state"),
            "nonce": self._made_of(kept, "nonce"),
            "code_challenge": _plain(digest),
            "code_challenge_method": "S256",
        }
        glue = "&" if "?" in metadata.authorization_endpoint else "?"
        return kept, f"{metadata.authorization_endpoint}{glue}{urlencode(query)}"

    def finish(self, kept: str | None, answer: Mapping[str, str], redirect_uri: str, own: str, source: str) -> str:
        """Returns the cookie of a new session for the provider's *answer*. Raises NotAllowed, TooMany."""
        begun_at, _, _ = (kept or "").partition(".")
        if kept is None or not begun_at.isdecimal() or len(begun_at) > 12:
            raise NotAllowed(f"this browser has no sign-in in progress, or it took longer than ten minutes. {_AGAIN}")
        if not hmac.compare_digest(answer.get("state", "").encode(), self._made_of(kept, "state").encode()):
            raise NotAllowed(f"the identity provider's response belongs to another sign-in. {_AGAIN}")
        if not 0 <= self._accounts.now() - int(begun_at) < PATIENCE_S:
            raise NotAllowed(f"the sign-in took longer than ten minutes. {_AGAIN}")
        if answer.get("iss", self._sign_ins.spec.issuer) != self._sign_ins.spec.issuer:
            raise NotAllowed(f"the response came from another identity provider. {_AGAIN}")
        if "code" not in answer:
            said = answer.get("error", "")
            why = f" ({said})" if said.isidentifier() and len(said) <= 40 else ""
            raise NotAllowed(f"the identity provider did not sign you in{why}. {_AGAIN}")
        found = self._sign_ins.by_code(
            answer["code"],
            verifier=self._made_of(kept, "verifier"),
            redirect_uri=redirect_uri,
            nonce=self._made_of(kept, "nonce"),
            own=own,
            source=source,
        )
        return self._browsers.begin_signed_in(found)

    def _made_of(self, kept: str, what: str) -> str:
        return _plain(hmac.digest(self._key, f"sign-in {what}\0{kept}".encode(), "sha256"))


def _plain(digest: bytes) -> str:
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
