"""The one other protocol that is spoken here: WebSockets, on the paths of sessions alone."""

import re
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

SOCKETS = ("/api/v1/sessions/", "/api/router/")
"""Where paths of WebSockets begin: at our door, and at that of the reference client; there are no others."""
LARGEST_MESSAGE = 1024 * 1024
"""Bytes of one message."""
_LINE = re.compile(rb"GET (?:" + "|".join(SOCKETS).encode() + rb")[^ ]* HTTP/1\.1\r\n")
_WISH = re.compile(rb"\r\nupgrade:[ \t]*websocket[ \t]*\r\n", re.IGNORECASE)


def asks_for_socket(head: bytes) -> bool:
    """Whether a request with *head* wants to go on as a WebSocket and may; elsewhere that wish is passed over."""
    return _LINE.match(head) is not None and _WISH.search(head) is not None


class Socket(WebSocketsSansIOProtocol):
    """A WebSocket whose refusal, with status and body, is an answer like any other and no mistake of ours to be logged."""

    async def send(self, message: Any) -> None:
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True
