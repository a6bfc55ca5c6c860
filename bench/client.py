"""A client for a server that is measured."""

import http.client
import json
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

ANSWERS_WITHIN_S = 60.0
IDLE_S = 2.0
"""Servers close connections that were idle for five seconds, and a busy one may do so just as a request arrives."""


class Client:
    """A connection to the server at *url* that stays open, so that connecting is not measured."""

    def __init__(self, url: str, token: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=ANSWERS_WITHIN_S)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._used = monotonic()

    def call(self, method: str, path: str, body: str | None = None) -> bytes:
        """Raises RuntimeError unless the response is a success."""
        if monotonic() - self._used > IDLE_S:
            self._connection.close()
        self._connection.request(method, path, body, self._headers)
        response = self._connection.getresponse()
        answer = response.read()
        self._used = monotonic()
        if response.status != 200:
            raise RuntimeError(f"{method} {path}: {response.status} {answer[:500]!r}")
        return answer

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Sends and receives JSON.  Raises RuntimeError unless the response is a success."""
        return json.loads(self.call(method, path, None if body is None else json.dumps(body)))

    def close(self) -> None:
        self._connection.close()
