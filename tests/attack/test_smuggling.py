"""Requests that two readers could read in two ways: one answer, a refusal, and the connection is closed."""

import pytest

from tests.attack.target import Target, refused
from tests.attack.wire import wire

HIDDEN = 200
"""About so many bytes has the request that is behind the other, and that would do harm if it was read as one."""
SHAPES = {
    "two lengths": b"Content-Length: 0\r\nContent-Length: %d\r\n" % HIDDEN,
    "length and chunks": b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n" % HIDDEN,
    "bare carriage return": b"X: a\rTransfer-Encoding: chunked\r\n",
}
"""`tests/api/test_connections.py` has all of them, at the connections of a server."""


def _head(target: Target, line: bytes) -> bytes:
    said = "".join(f"{name}: {value}\r\n" for name, value in target.headers() if name != "Connection")
    return line + b"\r\n" + said.encode()


@pytest.mark.parametrize("name", SHAPES)
def test_ambiguous_request_is_refused_and_hides_no_other(target: Target, name: str) -> None:
    with wire(target.port) as connection:
        head = _head(target, b"POST /api/pool/team/workflow HTTP/1.1")
        hidden = _head(target, b"POST /api/workflow/treasure-1/cancel HTTP/1.1") + b"\r\n"
        connection.send(head + SHAPES[name] + b"\r\n" + b"0\r\n\r\n" + hidden)
        refused(target, connection.answer(), 400, 413, 422)
        assert connection.is_closed(10)


def test_each_pipelined_request_needs_a_token(target: Target) -> None:
    """The second of a connection is not let in because the first was."""
    first = _head(target, b"GET /api/version HTTP/1.1") + b"\r\n"
    second = f"GET /api/workflow/treasure-1/spec HTTP/1.1\r\nHost: 127.0.0.1:{target.port}\r\n\r\n".encode()
    with wire(target.port) as connection:
        connection.send(first + second)
        assert connection.answer().status == 200
        refused(target, connection.answer(), 401)
