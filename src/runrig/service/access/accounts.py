"""The rows of access in memory, by what they are asked by, and a change of them at work."""

import hashlib
import secrets
from dataclasses import dataclass, field, replace

from runrig.domain.access import AccessEvent, AccessEventKind, Grant, GrantRow, Kind, TokenRow, User
from runrig.ports.access import AccessChange, AccessRows


@dataclass(frozen=True, slots=True)
class MadeToken:
    """*text* is the token itself: told once, and kept nowhere."""

    row: TokenRow
    text: str = field(repr=False)


class Book:
    """The rows, by what they are asked by; never changed.  Users by name, grants by user and role."""

    def __init__(self, rows: AccessRows) -> None:
        self.users: dict[str, User] = {user.name: user for user in rows.users}
        self.grants: dict[tuple[str, Grant], GrantRow] = {(row.user, row.grant): row for row in rows.grants}
        self.tokens: dict[str, TokenRow] = {token.id: token for token in rows.tokens}
        self.by_hash: dict[str, TokenRow] = {token.hash: token for token in rows.tokens}

    def after(self, change: AccessChange) -> "Book":
        """What the store has now: reading it again would take the longer the more tokens there were ever."""
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
        return Book(
            AccessRows(
                tuple(replace(users[name], grants=tuple(own.get(name, ()))) for name in sorted(users)),
                tuple(ordered),
                tuple(tokens.values()),
            )
        )

    def tokens_of(self, user: str) -> list[TokenRow]:
        return [token for token in self.tokens.values() if token.user == user]

    def admins(self) -> set[str]:
        return {
            user.name
            for user in self.users.values()
            if not user.disabled and any(grant.kind is Kind.ADMIN for grant in user.grants)
        }


class AccessDraft:
    """A command at work: what it writes, and what the trail says of it."""

    def __init__(self, actor: str, now: float) -> None:
        self.actor = actor
        self.now = now
        self.events: list[AccessEvent] = []
        self._users: dict[str, User] = {}
        self._grants: list[GrantRow] = []
        self._withdrawn: list[GrantRow] = []
        self._tokens: list[TokenRow] = []

    def rows(self) -> AccessChange:
        return AccessChange(
            tuple(self.events),
            tuple(self._users.values()),
            tuple(self._grants),
            tuple(self._withdrawn),
            tuple(self._tokens),
        )

    def user(self, user: User, kind: AccessEventKind) -> None:
        self._users[user.name] = user
        self._tell(kind, user.name)

    def grant(self, user: str, grant: Grant) -> None:
        self._grants.append(GrantRow(user, grant, self.now, self.actor))
        self._tell(AccessEventKind.ROLE_GRANTED, user, str(grant))

    def withdraw(self, row: GrantRow) -> None:
        self._withdrawn.append(row)
        self._tell(AccessEventKind.ROLE_REVOKED, row.user, str(row.grant))

    def token(self, user: str, name: str, expires_in_s: float | None) -> MadeToken:
        text = secrets.token_urlsafe(32)
        expires_at = None if expires_in_s is None else round(self.now + expires_in_s, 6)
        row = TokenRow(secrets.token_hex(8), name, user, hash_of(text), self.now, expires_at)
        self._tokens.append(row)
        self._tell(AccessEventKind.TOKEN_CREATED, user, name)
        return MadeToken(row, text)

    def revoke(self, token: TokenRow) -> None:
        self._tokens.append(replace(token, revoked_at=self.now))
        self._tell(AccessEventKind.TOKEN_REVOKED, token.user, token.name)

    def _tell(self, kind: AccessEventKind, user: str, subject: str = "") -> None:
        self.events.append(AccessEvent(0, self.now, self.actor, kind, user, subject))


def hash_of(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
