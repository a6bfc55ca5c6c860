"""Dev login of the osmo client: a user named at the start of `up` can log in from this machine without a token."""

import logging

from runrig.domain.access import DEV_LOGIN, Grant, Identity, RoleKind, User
from runrig.domain.errors import Conflict, NotLoggedIn
from runrig.service.access.accounts import Accounts
from runrig.service.access.users import Users
from runrig.service.runtime import logs

BY_TOKEN = "log in with a token: `login URL --method token --token-file FILE`"  # noqa: S105 - not a token
_NOT_HERE = f"the request has no token, and `login --method dev` is not enabled on this server. Instead, {BY_TOKEN}"
_ADMINS = (RoleKind.ADMIN, RoleKind.POOL_ADMIN)

_log = logging.getLogger(__name__)


class DevLogin:
    """Disabled until `allow` is called."""

    def __init__(self, accounts: Accounts, users: Users) -> None:
        self._accounts = accounts
        self._users = users
        self._user: str | None = None

    def allow(self, user: str, *, actor: str) -> None:
        """Allows dev login for *user*, who is created with the role `user` if missing. Raises Conflict, InvalidInput."""
        if user not in self._accounts.rows.users and user != self._owner:
            self._users.create(user, [Grant(RoleKind.POOL_USER)], actor=actor)
        if (problem := self._problem(user)) is not None:
            raise Conflict(f"dev login is not allowed for {user}: {problem}. Use another user")
        self._user = user

    def enter(self, named: str, *, direct: bool) -> Identity:
        """Returns the identity of *named*. *direct*: the request comes from this machine, without a proxy.

        Raises NotLoggedIn.
        """
        if self._user is None:
            raise NotLoggedIn(_NOT_HERE)
        if not direct:
            raise NotLoggedIn(
                f"`login --method dev` works only for programs on this machine, not through a browser or proxy. Instead, {BY_TOKEN}"
            )
        if named != self._user:
            raise NotLoggedIn(f"`login --method dev` is enabled only for {self._user}. Instead, {BY_TOKEN}")
        identity = self.identity()
        if identity is None:
            _log.warning("%s", logs.line("dev_login_refused", user=named, problem=self._problem(named)))
            raise NotLoggedIn(f"dev login is no longer allowed for {named}. Instead, {BY_TOKEN}")
        return identity

    def identity(self) -> Identity | None:
        """Returns the user's identity with current roles; None if dev login is not, or no longer, allowed."""
        if self._user is None or self._problem(self._user) is not None:
            return None
        user = self._accounts.rows.users[self._user]
        return Identity(user.name, user.grants, DEV_LOGIN)

    @property
    def _owner(self) -> str | None:
        owner = self._accounts.owner
        return None if owner is None else owner.identity.user

    def _problem(self, name: str) -> str | None:
        """Returns why *name* cannot log in without a token; None if it can."""
        if name == self._owner:
            return "this user runs the server and has all permissions"
        user: User = self._accounts.rows.users[name]
        if user.disabled:
            return "this user is disabled"
        found = [str(each) for each in user.grants if each.kind in _ADMINS]
        return f"this user is an administrator ({', '.join(found)})" if found else None
