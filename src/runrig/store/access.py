"""Users, roles, tokens, sessions and the audit trail: small tables, loaded at the start and written one change at a time."""

from collections.abc import Iterable, Mapping
from dataclasses import astuple, fields, replace
from typing import Any

from sqlalchemy import Connection, RowMapping, func, select, update

from runrig.domain.access import BrowserSession, Grant, GrantRow, Profile, TokenRow, User
from runrig.domain.credentials import Credential
from runrig.domain.trail import AccessEvent
from runrig.domain.value import at
from runrig.ports.access import AccessChange, AccessRows
from runrig.store import schema
from runrig.store.dialect import delete_rows, insert_new, insert_rows, put_rows
from runrig.store.rows import same_fields
from runrig.store.transactions import Tables

_EVENT = schema.access_events.c
_PROFILE = schema.profiles.c
_SECRET = schema.secrets.c
_TOKEN = schema.tokens.c
_SESSION = schema.browser_sessions.c
_TOKENS = same_fields(TokenRow, schema.tokens)
_CREDENTIALS = same_fields(Credential, schema.credentials)
_SESSIONS = same_fields(BrowserSession, schema.browser_sessions)


class AccessTables(Tables):
    """`ports.access.AccessStore`."""

    def load(self) -> AccessRows:
        with self._transactions.reading() as connection:
            users = connection.execute(select(schema.users)).mappings().all()
            found = connection.execute(select(schema.grants)).mappings().all()
            tokens = connection.execute(select(schema.tokens)).mappings().all()
            credentials = connection.execute(select(schema.credentials)).mappings().all()
        grants = sorted((_grant_of(row) for row in found), key=lambda each: (each.user, str(each.grant)))
        return AccessRows(
            tuple(_user_of(row, grants) for row in sorted(users, key=lambda row: row["name"])),
            tuple(grants),
            tuple(_TOKENS.of_row(row) for row in sorted(tokens, key=lambda row: row["id"])),
            tuple(_CREDENTIALS.of_row(row) for row in sorted(credentials, key=lambda row: (row["user"], row["name"]))),
        )

    def write(self, change: AccessChange) -> None:
        with self._transactions.writing() as connection:
            users = [(user.name, user.created_at, user.disabled, user.account) for user in change.users]
            put_rows(connection, schema.users, users)
            delete_rows(connection, schema.grants, [_grant_row(row)[:3] for row in change.withdrawn])
            put_rows(connection, schema.grants, [_grant_row(row) for row in change.grants])
            put_rows(connection, schema.tokens, [_TOKENS.to_row(token) for token in change.tokens])
            delete_rows(connection, schema.credentials, [(gone.user, gone.name) for gone in change.dropped])
            put_rows(connection, schema.credentials, [_CREDENTIALS.to_row(each) for each in change.credentials])
            last = connection.execute(select(func.max(_EVENT.number))).scalar_one() or 0
            events = [
                (number, event.time.timestamp(), event.actor, event.what, event.user, event.subject)
                for number, event in enumerate(change.events, start=last + 1)
            ]
            insert_rows(connection, schema.access_events, events)

    def sessions(self) -> tuple[BrowserSession, ...]:
        return self._all(_SESSIONS.of_row, select(schema.browser_sessions).order_by(_SESSION.hash))

    def put_sessions(self, sessions: Iterable[BrowserSession], ended: Iterable[str]) -> None:
        with self._transactions.writing() as connection:
            delete_rows(connection, schema.browser_sessions, [(hash,) for hash in ended])
            put_rows(connection, schema.browser_sessions, [_SESSIONS.to_row(each) for each in sessions])

    def used(self, last_used_at: Mapping[str, float]) -> None:
        with self._transactions.writing() as connection:
            for id, at in sorted(last_used_at.items()):
                connection.execute(update(schema.tokens).where(_TOKEN.id == id).values(last_used_at=at))

    def events(
        self, *, user: str | None = None, before: int | None = None, limit: int = 100
    ) -> tuple[AccessEvent, ...]:
        statement = select(schema.access_events).order_by(_EVENT.number.desc()).limit(limit)
        if user is not None:
            statement = statement.where(_EVENT.user == user)
        if before is not None:
            statement = statement.where(_EVENT.number < before)
        return self._all(_event_of, statement)

    def profile(self, user: str) -> Profile:
        with self._transactions.reading() as connection:
            return _profile(connection, user)

    def set_profile(self, user: str, changes: Mapping[str, str | bool | None]) -> None:
        with self._transactions.writing() as connection:
            profile = replace(_profile(connection, user), **dict(changes))  # type: ignore[arg-type]
            put_rows(connection, schema.profiles, [(user, *astuple(profile))])

    def secret(self, name: str, made: str) -> str:
        kept = select(_SECRET.value).where(_SECRET.name == name)
        found: str | None = self._value(kept)
        if found is not None:
            return found
        with self._transactions.writing() as connection:
            insert_new(connection, schema.secrets, (name, made))
            value: str = connection.execute(kept).scalar_one()
        return value


def _profile(connection: Connection, user: str) -> Profile:
    names = [field.name for field in fields(Profile)]
    row = connection.execute(select(*(_PROFILE[name] for name in names)).where(_PROFILE.user == user)).one_or_none()
    return Profile() if row is None else Profile(*row)


def _user_of(row: RowMapping, grants: list[GrantRow]) -> User:
    own = tuple(grant.grant for grant in grants if grant.user == row["name"])
    return User(row["name"], own, row["created_at"], row["disabled"], row["account"])


def _event_of(row: RowMapping) -> AccessEvent:
    return AccessEvent(row["number"], at(row["time"]), row["actor"], row["kind"], row["user"], row["subject"])


def _grant_of(row: RowMapping) -> GrantRow:
    return GrantRow(row["user"], Grant(row["kind"], row["pool"] or None), row["granted_at"], row["granted_by"])


def _grant_row(row: GrantRow) -> tuple[Any, ...]:
    return row.user, row.grant.kind.value, row.grant.pool or "", row.granted_at, row.granted_by
