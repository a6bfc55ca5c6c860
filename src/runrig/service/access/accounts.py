"""The rows of access control in memory, indexed for lookups, and the only way to change them."""

import hashlib
import logging
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any

from runrig.domain.access import Grant, GrantRow, Identity, RoleKind, TokenRow, User, user_problem
from runrig.domain.credentials import Credential
from runrig.domain.errors import InvalidInput, RunrigError
from runrig.domain.trail import AccessEvent, AccessEventKind
from runrig.domain.value import at
from runrig.ports.access import AccessChange, AccessRows, AccessStore
from runrig.service.runtime import logs
from runrig.service.runtime.transactor import ENGINE

RESERVED = (ENGINE, "runrig", "serve")
"""Names in the log for automatic changes."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MadeToken:
    """*text*: the token itself, shown once and never stored."""

    row: TokenRow
    text: str = field(repr=False)


class AccountRows:
    """The indexed rows, immutable. Users by name and by account, grants by user and role, tokens by id and by hash."""

    def __init__(self, rows: AccessRows) -> None:
        self.users: dict[str, User] = {user.name: user for user in rows.users}
        self.by_account: dict[str, User] = {user.account: user for user in rows.users if user.account is not None}
        self.grants: dict[tuple[str, Grant], GrantRow] = {(row.user, row.grant): row for row in rows.grants}
        self.tokens: dict[str, TokenRow] = {token.id: token for token in rows.tokens}
        self.by_hash: dict[str, TokenRow] = {token.hash: token for token in rows.tokens}
        self.credentials: dict[tuple[str, str], Credential] = {
            (each.user, each.name): each for each in rows.credentials
        }

    def after(self, change: AccessChange) -> "AccountRows":
        """Returns the rows after *change*, without rereading the store, which keeps every token ever created."""
        grants = dict(self.grants)
        for row in change.withdrawn:
            grants.pop((row.user, row.grant), None)
        grants.update({(row.user, row.grant): row for row in change.grants})
        ordered = sorted(grants.values(), key=lambda row: (row.user, str(row.grant)))
        own: dict[str, list[Grant]] = {}
        for row in ordered:
            own.setdefault(row.user, []).append(row.grant)
        users = self.users | {user.name: user for user in change.users}
        tokens = self.tokens | {token.id: token for token in change.tokens}
        dropped = {(each.user, each.name) for each in change.dropped}
        credentials = {key: each for key, each in self.credentials.items() if key not in dropped}
        credentials |= {(each.user, each.name): each for each in change.credentials}
        return AccountRows(
            AccessRows(
                tuple(replace(users[name], grants=tuple(own.get(name, ()))) for name in sorted(users)),
                tuple(ordered),
                tuple(tokens.values()),
                tuple(credentials.values()),
            )
        )

    def tokens_of(self, user: str) -> list[TokenRow]:
        return [token for token in self.tokens.values() if token.user == user]

    def admins(self) -> set[str]:
        return {
            user.name
            for user in self.users.values()
            if not user.disabled and any(grant.kind is RoleKind.ADMIN for grant in user.grants)
        }


@dataclass(slots=True, kw_only=True)
class AccessDraft(AccessChange):
    """A command in progress: its writes and audit entries."""

    actor: str
    now: float

    def user(self, user: User, kind: AccessEventKind) -> None:
        self.users.append(user)
        self.tell(kind, user.name)

    def grant(self, user: str, grant: Grant) -> None:
        self.grants.append(GrantRow(user, grant, self.now, self.actor))
        self.tell(AccessEventKind.ROLE_GRANTED, user, str(grant))

    def withdraw(self, row: GrantRow) -> None:
        self.withdrawn.append(row)
        self.tell(AccessEventKind.ROLE_REVOKED, row.user, str(row.grant))

    def token(
        self, user: str, name: str, expires_in_s: float | None, text: str | None = None, **more: Any
    ) -> MadeToken:
        """*text* None: a random one. *more*: further fields of the row."""
        text = text or secrets.token_urlsafe(32)
        # Whole seconds, because people read it.
        expires_at = None if expires_in_s is None else float(ceil(self.now + expires_in_s))
        row = TokenRow(secrets.token_hex(8), name, user, hash_of(text), self.now, expires_at, **more)
        self.tokens.append(row)
        self.tell(AccessEventKind.TOKEN_CREATED, user, name)
        return MadeToken(row, text)

    def changed(self, token: TokenRow) -> None:
        self.tokens.append(token)
        self.tell(AccessEventKind.TOKEN_CHANGED, token.user, token.name)

    def revoke(self, token: TokenRow) -> None:
        self.tokens.append(replace(token, revoked_at=self.now))
        self.tell(AccessEventKind.TOKEN_REVOKED, token.user, token.name)

    def credential(self, made: Credential) -> None:
        self.credentials.append(made)
        self.tell(AccessEventKind.CREDENTIAL_SET, made.user, made.name)

    def drop(self, gone: Credential) -> None:
        self.dropped.append(gone)
        self.tell(AccessEventKind.CREDENTIAL_DELETED, gone.user, gone.name)

    def tell(self, kind: AccessEventKind, user: str, subject: str = "") -> None:
        self.events.append(AccessEvent(0, at(self.now), self.actor, kind, user, subject))


@dataclass(frozen=True, slots=True)
class Owner:
    """The user who started the server with `up`: *hash* of the token, and the identity."""

    hash: str
    identity: Identity


class Accounts:
    """The current rows, and the only way to change them: a command fills a draft.

    *now*: real time in seconds since the epoch, whatever the backend's clock.
    """

    def __init__(self, store: AccessStore, now: Callable[[], float]) -> None:
        self.now = now
        self._lock = threading.Lock()
        self.rows = AccountRows(store.load())
        self.owner: Owner | None = None
        self._store = store

    @contextmanager
    def changing(self, actor: str) -> Iterator[AccessDraft]:
        """Yields a draft, which is written at the end if it has an event. One at a time."""
        with self._lock:
            change = AccessDraft(actor=actor, now=self.now())
            yield change
            if change.events:
                self._write(change)

    def _write(self, change: AccessDraft) -> None:
        try:
            self._store.write(change)
        except Exception:
            with suppress(RunrigError):  # It is unknown whether it was stored, so the store decides.
                self.rows = AccountRows(self._store.load())
            raise
        self.rows = self.rows.after(change)
        for event in change.events:
            about = {"actor": event.actor, "kind": event.what.value, "user": event.user, "subject": event.subject}
            _log.info("%s", logs.line("access", **about))


def hash_of(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def check_user(name: str) -> None:
    problem = user_problem(name)
    if problem is None and name in RESERVED:
        problem = f"user name {name!r} is reserved. Choose another name"
    InvalidInput.check(problem, "name")
