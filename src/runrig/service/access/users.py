"""Users and their roles: queries, and commands that run one at a time."""

from collections.abc import Callable, Collection
from dataclasses import replace

from runrig.domain.access import Grant, GrantRow, RoleKind, User
from runrig.domain.errors import Conflict, NotFound
from runrig.domain.meant import suggested
from runrig.domain.quantities import few
from runrig.domain.tags import Expected, check_unchanged
from runrig.domain.trail import AccessEventKind
from runrig.service.access.accounts import Accounts, check_user


class Users:
    """*pools*: returns the names of the top-level pools; None: not checked."""

    def __init__(self, accounts: Accounts, pools: Callable[[], Collection[str]] | None) -> None:
        self._accounts = accounts
        self._pools = pools

    def all(self) -> tuple[User, ...]:
        return tuple(self._accounts.rows.users.values())

    def known(self, name: str) -> User | None:
        """Returns None if there is no such user."""
        return self._accounts.rows.users.get(name)

    def get(self, name: str) -> User:
        """Raises NotFound."""
        user = self._accounts.rows.users.get(name)
        if user is None:
            way_out = suggested(name, self._accounts.rows.users, ". List users with `runrig user list`")
            raise NotFound(f"user {name!r} not found{way_out}")
        return user

    def admins(self) -> set[str]:
        """Returns enabled users with the role admin. The owner of `up` is an admin too, but not listed."""
        return self._accounts.rows.admins() | ({self._accounts.owner.identity.user} if self._accounts.owner else set())

    def grants(self, user: str | None = None) -> tuple[GrantRow, ...]:
        """Returns all grants; *user*: only those of this user."""
        return tuple(row for row in self._accounts.rows.grants.values() if user in (None, row.user))

    def create(
        self, name: str, roles: Collection[Grant] = (), *, actor: str, again: bool = False, anew: bool = False
    ) -> User:
        """*again*: succeed if the same user exists. *anew*: restore a removed user.

        Raises InvalidInput, Conflict, NotFound.
        """
        with self._accounts.changing(actor) as change:
            check_user(name)
            there = self._accounts.rows.users.get(name)
            if again and there is not None and not there.disabled and set(there.grants) == set(roles):
                return there
            if there is not None and not (anew and there.removed):
                raise Conflict(f"user {name} already exists. Grant more roles with `runrig role grant {name} ROLE`")
            for grant in roles:
                self._check_pool(grant)
            made = User(name, (), change.now) if there is None else replace(there, disabled=False)
            change.user(made, AccessEventKind.USER_CREATED if there is None else AccessEventKind.USER_ENABLED)
            for grant in dict.fromkeys(roles):
                change.grant(name, grant)
        return self._accounts.rows.users[name]

    def remove(self, name: str, *, actor: str) -> None:
        """Removes the tokens, roles and credentials of *name*, which cannot be reused because logs refer to it. Raises
        NotFound, Conflict.
        """
        with self._accounts.changing(actor) as change:
            user, rows = self.get(name), self._accounts.rows
            if not user.disabled:
                self._check_admin_left(without=name)
            change.user(replace(user, disabled=True), AccessEventKind.USER_DISABLED)
            for token in rows.tokens_of(name):
                if token.problem(change.now) is None:
                    change.revoke(token)
            for row in rows.grants.values():
                if row.user == name:
                    change.withdraw(row)
            for credential in rows.credentials.values():
                if credential.user == name:
                    change.drop(credential)

    def set_disabled(self, name: str, disabled: bool, *, actor: str, expected: Expected = None) -> User:
        """A disabled user's tokens stop working; workflows keep running. Raises Changed if the user is not as *expected*."""
        with self._accounts.changing(actor) as change:
            user = self.get(name)
            check_unchanged(expected, user, f"user {name}")
            if user.disabled != disabled:
                if disabled:
                    self._check_admin_left(without=name)
                kind = AccessEventKind.USER_DISABLED if disabled else AccessEventKind.USER_ENABLED
                change.user(replace(user, disabled=disabled), kind)
        return self._accounts.rows.users[name]

    def grant(self, name: str, grant: Grant, *, actor: str) -> User:
        with self._accounts.changing(actor) as change:
            self.get(name)
            self._check_pool(grant)
            if (name, grant) not in self._accounts.rows.grants:
                change.grant(name, grant)
        return self._accounts.rows.users[name]

    def withdraw(self, name: str, grant: Grant, *, actor: str, expected: Expected = None) -> User:
        """Raises NotFound if the user does not have it, Changed if it was granted again and is not as *expected*."""
        with self._accounts.changing(actor) as change:
            row = self._accounts.rows.grants.get((self.get(name).name, grant))
            if row is None:
                has = few([str(each) for each in self._accounts.rows.users[name].grants])
                raise NotFound(f"user {name} does not have the role {grant} (roles: {has or 'none'})")
            check_unchanged(expected, row, f"role {grant} of {name}")
            if grant.kind is RoleKind.ADMIN:
                self._check_admin_left(without=name)
            change.withdraw(row)
        return self._accounts.rows.users[name]

    def change_roles(self, granted: Collection[tuple[str, Grant]], withdrawn: Collection[GrantRow], actor: str) -> None:
        """Makes all changes of a cluster file together; creates missing users."""
        with self._accounts.changing(actor) as change:
            for name in dict.fromkeys(name for name, _ in granted if name not in self._accounts.rows.users):
                change.user(User(name, (), change.now), AccessEventKind.USER_CREATED)
            for name, grant in granted:
                change.grant(name, grant)
            for row in withdrawn:
                change.withdraw(row)

    def _check_pool(self, grant: Grant) -> None:
        pools = None if self._pools is None else self._pools()
        if grant.pool is not None and pools is not None and grant.pool not in pools:
            there = suggested(grant.pool, pools, f" (pools: {few(sorted(pools)) or 'none'})")
            raise NotFound(f"unknown pool {grant.pool!r}{there}")

    def _check_admin_left(self, *, without: str) -> None:
        admins = self._accounts.rows.admins()
        if self._accounts.owner is None and without in admins and len(admins) == 1:
            raise Conflict(
                f"{without} is the last administrator. Grant the role to someone else first: `runrig role grant USER admin`"
            )
