"""Users, roles, tokens, and your own credentials."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Literal

from runrig.client import models
from runrig.client.paths import path, tokens
from runrig.client.ways import Calls, W, call, said, stream

CredentialType = Literal["GENERIC", "REGISTRY", "DATA"]


class TokenCalls(Calls[W]):
    @stream
    def list(self, *, user: str | None = None, ended: bool = False) -> AsyncGenerator["models.Token", None]:
        """Yields your tokens, or those of *user*, oldest first. *ended*: include expired and revoked ones."""
        return self._all(models.Token, tokens(user), {"ended": ended or None})

    @call
    async def create(
        self,
        name: str,
        *,
        user: str | None = None,
        expires_in_s: float | None = 90 * 86400.0,
        description: str = "",
        roles: Sequence[str] | None = None,
    ) -> "models.TokenMade":
        """Creates a token, whose value is shown only now. *expires_in_s*: lifetime in seconds; None: it never expires.

        *roles*: the user's roles that it grants; None: all.
        """
        body = {"name": name, "expires_in_s": expires_in_s, "description": description, "roles": roles}
        return await self._create(models.TokenMade, tokens(user), body)

    @call
    async def get(self, name: str, *, user: str | None = None) -> "models.Token":
        """Returns your token *name*, or that of *user*. Pass its `etag` to `update` to detect changes."""
        return await self._get(models.Token, tokens(user, name))

    @call
    async def update(
        self, name: str, edit: "models.TokenEdit", *, user: str | None = None, if_match: str | None = None
    ) -> "models.Token":
        """Updates the fields set in *edit* and returns the token. Takes effect with the next request.

        *if_match*: an `etag`. Raises Changed if the token was edited since.
        """
        return await self._ask(models.Token, "PATCH", tokens(user, name), said(edit), if_match=if_match)

    @call
    async def revoke(self, name: str, *, user: str | None = None, if_match: str | None = None) -> None:
        """Revokes a token; it stops working with the next request. *if_match*: as in `update`."""
        await self._send("DELETE", tokens(user, name), if_match=if_match)


class UserCalls(Calls[W]):
    @stream
    def list(self) -> AsyncGenerator["models.User", None]:
        """Yields users, sorted by name."""
        return self._all(models.User, path("users"))

    @call
    async def get(self, name: str) -> "models.User":
        """Returns a user with their roles. Pass its `etag` to an edit to detect changes."""
        return await self._get(models.User, path("users", name))

    @call
    async def create(self, name: str, roles: Sequence[str] = ()) -> "models.User":
        """Creates a user."""
        return await self._create(models.User, path("users"), {"name": name, "roles": [*roles]})

    @call
    async def disable(self, name: str, *, if_match: str | None = None) -> "models.User":
        """Disables a user: their tokens stop working, their workflows keep running. Returns the user."""
        return await self._ask(models.User, "PATCH", path("users", name), {"disabled": True}, if_match=if_match)

    @call
    async def enable(self, name: str, *, if_match: str | None = None) -> "models.User":
        """Enables a user, so that their tokens work again. Returns the user."""
        return await self._ask(models.User, "PATCH", path("users", name), {"disabled": False}, if_match=if_match)

    @stream
    def changes(self, *, user: str | None = None) -> AsyncGenerator["models.AccessEvent", None]:
        """Yields changes of users, roles and tokens, newest first. *user*: only those about this user."""
        return self._all(models.AccessEvent, path("access-events"), {"user": user})


class RoleCalls(Calls[W]):
    @stream
    def list(self, *, user: str | None = None) -> AsyncGenerator["models.Role", None]:
        """Yields which user has which role."""
        return self._all(models.Role, path("roles"), {"user": user})

    @call
    async def get(self, user: str, role: str) -> "models.Role":
        """Returns when *user* was granted *role*, and by whom."""
        return await self._get(models.Role, path("roles", user, role))

    @call
    async def grant(self, user: str, role: str) -> "models.Role":
        """Grants *role* to *user*. Returns the existing grant if there is one."""
        return await self._create(models.Role, path("roles"), {"user": user, "role": role})

    @call
    async def revoke(self, user: str, role: str, *, if_match: str | None = None) -> None:
        """Revokes *role* from *user*. *if_match*: an `etag`. Raises Changed if it was granted again since."""
        await self._send("DELETE", path("roles", user, role), if_match=if_match)


class CredentialCalls(Calls[W]):
    @stream
    def list(self) -> AsyncGenerator["models.Credential", None]:
        """Yields your credentials by name, without values."""
        return self._all(models.Credential, path("credentials"))

    @call
    async def get(self, name: str) -> "models.Credential":
        """Returns your credential *name*, without values."""
        return await self._get(models.Credential, path("credentials", name))

    @call
    async def set(
        self, name: str, values: Mapping[str, str], *, type: CredentialType = "GENERIC", if_match: str | None = None
    ) -> "models.Credential":
        """Creates your credential *name*, or replaces it completely. *if_match*: an `etag`."""
        body = {"type": type, "values": dict(values)}
        return await self._ask(models.Credential, "PUT", path("credentials", name), body, if_match=if_match)

    @call
    async def delete(self, name: str, *, if_match: str | None = None) -> None:
        """Deletes your credential *name*. *if_match*: an `etag`."""
        await self._send("DELETE", path("credentials", name), if_match=if_match)
