"""WebSockets, the only protocol to which a connection can be upgraded, and only on the paths of sessions."""

import re
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

SOCKETS = ("/api/v1/sessions/", "/api/router/")
"""Prefixes of WebSocket paths: in API v1, and in the osmo API."""
LARGEST_MESSAGE = 1024 * 1024
"""Bytes of one message."""
_LINE = re.compile(rb"GET (?:" + "|".join(SOCKETS).encode() + rb")[^ ]* HTTP/1\.1\r\n")
_WISH = re.compile(rb"\r\nupgrade:[ \t]*websocket[ \t]*\r\n", re.IGNORECASE)


def asks_for_socket(head: bytes) -> bool:
    """Whether the request with *head* asks for a WebSocket on a path that has one; elsewhere the upgrade is
    ignored.
    """
    return _LINE.match(head) is not None and _WISH.search(head) is not None


class Socket(WebSocketsSansIOProtocol):
    """A WebSocket whose refusal, with status and body, is an ordinary response, not an error to log."""

    async def send(self, message: Any) -> None:
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True
