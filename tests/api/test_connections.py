"""What of the bytes of a connection becomes a request, however they come, and what is refused because two could read it in two ways."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
import uvicorn
from starlette.types import Message, Receive, Scope, Send

from runrig.http import connections
from runrig.http.crowd import Crowd, Door
from runrig.http.heads import LARGEST_HEAD
from runrig.http.lingering import TOGETHER
from tests.attack.wire import Wire, wire
from tests.patience import PATIENCE_S, until

HOST = b"Host: here\r\n"
HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: here\r\n\r\n"
"""Does harm if it is read as a request where another reader sees a body."""


@dataclass
class Echo:
    """An application that keeps what it was asked: (method, path, query, body)."""

    port: int = 0
    asked: list[tuple[str, str, bytes, bytes]] = field(default_factory=list)
    headers: list[dict[bytes, bytes]] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        body, message = b"", cast(Message, {})
        while message.get("more_body", True):
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message["body"]
        self.asked.append((scope["method"], scope["path"], scope["query_string"], body))
        self.headers.append(dict(scope["headers"]))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"number ", "more_body": True})
        await send({"type": "http.response.body", "body": b"%d" % len(self.asked)})


@contextmanager
def serving(app: Any, **more: Any) -> Iterator[int]:
    """The port at which *app* is served."""
    guests = Crowd()
    with Door(guests, socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        server = uvicorn.Server(connections.config(app, crowd=guests, lifespan="off", **more))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        until(lambda: server.started)
        yield port
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def shared() -> Iterator[Echo]:
    echo = Echo()
    with serving(echo, read_timeout_s=PATIENCE_S) as echo.port:
        yield echo


@pytest.fixture
def echo(shared: Echo) -> Echo:
    shared.asked.clear()
    shared.headers.clear()
    return shared


def get(line: bytes = b"GET /a HTTP/1.1", headers: bytes = b"") -> bytes:
    return line + b"\r\n" + HOST + headers + b"\r\n"


def post(headers: bytes, body: bytes) -> bytes:
    return get(b"POST /a HTTP/1.1", headers) + body


def chunked(body: bytes) -> bytes:
    return post(b"Transfer-Encoding: chunked\r\n", body)


A = ("GET", "/a", b"", b"")
ABC = ("POST", "/a", b"", b"abc")
BEHIND = ("GET", "/hidden", b"", b"")
READ: dict[str, tuple[bytes, list[tuple[str, str, bytes, bytes]]]] = {
    "one": (get(), [A]),
    "one behind another": (get() + HIDDEN, [A, BEHIND]),
    "a body": (post(b"Content-Length: 3\r\n", b"abc") + HIDDEN, [ABC, BEHIND]),
    "spaces around a value": (post(b"Content-Length: \t3 \t\r\n", b"abc") + HIDDEN, [ABC, BEHIND]),
    "a body of GET": (get(headers=b"Content-Length: 3\r\n") + b"abc" + HIDDEN, [("GET", "/a", b"", b"abc"), BEHIND]),
    "an empty body": (post(b"Content-Length: 0\r\n", b"") + HIDDEN, [("POST", "/a", b"", b""), BEHIND]),
    "chunks": (chunked(b"1\r\na\r\n2\r\nbc\r\n0\r\n\r\n"), [ABC]),
    "extensions of chunks": (chunked(b'3;a="b;\\"c"\r\nabc\r\n0;d\r\n\r\n'), [ABC]),
    "no chunk but the last": (chunked(b"0\r\n\r\n"), [("POST", "/a", b"", b"")]),
    "a path with everything": (
        get(b"GET //a/%41%zz!$&'()*+,;=:@~-._|\\?x=%41&y=?/ HTTP/1.1"),
        [("GET", "//a/A%zz!$&'()*+,;=:@~-._|\\", b"x=%41&y=?/", b"")],
    ),
    "another protocol is asked for": (
        get(headers=b"Connection: Upgrade\r\nUPGRADE: websocket\r\n") + HIDDEN,
        [A, BEHIND],
    ),
    "another protocol is asked for, with a body": (
        post(b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: %d\r\n" % len(HIDDEN), HIDDEN),
        [("POST", "/a", b"", HIDDEN)],
    ),
    "the last one": (get(headers=b"Connection: x, close\r\n") + HIDDEN, [A]),
    "the last one, with what is no request": (get(headers=b"Connection: close\r\n") + b"\0", [A]),
    "HTTP/1.0": (get(b"GET /a HTTP/1.0", b"Connection: keep-alive\r\n") + HIDDEN, [A]),
    "HTTP/1.0 without a host": (b"GET /a HTTP/1.0\r\n\r\n", [A]),
    "something behind chunks": (chunked(b"3\r\nabc\r\n0\r\n\r\n") + HIDDEN, [ABC]),
}


@pytest.mark.parametrize("name", READ)
def test_requests_are_parsed_as_sent(echo: Echo, name: str) -> None:
    sent, asked = READ[name]
    with wire(echo.port) as connection:
        connection.send(sent)
        for number in range(len(asked)):
            assert connection.answer().body == b"number %d" % (number + 1)
    assert echo.asked == asked


BEHIND_THE_LAST = ("something behind chunks", "the last one", "the last one, with what is no request", "HTTP/1.0")
"""A client that keeps sending after its last request may lose the response: the connection is closed, and further data resets it."""


@pytest.mark.parametrize("name", [name for name in READ if name not in BEHIND_THE_LAST])
def test_requests_in_pieces_of_any_size_are_the_same(echo: Echo, name: str) -> None:
    sent, asked = READ[name]
    for size in (1, 7):
        echo.asked.clear()
        with wire(echo.port) as connection:
            connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.send(*(sent[at : at + size] for at in range(0, len(sent), size)))
            for _ in asked:
                assert connection.answer().status == 200
        assert echo.asked == asked


REFUSED = {
    "two equal lengths": post(b"Content-Length: 3\r\nContent-Length: 3\r\n", b"abc"),
    "two lengths": post(b"Content-Length: 0\r\nContent-Length: 3\r\n", b"abc"),
    "two lengths in one": post(b"Content-Length: 3, 3\r\n", b"abc"),
    "length of an underscore": post(b"Content-Length: 1_0\r\n", b"abcdefghij"),
    "length of more than 64 bits": post(b"Content-Length: 18446744073709551619\r\n", b"abc"),
    "length of thousands of zeros": post(b"Content-Length: " + b"0" * 5_000 + b"\r\n", b""),
    "signed length": post(b"Content-Length: +3\r\n", b"abc"),
    "negative length": post(b"Content-Length: -1\r\n", b""),
    "hexadecimal length": post(b"Content-Length: 0x3\r\n", b"abc"),
    "length of another alphabet": post("Content-Length: \u0661\r\n".encode(), b"a"),
    "empty length": post(b"Content-Length: \r\n", b""),
    "length and chunks": post(b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"),
    "chunks and length": post(b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", b"0\r\n\r\n"),
    "chunks twice": post(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"),
    "chunks of chunks": post(b"Transfer-Encoding: chunked, chunked\r\n", b"0\r\n\r\n"),
    "packed chunks": post(b"Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n"),
    "chunks behind a comma": post(b"Transfer-Encoding: ,chunked\r\n", b"0\r\n\r\n"),
    "chunks behind a control character": post(b"Transfer-Encoding: \x0bchunked\r\n", b"0\r\n\r\n"),
    "no encoding": post(b"Transfer-Encoding: identity\r\n", b""),
    "unknown encoding": post(b"Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n"),
    "another encoding behind chunks": post(
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", b"0\r\n\r\n"
    ),
    "empty encoding": post(b"Transfer-Encoding:\r\n", b""),
    "chunks of HTTP/1.0": get(b"POST /a HTTP/1.0", b"Transfer-Encoding: chunked\r\n") + b"0\r\n\r\n",
    "line feeds": b"GET /a HTTP/1.1\nHost: here\n\n",
    "a line feed in the line": b"GET /a HTTP/1.1\nHost: here\r\n\r\n",
    "a line feed between headers": get(headers=b"X: 1\nTransfer-Encoding: chunked\r\n"),
    "a carriage return in a header": get(headers=b"X: a\rTransfer-Encoding: chunked\r\n"),
    "two carriage returns": b"GET /a HTTP/1.1\r\r\nHost: here\r\n\r\n",
    "a folded header": get(headers=b"X: a\r\n b\r\n"),
    "a header folded by a tab": get(headers=b"X: a\r\n\tb\r\n"),
    "a folded length": post(b"Content-Length:\r\n 3\r\n", b"abc"),
    "a folded wish for another protocol": get(headers=b"Connection: Upgrade\r\nUpgrade:\r\n websocket\r\n"),
    "a fold before the first header": b"GET /a HTTP/1.1\r\n Host: here\r\n\r\n",
    "null in a value": get(headers=b"X: a\0b\r\n"),
    "null in a name": get(headers=b"X\0: a\r\n"),
    "null in the path": get(b"GET /a\0b HTTP/1.1"),
    "escape in a value": get(headers=b"X: a\x1bb\r\n"),
    "delete in a value": get(headers=b"X: a\x7fb\r\n"),
    "space in a name": get(headers=b"X Y: a\r\n"),
    "space before the colon": get(headers=b"X : a\r\n"),
    "a name that is no ASCII": get(headers=b"X\xe9: a\r\n"),
    "no name": get(headers=b": a\r\n"),
    "no colon": get(headers=b"nonsense\r\n"),
    "an empty line first": b"\r\n" + get(),
    "a line feed first": b"\n" + get(),
    "a space first": b" " + get(),
    "TLS": b"\x16\x03\x01\x02",
    "nothing but zeros": b"\0" * 64,
    "the address of another server": get(b"GET http://evil/a HTTP/1.1"),
    "its own address": get(b"GET http://here/a HTTP/1.1"),
    "a tunnel": get(b"CONNECT here:80 HTTP/1.1"),
    "no path": get(b"OPTIONS * HTTP/1.1"),
    "a path without a slash": get(b"GET a HTTP/1.1"),
    "nothing but a query": get(b"GET ?a HTTP/1.1"),
    "a fragment": get(b"GET /a#b HTTP/1.1"),
    "a fragment of a query": get(b"GET /a?b#c HTTP/1.1"),
    "a path that is no ASCII": get(b"GET /\xe9 HTTP/1.1"),
    "a query that is no ASCII": get(b"GET /?\xe9 HTTP/1.1"),
    "a tab in the path": get(b"GET /a\tb HTTP/1.1"),
    "tabs between": get(b"GET\t/a\tHTTP/1.1"),
    "a control character in the path": get(b"GET /a\x01 HTTP/1.1"),
    "a control character in the method": get(b"G\x01T /a HTTP/1.1"),
    "two spaces": get(b"GET  /a HTTP/1.1"),
    "a space in the path": get(b"GET /a b HTTP/1.1"),
    "a space behind": get(b"GET /a HTTP/1.1 "),
    "no version": b"GET /a\r\n\r\n",
    "HTTP/0.9": get(b"GET /a HTTP/0.9"),
    "HTTP/1.2": get(b"GET /a HTTP/1.2"),
    "HTTP/2.0": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a version of two digits": get(b"GET /a HTTP/1.10"),
    "a small version": get(b"GET /a http/1.1"),
    "a version of letters": get(b"GET /a HTTP/x.y"),
    "another protocol": get(b"DESCRIBE /a RTSP/1.0"),
    "radio": get(b"SOURCE /a ICE/1.0"),
    "a small method": get(b"get /a HTTP/1.1"),
    "an unknown method": get(b"FROB /a HTTP/1.1"),
    "no host": b"GET /a HTTP/1.1\r\n\r\n",
    "two hosts": get(headers=HOST),
    "a large head": get(headers=b"X: " + b"x" * LARGEST_HEAD + b"\r\n"),
    "many headers": get(headers=b"X:\r\n" * (LARGEST_HEAD // 4)),
    "a long line": get(b"GET /" + b"x" * LARGEST_HEAD + b" HTTP/1.1"),
    "a line without an end": b"GET /" + b"x" * LARGEST_HEAD,
    "a header without an end": b"GET /a HTTP/1.1\r\nX: " + b"x" * LARGEST_HEAD,
    "size of letters": chunked(b"xyz\r\n"),
    "negative size": chunked(b"-1\r\n"),
    "signed size of a chunk": chunked(b"+3\r\nabc\r\n0\r\n\r\n"),
    "prefixed size of a chunk": chunked(b"0x3\r\nabc\r\n0\r\n\r\n"),
    "no size of a chunk": chunked(b"\r\nabc\r\n0\r\n\r\n"),
    "space before a size": chunked(b" 3\r\nabc\r\n0\r\n\r\n"),
    "space behind a size": chunked(b"3 \r\nabc\r\n0\r\n\r\n"),
    "size of more than 64 bits": chunked(b"10000000000000003\r\nabc\r\n0\r\n\r\n"),
    "a line feed behind a size": chunked(b"3\nabc\r\n0\r\n\r\n"),
    "a line feed in an extension": chunked(b"3;a\nb\r\nabc\r\n0\r\n\r\n"),
    "null in an extension": chunked(b"3;a\0b\r\nabc\r\n0\r\n\r\n"),
    "an extension without an end": chunked(b"3;" + b"a" * LARGEST_HEAD),
    "a chunk that is longer": chunked(b"3\r\nabcd\r\n0\r\n\r\n"),
    "a line feed behind a chunk": chunked(b"3\r\nabc\n0\r\n\r\n"),
    "nothing behind a chunk": chunked(b"3\r\nabc0\r\n\r\n"),
    "a length among the trailers": chunked(b"0\r\nContent-Length: 3\r\n\r\n"),
    "a line feed among the trailers": chunked(b"0\r\nX: a\n\r\n"),
    "null among the trailers": chunked(b"0\r\nX: a\0\r\n\r\n"),
    "trailers without an end": chunked(b"0\r\n" + b"X: 1\r\n" * (LARGEST_HEAD // 6 + 1)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_ambiguous_request_is_refused(echo: Echo, name: str) -> None:
    with wire(echo.port) as connection:
        answer = connection.send(REFUSED[name] + HIDDEN).answer()
        assert (answer.status, answer.json["error_code"], answer.headers["connection"]) == (400, "USAGE", "close")
        assert connection.is_closed()
    assert echo.asked == []


def test_headers_are_limited_to_64_kib(echo: Echo) -> None:
    for line, header in ((b"GET /%b HTTP/1.1", b""), (b"GET /a HTTP/1.1", b"X: %b\r\n")):
        room = LARGEST_HEAD - len(get(line, header)) + len(b"%b")
        for size in (1000, 2 * LARGEST_HEAD):
            for more, status in ((0, 200), (1, 400)):
                filled = get(*(part.replace(b"%b", b"x" * (room + more)) for part in (line, header)))
                with wire(echo.port) as connection:
                    connection.send(*(filled[at : at + size] for at in range(0, len(filled), size)))
                    assert connection.answer().status == status


def test_trailers_are_not_headers(echo: Echo) -> None:
    with wire(echo.port) as connection:
        sent = chunked(b"3\r\nabc\r\n0\r\nAuthorization: Bearer x\r\nX-Osmo-User: root\r\n\r\n")
        assert connection.send(sent).answer().status == 200
    assert echo.asked == [ABC]
    assert echo.headers == [{b"host": b"here", b"transfer-encoding": b"chunked"}]


def test_values_lose_the_spaces_around_them(echo: Echo) -> None:
    with wire(echo.port) as connection:
        assert connection.send(get(headers=b"X: \t a b \t\r\nY:\r\n")).answer().status == 200
    assert echo.headers == [{b"host": b"here", b"x": b"a b", b"y": b""}]


def test_http_1_0_is_answered_without_chunks(echo: Echo) -> None:
    with wire(echo.port) as connection:
        connection.send(b"POST /a HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc")
        answer = connection.answer()
        assert (answer.status, answer.body, answer.headers["connection"]) == (200, b"number 1", "close")
        assert "transfer-encoding" not in answer.headers
        assert connection.is_closed()


def test_client_that_expects_a_continue_gets_it(echo: Echo) -> None:
    with wire(echo.port) as connection:
        connection.send(get(b"POST /a HTTP/1.1", b"Expect: 100-continue\r\nContent-Length: 3\r\n"))
        line = b"HTTP/1.1 100 Continue\r\n\r\n"
        assert _exactly(connection, len(line)) == line
        assert connection.send(b"abc").answer().status == 200


def test_slow_client_gets_the_error_format_of_its_api() -> None:
    echo = Echo()
    doors = ((b"/api/version", "application/json"), (b"//api/v1/pools", "application/problem+json"))
    for path, kind in doors:
        with serving(echo, read_timeout_s=2.0) as port, wire(port) as connection:
            answer = connection.send(get(b"POST " + path + b" HTTP/1.1", b"Content-Length: 3\r\n") + b"ab").answer()
            assert (answer.status, answer.headers["content-type"]) == (408, kind)
            message = answer.json.get("message") or answer.json["detail"]
            assert message == "the request did not arrive within 2 seconds. Send it completely"
            assert connection.is_closed()
    assert echo.asked == []


def test_error_after_a_request_is_answered_after_it(echo: Echo) -> None:
    with wire(echo.port) as connection:
        connection.send(get() + b"GET /b\r\n\r\n" + HIDDEN)
        assert [connection.answer().status for _ in range(2)] == [200, 400]
        assert connection.is_closed()
    assert echo.asked == [A]


def _exactly(connection: Wire, count: int) -> bytes:
    found = b""
    while len(found) < count:
        more = connection.socket.recv(count - len(found))
        assert more, found
        found += more
    return found


async def in_pieces(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with `PIECES`, one by one."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for piece in PIECES:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


PIECES = [bytes([number]) * size for number, size in enumerate((1, TOGETHER, 3, TOGETHER - 1, 0, 20 * TOGETHER, 5))]


def test_pieces_of_a_response_stay_in_order_whatever_their_size() -> None:
    with serving(in_pieces) as port:
        for version in (b"1.1", b"1.0"):
            with wire(port) as connection:
                for _ in range(2 if version == b"1.1" else 1):
                    assert connection.send(get(b"GET / HTTP/" + version)).answer().body == b"".join(PIECES)
