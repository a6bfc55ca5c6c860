"""A proxy between the client and a server, which notes what the client asks for and what it is answered."""

import http.client
import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

_OF_A_CONNECTION = {"connection", "content-length", "transfer-encoding", "host", "accept-encoding"}


@dataclass(frozen=True)
class Noted:
    method: str
    path: str
    body: Any
    headers: dict[str, str]
    status: int
    answer: str


class Proxy(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, upstream: int) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.upstream = upstream
        self.noted: list[Noted] = []


class _Passing(http.server.BaseHTTPRequestHandler):
    server: Proxy

    def _pass_on(self) -> None:
        sent = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _OF_A_CONNECTION}
        with closing(http.client.HTTPConnection("127.0.0.1", self.server.upstream)) as upstream:
            upstream.request(self.command, self.path, sent or None, headers)
            answer = upstream.getresponse()
            text = answer.read()
        body = json.loads(sent) if sent else None
        self.server.noted.append(
            Noted(self.command, self.path, body, headers, answer.status, text.decode("utf-8", "replace"))
        )
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _OF_A_CONNECTION:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _pass_on  # noqa: N815 - the names that the library looks for

    def log_message(self, format: str, *args: Any) -> None:
        """Prints nothing."""


@contextmanager
def proxy(upstream: int) -> Iterator[Proxy]:
    """A proxy for the server on the port *upstream* of this machine."""
    with Proxy(upstream) as found:
        thread = threading.Thread(target=found.serve_forever, daemon=True)
        thread.start()
        try:
            yield found
        finally:
            found.shutdown()
            thread.join()
