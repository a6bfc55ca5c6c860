"""Browser sessions: cookies, expiry, and one-time codes that sign in with one click.

A session ends with its token or user, after seven days, or after twelve hours without a request. It is in memory and in
the store, so it survives a restart, and requests need no database.

A session from an identity provider ends within 15 minutes unless the provider renews it, with the user's current
groups. Its refresh token is only in memory: a restart requires a new sign-in, and the database has nothing to steal.
"""

import hmac
import logging
import secrets
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from runrig.domain.access import BrowserSession, Identity, SignIn
from runrig.domain.errors import Conflict, NotAllowed, NotLoggedIn, RunrigError
from runrig.domain.shown.server import SignedIn
from runrig.domain.trail import AccessEventKind
from runrig.ports.access import AccessStore
from runrig.service.access import jwts
from runrig.service.access.accounts import Accounts, hash_of
from runrig.service.access.authentication import Authentication
from runrig.service.access.oidc.sign_ins import SignIns
from runrig.service.runtime import logs

IDLE_S = 12 * 3600.0
LONGEST_S = 7 * 86_400.0
NOTE_S = 600.0
"""Seconds between writes of the last use of a session."""
MOST = 50
"""Maximum sessions of a user; the oldest ends when another begins."""
CODE_S = 60.0
"""Seconds for which a code is valid."""
FIRST_CODE_S = 300.0
"""Seconds for the code that `up` prints, since a user has to read it first. Codes have 256 random bits and work once."""
AHEAD_S = 300.0
"""Seconds before expiry at which the provider is asked to renew a session."""
AGAIN_S = 30.0
"""Seconds before the next request to a provider that did not answer."""
MOST_CODES = 1_000
BY_PAGE = "page"
"""How users signed in, in the audit trail."""
ENDED = "this browser is not signed in. Open /login"

_log = logging.getLogger(__name__)


@dataclass
class _Renewal:
    """The renewal of a session. *tried_at*: time of the last attempt."""

    refresh_token: str = field(repr=False)
    tried_at: float = float("-inf")
    lock: threading.Lock = field(default_factory=threading.Lock)


