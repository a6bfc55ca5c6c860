"""The real HTTP application of a house on a port of its own, and clients that keep their connection."""

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from runrig.api.app import create_app
from tests.patience import PATIENCE_S
from tests.properties.subpools.house import House

TOKEN = "correct-horse"


@contextmanager
def serving(house: House) -> Iterator[int]:
    """The port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(256)
        port = int(listener.getsockname()[1])
        app = create_app(house.service, token=TOKEN, port=port, user="ann")
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="http")
        thread.start()
        try:
            yield port
        finally:
            server.should_exit = True
            thread.join(PATIENCE_S)


class Client:
    """*user* asks."""

    def __init__(self, port: int, user: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        self._headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json", "x-osmo-user": user}

    def call(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Status and answer."""
        self._connection.request(method, path, None if body is None else json.dumps(body), self._headers)
        response = self._connection.getresponse()
        return response.status, json.loads(response.read())

    def close(self) -> None:
        self._connection.close()
