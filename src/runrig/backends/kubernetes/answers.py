"""Answers of the API server: as objects, as a stream that another thread can end, or as an error that says what to do.

What may pass by itself is Unavailable, with `retry_after_s` in its details if the server gave it; a plain no is a Refusal.
"""

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import httpx2

from runrig.domain.errors import RunrigError, Unavailable

Object = dict[str, Any]
Event = tuple[str, Object]
Batch = list[Event]
T = TypeVar("T")

_MAY_PASS = {401, 408, 429}
_TOO_LARGE = ("request is too large", "message larger than max")
"""How the database behind the API server names a version of an object."""
_WORDS = 500
_WAY_OUT = "Grant runrig the permissions in docs/kubernetes.md (deploy/kubernetes/rbac.yaml)"
_PROBES = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""Seconds, seconds, times: a dead peer is noticed within a minute, even on a silent connection."""


class Refusal(Exception):
    """The API server says no: *status* 400, 403, 404, 409, 410, 422 and so on, *reason*: its word for it; *message*: its sentence."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        self.status = status
        self.reason = reason
        self.message = message
        way_out = f". {_WAY_OUT}" if self.lacks_right else ""
        super().__init__(f"the API server refused the request ({status} {reason}): {message}{way_out}")

    @property
    def final(self) -> bool:
        """True if asking again would give the same answer for this object; rights, quotas and webhooks may change."""
        passes = self.lacks_right or self.over_quota or "is being terminated" in self.message
        return self.status in (400, 413, 422) or (self.status == 403 and not passes)

    @property
    def lacks_right(self) -> bool:
        """True if it is about who asks, not about the object."""
        return self.status == 403 and "is forbidden: User " in self.message

    @property
    def over_quota(self) -> bool:
        """True if a ResourceQuota of the namespace is full."""
        return self.status == 403 and "exceeded quota" in self.message


class Stream(Generic[T]):
    """An answer that arrives bit by bit.  Raises Unavailable where it breaks off; after `close` it just ends."""

    def __init__(self, url: str, response: httpx2.Response, read: Callable[[Iterator[bytes]], Iterator[T]]) -> None:
        self._url, self._response = url, response
        self._items = read(response.iter_bytes())
        self._socket: socket.socket = response.extensions["network_stream"].get_extra_info("socket")
        self._reading = threading.Lock()
        self._closed = False
        probe(self._socket)

    def __enter__(self) -> "Stream[T]":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        with self._reading:
            if self._closed:
                raise StopIteration
            try:
                return next(self._items)
            except (httpx2.TransportError, httpx2.StreamError) as error:
                if self._closed:
                    raise StopIteration from None
                raise unanswered(self._url, error) from None

    def close(self) -> None:
        """Ends a reader that waits for more, from any thread."""
        self._closed = True
        # Closing a socket does not wake its reader; shutting it down does.
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        with self._reading:
            self._response.close()


def events(chunks: Iterator[bytes]) -> Iterator[Batch]:
    """Events of a watch, in batches as they arrive.  Raises Refusal or Unavailable for an error event."""
    rest = b""
    for chunk in chunks:
        # By hand: a line of JSON may hold what `splitlines` takes for a line end, such as U+0085.
        *lines, rest = (rest + chunk).split(b"\n")
        if batch := [_event(line) for line in lines if line]:
            yield batch


def _event(line: bytes) -> Event:
    said = decoded(line)
    kind, about = said["type"], said["object"]
    if kind == "ERROR":
        raise judged(int(about.get("code", 500)), about, about.get("details", {}).get("retryAfterSeconds"))
    return kind, lean(about)


def lean(each: Object) -> Object:
    """*each* without `managedFields`, which are half of an object and which nobody reads."""
    each["metadata"].pop("managedFields", None)
    return each


def decoded(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        raise Unavailable(f"the API server returned invalid JSON: {content[:80]!r}") from None


# ---------------------------------------------------------------- errors


def refused(response: httpx2.Response) -> RunrigError | Refusal:
    """The error in an answer as one of ours."""
    try:
        said = json.loads(response.content)
    except ValueError:
        said = None
    if not isinstance(said, Mapping):
        said = {"message": response.text.strip()}
    return judged(response.status_code, said, response.headers.get("retry-after"))


def judged(status: int, said: Mapping[str, Any], retry_after: Any) -> RunrigError | Refusal:
    message = " ".join(str(said.get("message") or "no reason given").split())[:_WORDS]
    if status == 401:
        return Unavailable(
            f"the API server rejected the login ({message}): the token or certificate is invalid or expired. "
            "Log in to the cluster again"
        )
    if status == 500 and "failed to create typed patch object" in message:
        # An unknown field: not a fault of the server, though it says so.
        return Refusal(400, "BadRequest", message)
    if status == 500 and any(words in message for words in _TOO_LARGE):
        return Refusal(413, "RequestEntityTooLarge", message)
    if status == 500 and "failed calling webhook" in message:
        # One webhook is down, and with it some objects of one kind.
        return Refusal(status, "InternalError", message)
    if status in _MAY_PASS or status >= 500:
        return Unavailable(f"the API server is temporarily unavailable ({status}): {message}", _told(retry_after))
    return Refusal(status, str(said.get("reason") or "Unknown"), message)


def unanswered(url: str, error: Exception) -> Unavailable:
    """The error for an answer that did not come, or not completely."""
    words: Mapping[type, str] = {
        httpx2.ConnectTimeout: "connection timed out",
        httpx2.ReadTimeout: "response timed out",
        httpx2.WriteTimeout: "sending timed out",
    }
    return Unavailable(
        f"the API server {url} does not respond: {words.get(type(error)) or error or type(error).__name__}"
    )


def _told(retry_after: Any) -> Mapping[str, object]:
    """The seconds as details of an error; a date, which the header may also hold, is ignored."""
    try:
        return {"retry_after_s": float(retry_after)}
    except (TypeError, ValueError):
        return {}


def probe(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _PROBES.items():
            if hasattr(socket, name):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
