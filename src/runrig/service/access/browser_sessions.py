"""Browsers that are signed in: what their cookie stands for, until when, and the codes with which one click signs in.

A session ends with the token that it began with, with its user, after seven days, and after twelve hours without a request.  It is
kept in memory, and stored, so that it outlives a restart; a request needs no database.
"""

import hmac
import logging
import secrets
import threading
from collections.abc import Iterable
from dataclasses import replace

from runrig.domain.access import AccessEventKind, BrowserSession, Identity
from runrig.domain.errors import NotLoggedIn, RunrigError
from runrig.ports.access import AccessStore
from runrig.service.access import jwts
from runrig.service.access.accounts import Accounts, hash_of
from runrig.service.access.authentication import Authentication
from runrig.service.runtime import logs

IDLE_S = 12 * 3600.0
LONGEST_S = 7 * 86_400.0
NOTE_S = 600.0
"""How often it is stored that a session is in use."""
MOST = 50
"""Sessions of one user; the oldest ends when another begins."""
CODE_S = 300.0
"""How long a code is good.  It has 256 random bits, is good once, and stands only where its owner reads it."""
MOST_CODES = 1_000
BY_PAGE = "page"
"""What the audit trail says of how somebody signed in."""
ENDED = "this browser is not signed in here, or no longer: open /login"

_log = logging.getLogger(__name__)


class BrowserSessions:
    def __init__(self, store: AccessStore, accounts: Accounts, authentication: Authentication) -> None:
        self._store = store
        self._accounts = accounts
        self._authentication = authentication
        self._lock = threading.Lock()
        self._sessions = {each.hash: each for each in store.sessions()}
        self._seen: dict[str, float] = {}
        """When sessions last asked, as far as it is not stored yet."""
        self._codes: dict[str, tuple[Identity, float]] = {}

    # ------------------------------------------------------------ with a cookie

    def visiting(self, cookie: str, csrf: str | None) -> Identity:
        """The identity behind *cookie*.  *csrf*: the session's second secret; None: it is not asked for.

        Takes no lock and asks no database.  Raises NotLoggedIn.
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
        return identity

    def _seen_at(self, session: BrowserSession) -> float:
        return max(session.seen_at, self._seen.get(session.hash, 0.0))

    def _is_good(self, session: BrowserSession, now: float) -> bool:
        return now < session.ends_at and now - self._seen_at(session) < IDLE_S

    def csrf(self, cookie: str) -> str:
        """The second secret of a session, for pages and forms of this server."""
        return hmac.digest(self._authentication.key.encode(), f"csrf\0{cookie}".encode(), "sha256").hex()

    # ------------------------------------------------------------ beginning and ending

    def enter(self, shown: str, source: str) -> str:
        """Returns the cookie of a new session for *shown*: a code, or a token.  Raises NotLoggedIn, TooMany, NotAllowed."""
        with self._lock:
            found = self._codes.pop(hash_of(shown), None)
        if found is not None and found[1] > self._accounts.now():
            return self._begin(found[0])
        identity = self._authentication.authenticate(shown, source)
        if jwts.looks_like_one(shown) and identity.sign_in is None:
            raise NotLoggedIn(
                "this token ends in minutes, and a session would outlive it: show the token that it was made for"
            )
        return self._begin(identity)

    def _begin(self, identity: Identity) -> str:
        token, roles = self._authentication.root_of(identity)
        cookie = secrets.token_urlsafe(32)
        with self._accounts.lock:  # whoever is disabled meanwhile finds the session, or it does not begin
            change = self._accounts.draft(identity.user)
            ends_at = change.now + LONGEST_S if identity.sign_in is None else identity.sign_in.ends_at
            session = BrowserSession(hash_of(cookie), identity.user, token, roles, change.now, change.now, ends_at)
            if self._authentication.begun_with(session) is None:
                raise NotLoggedIn(ENDED)
            self._put([session], self._superfluous(identity.user, change.now))
            change.tell(AccessEventKind.SIGNED_IN, identity.user, BY_PAGE)
            self._accounts.write(change)
        return cookie

    def _superfluous(self, user: str, now: float) -> list[str]:
        """Hashes of sessions that have ended, and of the oldest of *user* if there would be too many."""
        ended = [each.hash for each in self._sessions.values() if not self._is_good(each, now)]
        own = [each for each in self._sessions.values() if each.user == user and self._is_good(each, now)]
        own.sort(key=lambda each: (each.created_at, each.hash))
        return ended + [each.hash for each in own[: max(0, len(own) - MOST + 1)]]

    def end(self, cookie: str) -> None:
        """Signs out."""
        self._put([], [hash_of(cookie)])

    def make_code(self, identity: Identity) -> str:
        """A code with which a browser signs in as *identity*, once, within `CODE_S`.  Raises NotAllowed."""
        self._authentication.root_of(identity)
        code, now = secrets.token_urlsafe(32), self._accounts.now()
        with self._lock:
            good = {hash: each for hash, each in self._codes.items() if each[1] > now}
            while len(good) >= MOST_CODES:
                del good[next(iter(good))]
            self._codes = {**good, hash_of(code): (identity, now + CODE_S)}
        return code

    # ------------------------------------------------------------ storing

    def _put(self, begun: Iterable[BrowserSession], ended: Iterable[str]) -> None:
        begun, ended = list(begun), list(ended)
        with self._lock:
            self._store.put_sessions(begun, ended)
            left = {hash: each for hash, each in self._sessions.items() if hash not in ended}
            self._sessions = left | {each.hash: each for each in begun}
            self._seen = {hash: at for hash, at in self._seen.items() if hash in self._sessions}

    def _note(self, hash: str, now: float) -> None:
        """Logs a failure: no request is to fail for it."""
        try:
            with self._lock:
                if hash in self._sessions:
                    self._sessions[hash] = seen = replace(self._sessions[hash], seen_at=now)
                    self._store.put_sessions([seen], [])
        except RunrigError as error:
            _log.warning("%s", logs.line("session_not_written", error=error.message))