class BrowserSessions:
    """*sign_ins*: with the identity provider; None: there is none."""

    def __init__(
        self, store: AccessStore, accounts: Accounts, authentication: Authentication, sign_ins: SignIns | None = None
    ) -> None:
        self._store = store
        self._sign_ins = sign_ins
        self._accounts = accounts
        self._authentication = authentication
        self._lock = threading.Lock()
        self._sessions = {each.hash: each for each in store.sessions()}
        self._seen: dict[str, float] = {}
        """Last uses of sessions that are not stored yet."""
        self._codes: dict[str, tuple[Identity, float]] = {}
        self._renewals: dict[str, _Renewal] = {}
        """By the hash of their session."""

    # ------------------------------------------------------------ with a cookie

    def visiting(self, cookie: str, csrf: str | None) -> Identity:
        """Returns the identity for *cookie*. *csrf*: the session's second secret; None: not required.

        Takes no lock and queries no database. Raises NotLoggedIn.
        """
        session = self._sessions.get(hash_of(cookie))
        if session is None or (csrf is not None and not hmac.compare_digest(csrf.encode(), self.csrf(cookie).encode())):
            raise NotLoggedIn(ENDED)
        identity, now = self._authentication.begun_with(session), self._accounts.now()
        if identity is None or not self._is_good(session, now):
            raise NotLoggedIn(ENDED)
        if now - self._seen_at(session) >= NOTE_S:
            self._seen[session.hash] = now
            threading.Thread(target=self._note, args=(session.hash, now), name="sessions", daemon=True).start()
        self._go_on(session, now)
        return identity

    def _seen_at(self, session: BrowserSession) -> float:
        return max(session.seen_at, self._seen.get(session.hash, 0.0))

    def _is_good(self, session: BrowserSession, now: float) -> bool:
        return now < session.ends_at and now - self._seen_at(session) < IDLE_S

    def _is_over(self, session: BrowserSession, now: float) -> bool:
        """Whether the session can never become valid again."""
        if session.hash not in self._renewals:
            return not self._is_good(session, now)
        return now - session.created_at >= LONGEST_S or now - self._seen_at(session) >= IDLE_S

    def csrf(self, cookie: str) -> str:
        """Returns the second secret of a session, for pages and forms of this server."""
        return hmac.digest(self._authentication.key.encode(), f"csrf\0{cookie}".encode(), "sha256").hex()

    # ------------------------------------------------------------ beginning and ending

    def enter(self, shown: str, source: str) -> str:
        """Returns the cookie of a new session for *shown*, a code or a token. Raises NotLoggedIn, TooMany, NotAllowed, Conflict."""
        with self._lock:
            found = self._codes.pop(hash_of(shown), None)
        if found is not None and found[1] > self._accounts.now():
            return self._begin(found[0])
        identity = self._authentication.authenticate(shown, source)
        if jwts.looks_like_one(shown) and identity.sign_in is None:
            raise NotLoggedIn(
                "this token is too short-lived for a browser session. Use the access token it was created from"
            )
        return self._begin(identity)

    def begin_signed_in(self, found: SignedIn) -> str:
        """The same for a sign-in with the identity provider, which can renew the session."""
        sign_in = SignIn(found.grants, found.ends_at)
        return self._begin(Identity(found.user, found.grants, sign_in=sign_in), found.refresh_token)

    def _begin(self, identity: Identity, refresh_token: str | None = None) -> str:
        token, roles = self._authentication.root_of(identity)
        cookie = secrets.token_urlsafe(32)
        # So disabling the user finds the session or prevents it.
        with self._accounts.changing(identity.user) as change:
            ends_at = change.now + LONGEST_S if identity.sign_in is None else identity.sign_in.ends_at
            session = BrowserSession(hash_of(cookie), identity.user, token, roles, change.now, change.now, ends_at)
            visitor = self._authentication.begun_with(session)
            if visitor is None:
                raise NotLoggedIn(ENDED)
            self._put([session], self._superfluous(visitor, change.now))
            if refresh_token is not None:
                self._renewals[session.hash] = _Renewal(refresh_token)
            change.tell(AccessEventKind.SIGNED_IN, identity.user, BY_PAGE)
        return cookie

    def _superfluous(self, identity: Identity, now: float) -> list[str]:
        """Returns hashes of ended sessions, and of the oldest ones that *identity* may end if its user has too many.

        Raises Conflict if the user has too many sessions with more permissions.
        """
        ended = [each.hash for each in self._sessions.values() if self._is_over(each, now)]
        own = [each for each in self._sessions.values() if each.user == identity.user and not self._is_over(each, now)]
        excess = max(0, len(own) - MOST + 1)
        reached = [each for each in own if excess and self._reaches(identity, each)]
        if len(reached) < excess:
            raise Conflict(
                f"{identity.user} already has {len(own)} browser sessions, all with more permissions than this token. Sign out of one, or "
                "sign in with a token that grants all roles"
            )
        reached.sort(key=lambda each: (each.created_at, each.hash))
        return ended + [each.hash for each in reached[:excess]]

    def _reaches(self, identity: Identity, session: BrowserSession) -> bool:
        """Whether *identity* may end *session*, or it is no longer valid."""
        found = self._authentication.begun_with(session)
        return found is None or identity.reaches(found.narrowed)

    def end(self, cookie: str) -> None:
        """Signs out."""
        self._put([], [hash_of(cookie)])

    def make_code(self, identity: Identity, good_s: float = CODE_S) -> str:
        """Returns a code that signs a browser in as *identity*, once, within *good_s* seconds. Raises NotAllowed."""
        self._authentication.root_of(identity)
        code, now = secrets.token_urlsafe(32), self._accounts.now()
        with self._lock:
            good = {hash: each for hash, each in self._codes.items() if each[1] > now}
            while len(good) >= MOST_CODES:
                del good[next(iter(good))]
            self._codes = {**good, hash_of(code): (identity, now + good_s)}
        return code

    # ------------------------------------------------------------ renewal by the provider

    def goes_on(self, cookie: str) -> bool:
        """Whether the session of *cookie* comes from the provider and is valid, after a renewal if necessary.
        Waits for the provider.
        """
        hash = hash_of(cookie)
        if hash not in self._renewals:
            return False
        self._renew(hash)
        try:
            self.visiting(cookie, None)
        except NotLoggedIn:
            return False
        return True

    def begins_anew(self, cookie: str) -> bool:
        """Whether the session of *cookie* ended only because its refresh token is not here.

        The sign-in was on a command line, which keeps the refresh token, or before a restart.
        """
        session, now = self._sessions.get(hash_of(cookie)), self._accounts.now()
        if session is None or session.roles is None or session.hash in self._renewals:
            return False
        idle_s, age_s = now - self._seen_at(session), now - session.created_at
        return session.ends_at <= now and idle_s < IDLE_S and age_s < LONGEST_S

    def _go_on(self, session: BrowserSession, now: float) -> None:
        """Renews the session in a thread before it ends, so that no request waits for it."""
        renewal = self._renewals.get(session.hash)
        if renewal is not None and _due(session, renewal, now):
            renewal.tried_at = now
            threading.Thread(target=self._renew, args=(session.hash, True), name="sign-in", daemon=True).start()

    def _renew(self, hash: str, is_begun: bool = False) -> None:
        """*is_begun*: the attempt has been recorded."""
        renewal = self._renewals.get(hash)
        if renewal is None or self._sign_ins is None:
            return
        with renewal.lock:  # Concurrent callers renew once, because a refresh token works once.
            session, now = self._sessions.get(hash), self._accounts.now()
            if session is None or (not is_begun and not _due(session, renewal, now)):
                return
            if self._is_over(session, now):
                self._put([], [hash])
                return
            renewal.tried_at = now
            try:
                found = self._sign_ins.renewed(renewal.refresh_token, f"page of {session.user}")
            except NotAllowed:
                self._put([], [hash])
            except RunrigError as error:
                _log.warning("%s", logs.line("sign_in_not_renewed", user=session.user, error=error.message))
            else:
                self._renewed(hash, renewal, found)

    def _renewed(self, hash: str, renewal: _Renewal, found: SignedIn) -> None:
        renewal.refresh_token, renewal.tried_at = found.refresh_token or renewal.refresh_token, float("-inf")
        roles = tuple(str(each) for each in found.grants)
        with self._lock:
            session = self._sessions.get(hash)  # The session may have ended in the meantime.
            if session is not None and session.user == found.user:
                self._sessions[hash] = after = replace(session, roles=roles, ends_at=found.ends_at)
                self._store.put_sessions([after], [])

    # ------------------------------------------------------------ storing

    def _put(self, begun: Iterable[BrowserSession], ended: Iterable[str]) -> None:
        begun, ended = list(begun), list(ended)
        with self._lock:
            self._store.put_sessions(begun, ended)
            left = {hash: each for hash, each in self._sessions.items() if hash not in ended}
            self._sessions = left | {each.hash: each for each in begun}
            self._seen = {hash: at for hash, at in self._seen.items() if hash in self._sessions}
            for hash in ended:
                self._renewals.pop(hash, None)

    def _note(self, hash: str, now: float) -> None:
        """Only logs a failure, because requests must not fail for it."""
        try:
            with self._lock:
                if hash in self._sessions:
                    self._sessions[hash] = seen = replace(self._sessions[hash], seen_at=now)
                    self._store.put_sessions([seen], [])
        except RunrigError as error:
            _log.warning("%s", logs.line("session_not_written", error=error.message))


def _due(session: BrowserSession, renewal: _Renewal, now: float) -> bool:
    return session.ends_at - now < AHEAD_S and now - renewal.tried_at >= AGAIN_S
