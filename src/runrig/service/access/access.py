"""Access control: authentication, users with roles, tokens, and browser sessions.

Everything is kept in memory and stored at each change, so requests need no database: only the answering server writes.
Every change is in the audit trail.
"""

import time
from collections.abc import Callable, Collection
from pathlib import Path

from runrig.domain.errors import NotFound
from runrig.domain.trail import AccessEventKind
from runrig.ports.access import AccessStore
from runrig.service.access.accounts import Accounts
from runrig.service.access.authentication import Authentication, TokenUses
from runrig.service.access.browser_sessions import BrowserSessions
from runrig.service.access.credentials import Credentials
from runrig.service.access.dev_login import DevLogin
from runrig.service.access.in_browsers import InBrowsers
from runrig.service.access.logins import FailedLogins
from runrig.service.access.oidc.sign_ins import SignIns
from runrig.service.access.tokens import Tokens
from runrig.service.access.users import Users
from runrig.spec.serve_settings import OidcSpec


class Access:
    """*now*: real time in seconds since the epoch, whatever the backend's clock.

    *pools*: returns the names of the top-level pools; None: not checked. *oidc*: the identity provider.
    *credential_key*: the file with the sealing keys; None: credentials are disabled.
    """

    def __init__(
        self,
        store: AccessStore,
        *,
        now: Callable[[], float] | None = None,
        pools: Callable[[], Collection[str]] | None = None,
        oidc: OidcSpec | None = None,
        credential_key: Path | None = None,
    ) -> None:
        self.profile, self.set_profile, self.events = store.profile, store.set_profile, store.events
        self.now = now or _real_time
        self.uses = TokenUses(store)
        self._accounts = accounts = Accounts(store, self.now)
        self.users = Users(accounts, pools)
        self.dev_login = DevLogin(accounts, self.users)
        self.authentication = Authentication(accounts, store, self.uses, FailedLogins(), self.dev_login)
        self.tokens = Tokens(accounts, self.users, self.uses)
        self.credentials = Credentials(accounts, credential_key)
        self._sign_ins = None if oidc is None else SignIns(oidc, accounts, self.authentication.key)
        self.authentication.sign_ins = None if self._sign_ins is None else self._sign_ins.latest
        self.browsers = BrowserSessions(store, accounts, self.authentication, self._sign_ins)
        key = self.authentication.key
        self.in_browsers = None if self._sign_ins is None else InBrowsers(self._sign_ins, self.browsers, accounts, key)
        """None without an identity provider."""

    @property
    def sign_ins(self) -> SignIns:
        """Sign-ins at the identity provider. Raises NotFound if the server has none."""
        if self._sign_ins is None:
            raise NotFound("single sign-on is not configured on this server. Log in with a token: `runrig login URL`")
        return self._sign_ins

    def note(self, kind: AccessEventKind, *, actor: str, user: str, subject: str) -> None:
        """Adds an entry to the audit trail without changing rows."""
        with self._accounts.changing(actor) as change:
            change.tell(kind, user, subject)


def _real_time() -> float:
    return round(time.time(), 6)
