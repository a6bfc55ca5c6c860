"""Responses of the API server: as objects, as a stream that another thread can end, or as an error with a way out.

Failures that may pass are Unavailable, with `retry_after_s` in the details if the server sent it; others are an ApiRefusal.
"""

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import httpx2

from runrig.backends.kubernetes.names import Object
from runrig.domain.errors import RunrigError, Unavailable

Event = tuple[str, Object]
Batch = list[Event]
T = TypeVar("T")

_MAY_PASS = {401, 408, 429}
_TOO_LARGE = ("request is too large", "message larger than max")
"""Messages of the API server for an object that is too large."""
_WORDS = 500
_WAY_OUT = "Grant runrig the permissions in docs/kubernetes.md (deploy/kubernetes/rbac.yaml)"
_PROBES = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""Seconds, seconds, count: detects a dead peer within a minute, even on a silent connection."""


@contextlib.contextmanager
def unless(*statuses: int) -> Iterator[None]:
    """Ends its block without an error if the API server refuses a request with one of *statuses*."""
    try:
        yield
    except ApiRefusal as refusal:
        if refusal.status not in statuses:
            raise


class ApiRefusal(Exception):
    """A rejection by the API server. *status*: 400, 403, 404, 409, 410, 422 and so on. *reason*: its code. *message*: its text."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        self.status = status
        self.reason = reason
        self.message = message
        way_out = f". {_WAY_OUT}" if self.lacks_right else ""
        super().__init__(f"the API server refused the request ({status} {reason}): {message}{way_out}")

    @property
    def final(self) -> bool:
        """Whether a retry would give the same answer for this object. Permissions, quotas and webhooks can change."""
        passes = self.lacks_right or self.over_quota or "is being terminated" in self.message
        return self.status in (400, 413, 422) or (self.status == 403 and not passes)

    @property
    def lacks_right(self) -> bool:
        """Whether it concerns the caller's permissions, not the object."""
        return self.status == 403 and "is forbidden: User " in self.message

    @property
    def over_quota(self) -> bool:
        """Whether a ResourceQuota of the namespace is full."""
        return self.status == 403 and "exceeded quota" in self.message


class Stream(Generic[T]):
    """A response that arrives in pieces. Raises Unavailable if it breaks off; ends normally after `close`."""

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
        """Ends a waiting reader, from any thread."""
        self._closed = True
        # Closing a socket does not wake its reader; shutting it down does.
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        with self._reading:
            self._response.close()


def events(chunks: Iterator[bytes]) -> Iterator[Batch]:
    """Yields the events of a watch in batches as they arrive. Raises ApiRefusal or Unavailable for an error event."""
    rest = b""
    for chunk in chunks:
        # Split by hand: `splitlines` also splits at characters that JSON allows in a line, such as U+0085.
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
    """Returns *each* without `managedFields`, which take half of an object and are never used."""
    each["metadata"].pop("managedFields", None)
    return each


def decoded(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise Unavailable(f"the API server returned invalid JSON: {content[:80]!r}") from None


# ---------------------------------------------------------------- errors


def refused(response: httpx2.Response) -> RunrigError | ApiRefusal:
    """Returns the error in a response as a RunrigError or ApiRefusal."""
    try:
        said = json.loads(response.content)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, Mapping):
        said = {"message": response.text.strip()}
    return judged(response.status_code, said, response.headers.get("retry-after"))


def judged(status: int, said: Mapping[str, Any], retry_after: Any) -> RunrigError | ApiRefusal:
    message = " ".join(str(said.get("message") or "no reason given").split())[:_WORDS]
    if status == 401:
        return Unavailable(
            f"the API server rejected the login ({message}): the token or certificate is invalid or expired. "
            "Log in to the cluster again"
        )
    if status == 500 and "failed to create typed patch object" in message:
        # An unknown field: reported as a server error, but it is not one.
        return ApiRefusal(400, "BadRequest", message)
    if status == 500 and any(words in message for words in _TOO_LARGE):
        return ApiRefusal(413, "RequestEntityTooLarge", message)
    if status == 500 and "failed calling webhook" in message:
        # One webhook is down, so only some objects of one kind are affected.
        return ApiRefusal(status, "InternalError", message)
    if status in _MAY_PASS or status >= 500:
        return Unavailable(
            f"the API server is temporarily unavailable ({status}): {message}", _retry_details(retry_after)
        )
    return ApiRefusal(status, str(said.get("reason") or "Unknown"), message)


def unanswered(url: str, error: Exception) -> Unavailable:
    """Returns the error for a missing or incomplete response."""
    words: Mapping[type, str] = {
        httpx2.ConnectTimeout: "connection timed out",
        httpx2.ReadTimeout: "response timed out",
        httpx2.WriteTimeout: "sending timed out",
    }
    return Unavailable(
        f"the API server {url} does not respond: {words.get(type(error)) or error or type(error).__name__}"
    )


def _retry_details(retry_after: Any) -> Mapping[str, object]:
    """Returns the seconds as details of an error. Ignores a date, which the header can also contain."""
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
