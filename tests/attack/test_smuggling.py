"""Requests that two readers could read in two ways: one answer, a refusal, and the connection is closed."""

import pytest

from tests.attack.target import Target, refused
from tests.attack.wire import wire

HIDDEN = 200
"""About so many bytes has the request that is behind the other, and that would do harm if it was read as one."""
SHAPES = {
    "two lengths": b"Content-Length: 0\r\nContent-Length: %d\r\n" % HIDDEN,
    "two lengths in one": b"Content-Length: 0, %d\r\n" % HIDDEN,
    "length and chunks": b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n" % HIDDEN,
    "chunks and length": b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
    "two encodings": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
    "unknown encoding": b"Transfer-Encoding: xchunked\r\n",
    "encodings": b"Transfer-Encoding: gzip, chunked\r\n",
    "hidden encoding": b"Transfer-Encoding:\x0bchunked\r\nContent-Length: 4\r\n",
    "space before the colon": b"Content-Length : %d\r\n" % HIDDEN,
    "signed length": b"Content-Length: +%d\r\n" % HIDDEN,
    "negative length": b"Content-Length: -1\r\n",
    "hexadecimal length": b"Content-Length: 0x10\r\n",
    "length of another alphabet": "Content-Length: ١\r\n".encode(),
    "huge length": b"Content-Length: 99999999999999999999999\r\n",
    "empty length": b"Content-Length: \r\n",
    "folded header": b"X: 1\r\n Content-Length: %d\r\nTransfer-Encoding: identity\r\n" % HIDDEN,
    "bare carriage return": b"X: a\rTransfer-Encoding: chunked\r\n",
    "null in a header": b"X: a\x00b\r\n",
    "null in a name": b"X\x00Y: a\r\n",
    "no name": b": a\r\n",
    "no colon": b"nonsense\r\n",
}
LINES = {
    "no version": b"GET /api/version",
    "version 0.9": b"GET /api/version HTTP/0.9",
    "version 2": b"PRI * HTTP/2.0",
    "version of letters": b"GET /api/version HTTP/x.y",
    "two spaces": b"GET  /api/version HTTP/1.1",
    "tab": b"GET\t/api/version\tHTTP/1.1",
    "space in the path": b"GET /api/ version HTTP/1.1",
    "no path": b"GET HTTP/1.1",
    "method of control characters": b"G\x01T /api/version HTTP/1.1",
    "path of control characters": b"GET /api/\x01 HTTP/1.1",
    "bytes of no encoding": b"GET /api/\xff\xfe HTTP/1.1",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "nothing but zeros": b"\x00" * 64,
}
CHUNKS = {
    "size of letters": b"xyz\r\n",
    "signed size": b"-1\r\n",
    "huge size": b"f" * 40 + b"\r\n",
    "chunk longer than it says": b"1\r\nabc\r\n0\r\n\r\n",
    "endless extension": b"1;" + b"x" * 200_000,
}


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


@pytest.mark.parametrize("name", LINES)
def test_invalid_request_is_refused_and_ends_the_connection(target: Target, name: str) -> None:
    with wire(target.port) as connection:
        connection.send(_head(target, LINES[name]) + b"\r\n")
        refused(target, connection.answer(), 400)
        assert connection.is_closed(10)


@pytest.mark.parametrize("name", CHUNKS)
def test_body_with_invalid_chunks_is_refused(target: Target, name: str) -> None:
    head = _head(target, b"POST /api/pool/team/workflow HTTP/1.1") + b"Transfer-Encoding: chunked\r\n"
    with wire(target.port) as connection:
        connection.send(head + b"Content-Type: application/json\r\n\r\n" + CHUNKS[name])
        refused(target, connection.answer(), 400)
        assert connection.is_closed(10)


def test_each_pipelined_request_needs_a_token(target: Target) -> None:
    """The second of a connection is not let in because the first was."""
    first = _head(target, b"GET /api/version HTTP/1.1") + b"\r\n"
    second = f"GET /api/workflow/treasure-1/spec HTTP/1.1\r\nHost: 127.0.0.1:{target.port}\r\n\r\n".encode()
    with wire(target.port) as connection:
        connection.send(first + second)
        assert connection.answer().status == 200
        refused(target, connection.answer(), 401)
