"""Authentication: access tokens and JWTs, a limit on failed logins, and the last use of each token."""

import base64
import hmac
import logging
import secrets
import threading
from collections.abc import Mapping

from runrig.domain.access import (
    DEV_LOGIN,
    SPOKEN_FOR,
    BrowserSession,
    Grant,
    Identity,
    RoleKind,
    SignIn,
    TokenRow,
    role_named,
)
from runrig.domain.errors import NotAllowed, NotLoggedIn, RunrigError, TooMany
from runrig.ports.access import AccessStore
from runrig.service.access import jwts
from runrig.service.access.accounts import Accounts, Owner, hash_of
from runrig.service.access.dev_login import BY_TOKEN, DevLogin
from runrig.service.access.logins import FailedLogins
from runrig.service.runtime import logs

NOTE_USE_S = 60.0
"""Seconds between writes of the last uses of tokens."""
OWNER = "owner"
"""In a JWT, replaces the id of the token of `up`."""

OWNED = "up:"
"""In a session, the prefix of the hash of the token of `up`. The session ends when the token changes."""

_log = logging.getLogger(__name__)


class TokenUses:
    """When each token was last used: immediately in memory, later in the store."""

    def __init__(self, store: AccessStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._used: dict[str, float] = {}
        self._unwritten: set[str] = set()
        self._noted_at = float("-inf")

    def last(self, token: TokenRow) -> float | None:
        """Returns seconds since the epoch, None if never used."""
        return self._used.get(token.id, token.last_used_at)

    def note(self, id: str, now: float) -> None:
        """Records a use in memory. A thread stores it, at most once a minute, so that no request waits for it."""
        with self._lock:
            self._used[id] = now
            self._unwritten.add(id)
            if 0 <= now - self._noted_at < NOTE_USE_S:
                return
            self._noted_at = now
        threading.Thread(target=self.write, name="token uses", daemon=True).start()

    def write(self) -> None:
        """Stores new uses. Only logs a failure, because requests must not fail for it."""
        with self._lock:
            last = {id: self._used[id] for id in sorted(self._unwritten)}
            self._unwritten.clear()
        try:
            if last:
                self._store.used(last)
        except RunrigError as error:
            with self._lock:
                self._unwritten.update(last)
            _log.warning("%s", logs.line("token_use_not_written", error=error.message))


class Authentication:
    """Takes no lock and queries no database."""

    def __init__(
        self, accounts: Accounts, store: AccessStore, uses: TokenUses, logins: FailedLogins, dev_login: DevLogin
    ) -> None:
        self._accounts = accounts
        self._dev_login = dev_login
        self.key = store.secret("jwt", secrets.token_hex(32))
        """Signs the JWTs of authenticated users."""
        self._uses = uses
        self._logins = logins
        self.sign_ins: Mapping[str, SignIn] | None = None
        """The identity provider's last answer about each user; None without a provider."""

    def let_in(self, token: str, user: str) -> None:
        """Accepts *token* as that of *user*, who started this server with `up` and may do everything."""
        identity = Identity(user, (Grant(RoleKind.ADMIN),), speaks_for_others=True)
        self._accounts.owner = Owner(hash_of(token), identity)

    @property
    def owner(self) -> Identity:
        """Returns the user who started this server with `up`."""
        owner = self._accounts.owner
        assert owner is not None, "the server was started with up"
        return owner.identity

    def authenticate(self, bearer: str | None, source: str) -> Identity:
        """Returns the identity for *bearer*, an access token or a JWT. *source*: the client's address, for the limit on
        failures.

        Raises NotLoggedIn, or TooMany instead. The message is always the same; the log has the reason.
        """
        if not bearer:
            raise NotLoggedIn  # A client without a token is not guessing one.
        now = self._accounts.now()
        return self._counted(self._identity(bearer, now), source, now)

    def in_name_of(self, named: str, identity: Identity) -> Identity:
        """Returns the identity of user *named*, with that user's permissions, if *identity* may act for others; else
        *identity*.

        Raises NotAllowed for an unknown user.
        """
        if not identity.speaks_for_others or named == identity.user:
            return identity
        found = self._spoken_for(named)
        if found is None:
            raise NotAllowed(
                f"x-osmo-user names {named!r:.80}, who is not a user of this server, or is disabled. "
                "To add a user: `runrig user create NAME`"
            )
        return found

    def _spoken_for(self, name: str) -> Identity | None:
        user = self._accounts.rows.users.get(name)
        return None if user is None or user.disabled else Identity(name, user.grants, SPOKEN_FOR)

    def present(self, identity: Identity) -> Identity | None:
        """Returns *identity*, authenticated earlier, with its current roles; None if its token or user is no longer
        valid.

        A sign-in continues with the provider's latest answer, so that streams do not break at each renewal.
        """
        owner, now = self._accounts.owner, self._accounts.now()
        if owner is not None and identity == owner.identity:
            return identity
        if identity.token == DEV_LOGIN:
            return self._dev_login.identity()
        if identity.token == SPOKEN_FOR:
            return self._spoken_for(identity.user)
        if identity.sign_in is not None:
            latest = (self.sign_ins or {}).get(identity.user, identity.sign_in)
            found = self._signed_in(identity.user, max(identity.sign_in, latest, key=lambda each: each.ends_at), now)
        else:
            found = self._behind(self._accounts.rows.tokens.get(identity.token), now)
        return None if isinstance(found, str) else found

    def derived(self, actor: str, key: str) -> str:
        """Returns the token for a request of *actor* with the Idempotency-Key *key*, always the same."""
        digest = hmac.digest(self.key.encode(), f"token\0{actor}\0{key}".encode(), "sha256")
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")

    def exchange(self, token: str, source: str) -> tuple[str, int]:
        """Returns (a JWT for an access token, when it expires). Raises as `authenticate`."""
        now = self._accounts.now()
        identity = self._counted("a JWT" if jwts.looks_like_one(token) else self._identity(token, now), source, now)
        return jwts.signed(self.key, identity, identity.token or OWNER, now)

    def begun_with(self, session: BrowserSession) -> Identity | None:
        """Returns the identity of a session with its current roles; None if its token or sign-in is no longer valid."""
        owner, now = self._accounts.owner, self._accounts.now()
        if session.roles is not None:
            grants = tuple(role_named(each) for each in session.roles)
            found = self._signed_in(session.user, SignIn(grants, session.ends_at), now)
        elif session.token.startswith(OWNED):
            good = owner is not None and session.token == OWNED + owner.hash and session.user == owner.identity.user
            return owner.identity if good and owner is not None else None
        else:
            found = self._behind(self._accounts.rows.tokens.get(session.token), now)
        return None if isinstance(found, str) else found

    def root_of(self, identity: Identity) -> tuple[str, tuple[str, ...] | None]:
        """Returns (*token*, *roles*) for a session that *identity* begins, as `begun_with` reads them. Raises
        NotAllowed without a token.
        """
        if identity.sign_in is not None:
            return "", tuple(str(each) for each in identity.sign_in.grants)
        owner = self._accounts.owner
        if owner is not None and identity == owner.identity:
            return OWNED + owner.hash, None
        if not identity.keeps_tokens:
            raise NotAllowed(
                f"{identity.user} is logged in without a token, so this login cannot sign in a browser. To get one that can, {BY_TOKEN}"
            )
        return identity.token, None

    def _identity(self, text: str, now: float) -> Identity | str:
        """Returns the identity, or a sentence on why there is none."""
        owner, rows = self._accounts.owner, self._accounts.rows
        if jwts.looks_like_one(text):
            found = jwts.read(self.key, text, now)
            if found is None:
                return "not a JWT of this server, or expired"
            if isinstance(found, jwts.OfSignIn):
                return self._signed_in(found.user, found.sign_in, now)
            if owner is not None and found == OWNER:
                return owner.identity
            row = rows.tokens.get(found)
        else:
            digest = hash_of(text)
            if owner is not None and hmac.compare_digest(digest, owner.hash):
                return owner.identity
            row = rows.by_hash.get(digest)
        return self._behind(row, now)

    def _behind(self, row: TokenRow | None, now: float) -> Identity | str:
        """Returns who is behind a token, or why it is not valid."""
        if row is None:
            return "unknown"
        problem = row.problem(now)
        if problem is not None:
            return f"token {row.id} of {row.user} is {problem}"
        user = self._accounts.rows.users[row.user]
        if user.disabled:
            return f"user {user.name} is disabled"
        return Identity(user.name, row.gives(user.grants), row.id, narrowed=row.narrowed(user.grants))

    def _signed_in(self, name: str, sign_in: SignIn, now: float) -> Identity | str:
        """As `_identity`. Adds roles granted in runrig to those of the groups."""
        user = self._accounts.rows.users.get(name)
        if self.sign_ins is None or user is None or user.account is None:
            return f"{name} is not a single sign-on user of this server"
        if sign_in.ends_at <= now:
            return f"the session of {name} expired"
        if user.disabled:
            return f"user {name} is disabled"
        return Identity(name, tuple(dict.fromkeys((*user.grants, *sign_in.grants))), sign_in=sign_in)

    def _counted(self, found: Identity | str, source: str, now: float) -> Identity:
        """Returns *found*, or raises the error of a failed login. Counts the use of the token, or the failure."""
        if isinstance(found, str):
            wait_s = self._logins.count(source, now)
            if wait_s is not None:
                raise TooMany(f"too many failed logins. Try again in {wait_s} s", wait_s)
            _log.warning("%s", logs.line("login_failed", source=source, problem=found))
            raise NotLoggedIn
        if found.token:
            self._uses.note(found.token, now)
        return found
