"""Whose token a call uses: over stdio that of the command line, over HTTP that of the request and no other."""

import hashlib

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken

from runrig.client import AsyncClient
from runrig.domain.errors import NotAllowed, NotLoggedIn, RunrigError

PAGE = 100


class Access:
    """*server*, *data*: as on the command line. *per_request*: each call needs a token of its own."""

    def __init__(self, server: str | None, data: str | None, *, per_request: bool) -> None:
        self._server = server
        self._data = data
        self.per_request = per_request

    def client(self) -> AsyncClient:
        """Returns a client for one call. Raises NotLoggedIn."""
        if not self.per_request:
            return self._with(None)
        sent = get_access_token()
        if sent is None or not sent.token.strip():  # Without a token, a client would use that of this machine.
            raise NotLoggedIn
        return self._with(sent.token)

    def caller(self) -> str:
        """Returns an identity of the caller, to which keys are bound."""
        sent = get_access_token()
        return sent.client_id if self.per_request and sent is not None else ""

    async def verify_token(self, token: str) -> AccessToken | None:
        """Checks *token* with the server. Called for each request, so a revoked token ends immediately. None becomes a 401.

        If the server does not respond, the request passes, and its tool reports that error.
        """
        if not token.strip():
            return None
        try:
            async with self._with(token) as client:
                await client.me()
        except NotAllowed:
            return None
        except RunrigError:
            pass
        return AccessToken(token=token, client_id=hashlib.sha256(token.encode()).hexdigest(), scopes=[])

    def _with(self, token: str | None) -> AsyncClient:
        return AsyncClient(self._server, token=token, data=self._data, page=PAGE)
