"""The real HTTP application on a port of its own, and clients that keep their connection."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI

from tests.patience import PATIENCE_S

IDLE_S = 2.0
"""Seconds after which a client opens another connection: servers close an idle one after five."""


class Gone(Exception):
    """The server did not answer: it is dead, dying, or stopped."""


@contextmanager
def listening(application: Callable[[int], FastAPI]) -> Iterator[int]:
    """The port on which an application listens, made for that port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(256)
        port = int(listener.getsockname()[1])
        config = uvicorn.Config(application(port), log_config=None, access_log=False, lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="http")
        thread.start()
        try:
            yield port
        finally:
            server.should_exit = True
            thread.join(PATIENCE_S)


class Client:
    """One connection to *address*, HOST:PORT.  *headers* go out with every request."""

    def __init__(self, address: str, headers: Mapping[str, str], timeout_s: float = PATIENCE_S) -> None:
        self._connection = http.client.HTTPConnection(address, timeout=timeout_s)
        self._headers = {"Content-Type": "application/json", **headers}
        self._used = time.monotonic()

    def call(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Status and JSON of the answer.  Raises Gone if there is none."""
        status, answer = self._asked(method, path, body)
        return status, json.loads(answer)

    def text(self, path: str) -> str:
        status, answer = self._asked("GET", path)
        assert status == 200, f"{path}: {status} {answer.decode()}"
        return answer.decode()

    def _asked(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        if time.monotonic() - self._used > IDLE_S:
            self._connection.close()  # The server may be closing it; the next request opens another.
        try:
            self._connection.request(method, path, None if body is None else json.dumps(body), self._headers)
            response = self._connection.getresponse()
            answer = response.status, response.read()
            self._used = time.monotonic()
            return answer
        except (OSError, http.client.HTTPException) as error:
            raise Gone(repr(error)) from error

    def ok(self, method: str, path: str, body: object = None) -> Any:
        """The JSON of an answer that must not be an error."""
        status, answer = self.call(method, path, body)
        assert status in (200, 201, 204), f"{method} {path}: {status} {answer}"
        return answer

    def close(self) -> None:
        self._connection.close()
