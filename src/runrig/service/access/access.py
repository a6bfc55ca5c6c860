"""Who asks, and who may ask: tokens are looked up here, users, roles and tokens are changed here.

All of it is kept in memory and stored at each change, so that a request costs no database: the server that answers is the only
one that writes.  Every change is in the audit trail.
"""

import hmac
import logging
import secrets
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace

from runrig.domain.access import (
    AccessEvent,
    AccessEventKind,
    Grant,
    GrantRow,
    Identity,
    Kind,
    TokenRow,
    User,
    token_name_problem,
    user_problem,
)
from runrig.domain.errors import Conflict, InvalidInput, NotFound, NotLoggedIn, Problem, RunrigError, TooMany
from runrig.ports.access import AccessStore
from runrig.service.access import jwts
from runrig.service.access.accounts import AccessDraft, Book, MadeToken, hash_of
from runrig.service.access.logins import FailedLogins
from runrig.service.runtime import logs
from runrig.service.runtime.transactor import ENGINE
from runrig.spec.cluster import listed

DEFAULT_EXPIRY_S = 90 * 86_400.0
LONGEST_EXPIRY_S = 10 * 366 * 86_400.0
MOST_TOKENS = 100
"""Good ones of one user."""
NOTE_USE_S = 60.0
"""How often the last use of tokens is written down."""
RESERVED = (ENGINE, "runrig", "serve")
"""How the logs name what no person did."""
OWNER = "owner"
"""In a JWT, the id of the token of `up`."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Owner:
    hash: str
    identity: Identity


class Access:
    """`authenticate` and the questions take no lock and no time; the commands come one after the other.

    *now*: seconds since the epoch, of real time, whatever the clock of the backend does.  *pools*: the top-level pools that there
    are, None: whoever grants a role knows.
    """

    def __init__(
        self,
        store: AccessStore,
        *,
        now: Callable[[], float] | None = None,
        pools: Callable[[], Collection[str]] | None = None,
        logins: FailedLogins | None = None,
    ) -> None:
        self._store = store
        self.now = now or _real_time
        self._pools = pools
        self._logins = logins or FailedLogins()
        self._lock = threading.Lock()
        self._book = Book(store.load())
        self._key = store.secret("jwt", secrets.token_hex(32))
        self._owner: _Owner | None = None
        self._uses = threading.Lock()
        self._used: dict[str, float] = {}
        self._unwritten: set[str] = set()
        self._noted_at = float("-inf")
        self.failed_logins = 0
        """Since the start."""

    def let_in(self, token: str, user: str) -> None:
        """*token* is that of *user*, who started this server and may do everything (`up`)."""
        identity = Identity(user, (Grant(Kind.ADMIN),), speaks_for_others=True)
        self._owner = _Owner(hash_of(token), identity)

    # ------------------------------------------------------------ who asks

    def authenticate(self, bearer: str | None, source: str) -> Identity:
        """Whose token *bearer* is, an access token or a JWT.  *source*: the address that it came from, for the limit of failures.

        Raises NotLoggedIn, or TooMany instead, which say the same whatever is wrong; the log says what.
        """
        if not bearer:
            raise NotLoggedIn  # a client that has none tries nothing
        now = self.now()
        found = self._identity(bearer, now)
        if isinstance(found, str):
            raise self._failed(found, source, now)
        if found.token:
            self._note_use(found.token, now)
        return found

    def exchange(self, token: str, source: str) -> tuple[str, int]:
        """(a JWT for an access token, when it ends); raises as `authenticate`."""
        now = self.now()
        found = "a JWT" if jwts.looks_like_one(token) else self._identity(token, now)
        if isinstance(found, str):
            raise self._failed(found, source, now)
        if found.token:
            self._note_use(found.token, now)
        return jwts.signed(self._key, found, found.token or OWNER, now)

    def _identity(self, text: str, now: float) -> Identity | str:
        """Or why not."""
        owner, book = self._owner, self._book
        if jwts.looks_like_one(text):
            id = jwts.token_id(self._key, text, now)
            if id is None:
                return "no JWT of this server, or one that has ended"
            if owner is not None and id == OWNER:
                return owner.identity
            row = book.tokens.get(id)
        else:
            digest = hash_of(text)
            if owner is not None and hmac.compare_digest(digest, owner.hash):
                return owner.identity
            row = book.by_hash.get(digest)
        if row is None:
            return "unknown"
        problem = row.problem(now)
        if problem is not None:
            return f"token {row.id} of {row.user} is {problem}"
        user = book.users[row.user]
        return f"user {user.name} is disabled" if user.disabled else Identity(user.name, user.grants, row.id)

    def _failed(self, problem: str, source: str, now: float) -> RunrigError:
        self.failed_logins += 1
        wait_s = self._logins.count(source, now)
        if wait_s is None:
            _log.warning("%s", logs.line("login_failed", source=source, problem=problem))
            return NotLoggedIn()
        return TooMany(f"too many failed logins: try again in {wait_s} s", wait_s)

    # ------------------------------------------------------------ last use

    def _note_use(self, id: str, now: float) -> None:
        """In memory at once; written by a thread, once a minute at most, so that no request waits for it."""
        with self._uses:
            self._used[id] = now
            self._unwritten.add(id)
            if 0 <= now - self._noted_at < NOTE_USE_S:
                return
            self._noted_at = now
        threading.Thread(target=self.write_uses, name="token uses", daemon=True).start()

    def write_uses(self) -> None:
        """What was not written yet.  A failure is logged: a last use is not worth an error."""
        with self._uses:
            last = {id: self._used[id] for id in sorted(self._unwritten)}
            self._unwritten.clear()
        try:
            if last:
                self._store.used(last)
        except RunrigError as error:
            with self._uses:
                self._unwritten.update(last)
            _log.warning("%s", logs.line("token_use_not_written", error=error.message))

    # ------------------------------------------------------------ questions

    def users(self) -> tuple[User, ...]:
        return tuple(self._book.users.values())

    def user(self, name: str) -> User:
        """Raises NotFound."""
        found = self._book.users.get(name)
        if found is None:
            raise NotFound(f"there is no user {name!r}: `runrig user list` shows those that there are")
        return found

    def admins(self) -> set[str]:
        """Those that can do something; whoever started `up` is one without being listed."""
        return self._book.admins() | ({self._owner.identity.user} if self._owner else set())

    def grants(self) -> tuple[GrantRow, ...]:
        return tuple(self._book.grants.values())

    def tokens(self, user: str, *, ended: bool = False) -> tuple[TokenRow, ...]:
        """Of *user*, the oldest first; *ended*: also those that are good no longer."""
        now = self.now()
        found = [token for token in self._book.tokens_of(user) if ended or token.problem(now) is None]
        found.sort(key=lambda token: (token.created_at, token.id))
        return tuple(self._with_use(token) for token in found)

    def _with_use(self, token: TokenRow) -> TokenRow:
        """What was used since the rows were read is known here."""
        return replace(token, last_used_at=self._used.get(token.id, token.last_used_at))

    def token(self, id: str) -> TokenRow | None:
        return self._book.tokens.get(id)

    def events(
        self, *, user: str | None = None, before: int | None = None, limit: int = 100
    ) -> tuple[AccessEvent, ...]:
        return self._store.events(user=user, before=before, limit=limit)

    # ------------------------------------------------------------ commands about users

    def create_user(self, name: str, roles: Collection[Grant] = (), *, actor: str) -> User:
        """Raises InvalidInput, Conflict, NotFound."""
        with self._lock:
            _check_user(name)
            if name in self._book.users:
                raise Conflict(f"user {name} is there already: `runrig role grant {name} ROLE` gives more roles")
            for grant in roles:
                self._check_pool(grant)
            change = self._change(actor)
            change.user(User(name, (), change.now), AccessEventKind.USER_CREATED)
            for grant in dict.fromkeys(roles):
                change.grant(name, grant)
            self._write(change)
            return self._book.users[name]

    def set_disabled(self, name: str, disabled: bool, *, actor: str) -> User:
        """A disabled user's tokens do not work; the work goes on."""
        with self._lock:
            user = self.user(name)
            if user.disabled != disabled:
                if disabled:
                    self._check_admin_left(without=name)
                change = self._change(actor)
                kind = AccessEventKind.USER_DISABLED if disabled else AccessEventKind.USER_ENABLED
                change.user(replace(user, disabled=disabled), kind)
                self._write(change)
            return self._book.users[name]

    def grant(self, name: str, grant: Grant, *, actor: str) -> User:
        with self._lock:
            self.user(name)
            self._check_pool(grant)
            if (name, grant) not in self._book.grants:
                change = self._change(actor)
                change.grant(name, grant)
                self._write(change)
            return self._book.users[name]

    def withdraw(self, name: str, grant: Grant, *, actor: str) -> User:
        """Raises NotFound if the user does not have it."""
        with self._lock:
            row = self._book.grants.get((self.user(name).name, grant))
            if row is None:
                has = listed([str(each) for each in self._book.users[name].grants])
                raise NotFound(f"user {name} does not have the role {grant}: {has or 'none'}")
            if grant.kind is Kind.ADMIN:
                self._check_admin_left(without=name)
            change = self._change(actor)
            change.withdraw(row)
            self._write(change)
            return self._book.users[name]

    def change_roles(self, granted: Collection[tuple[str, Grant]], withdrawn: Collection[GrantRow], actor: str) -> None:
        """Of a cluster file, in one; users that are not there are made."""
        with self._lock:
            change = self._change(actor)
            for name in dict.fromkeys(name for name, _ in granted if name not in self._book.users):
                change.user(User(name, (), change.now), AccessEventKind.USER_CREATED)
            for name, grant in granted:
                change.grant(name, grant)
            for row in withdrawn:
                change.withdraw(row)
            self._write(change)

    # ------------------------------------------------------------ commands about tokens

    def create_token(
        self, user: str, name: str, expires_in_s: float | None = DEFAULT_EXPIRY_S, *, actor: str
    ) -> MadeToken:
        """*expires_in_s* None: never.  Whoever runs `up` is made a user, with all rights, at the first token."""
        found = {"name": token_name_problem(name), "expires_in_s": _expiry_problem(expires_in_s)}
        problems = tuple(Problem(text, path) for path, text in found.items() if text is not None)
        if problems:
            raise InvalidInput(problems)
        with self._lock:
            change = self._change(actor)
            owner = None if self._owner is None else self._owner.identity.user
            if user == actor == owner and user not in self._book.users:
                _check_user(user)
                change.user(User(user, (), change.now), AccessEventKind.USER_CREATED)
                change.grant(user, Grant(Kind.ADMIN))
            elif self.user(user).disabled:
                raise Conflict(f"user {user} is disabled: `runrig user enable {user}` first")
            self._check_room(user, name, change.now)
            made = change.token(user, name, expires_in_s)
            self._write(change)
            return made

    def revoke_token(self, user: str, name: str, *, actor: str) -> TokenRow:
        """Of the tokens of *user* the good one that is called *name*.  Raises NotFound."""
        with self._lock:
            now = self.now()
            good = {token.name: token for token in self._book.tokens_of(user) if token.problem(now) is None}
            if name not in good:
                raise NotFound(f"{user} has no token {name!r}: there are {listed(sorted(good)) or 'none'}")
            change = self._change(actor)
            change.revoke(self._with_use(good[name]))
            self._write(change)
            return self._book.tokens[good[name].id]

    def first_admin(self, name: str) -> str:
        """A token for *name*, who becomes admin: only while no admin has a good token, so that nobody is locked out for ever.

        For whoever can open the database while no server runs on it.  Raises Conflict, InvalidInput.
        """
        with self._lock:
            _check_user(name)
            change = self._change(RESERVED[1])
            able = {token.user for token in self._book.tokens.values() if token.problem(change.now) is None}
            if admins := sorted(self._book.admins() & able):
                raise Conflict(
                    f"there are admins with good tokens ({listed(admins)}): one of them makes what is needed with `runrig user "
                    "create` and `runrig token create`"
                )
            user = self._book.users.get(name)
            if user is None:
                change.user(User(name, (), change.now), AccessEventKind.USER_CREATED)
            elif user.disabled:
                change.user(replace(user, disabled=False), AccessEventKind.USER_ENABLED)
            if user is None or Grant(Kind.ADMIN) not in user.grants:
                change.grant(name, Grant(Kind.ADMIN))
            made = change.token(name, f"first-{change.now:.0f}", DEFAULT_EXPIRY_S)
            self._write(change)
            return made.text

    # ------------------------------------------------------------ rules and writing

    def _check_pool(self, grant: Grant) -> None:
        pools = None if self._pools is None else self._pools()
        if grant.pool is not None and pools is not None and grant.pool not in pools:
            raise NotFound(f"there is no pool {grant.pool!r}: there are {listed(sorted(pools)) or 'none yet'}")

    def _check_admin_left(self, *, without: str) -> None:
        admins = self._book.admins()
        if self._owner is None and without in admins and len(admins) == 1:
            raise Conflict(f"{without} is the last admin: make another first, with `runrig role grant USER admin`")

    def _check_room(self, user: str, name: str, now: float) -> None:
        good = [token.name for token in self._book.tokens_of(user) if token.problem(now) is None]
        if name in good:
            raise Conflict(f"{user} has a token {name!r} already: choose another name, or delete that one first")
        if len(good) >= MOST_TOKENS:
            raise Conflict(f"{user} has {len(good)} tokens, and nobody may have more than {MOST_TOKENS}: delete some")

    def _change(self, actor: str) -> AccessDraft:
        return AccessDraft(actor, self.now())

    def _write(self, change: AccessDraft) -> None:
        rows = change.rows()
        try:
            self._store.write(rows)
        except Exception:
            with suppress(RunrigError):  # whether it was stored is not known: what is stored counts
                self._book = Book(self._store.load())
            raise
        self._book = self._book.after(rows)
        for event in change.events:
            about = {"actor": event.actor, "kind": event.kind.value, "user": event.user, "subject": event.subject}
            _log.info("%s", logs.line("access", **about))


def _real_time() -> float:
    return round(time.time(), 6)


def _check_user(name: str) -> None:
    problem = user_problem(name)
    if problem is None and name in RESERVED:
        problem = f"{name!r} is how the log names what no person did: choose another name"
    if problem is not None:
        raise InvalidInput.one(problem, "name")


def _expiry_problem(expires_in_s: float | None) -> str | None:
    if expires_in_s is None or 0 < expires_in_s <= LONGEST_EXPIRY_S:
        return None
    return f"a token cannot end after {expires_in_s:g} s: write more than 0, at most {LONGEST_EXPIRY_S:.0f}, or never"
