"""Responses in HTTP/1.0, which has no chunks: a response of unknown length ends with its connection."""

from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle


class UntilClose(RequestResponseCycle):
    """uvicorn would send it in chunks."""

    _of_unknown_length = False

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._of_unknown_length = all(name.lower() != b"content-length" for name, _ in message["headers"])
        if not self._of_unknown_length:
            await super().send(message)
            return
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        if message["type"] == "http.response.start":
            self._start(message)
        else:
            self._go_on(message)

    def _start(self, message: Any) -> None:
        self.response_started = True
        pairs = [pair for pair in (*self.default_headers, *message["headers"]) if pair[0].lower() != b"connection"]
        assert not any(byte in part for pair in pairs for part in pair for byte in b"\r\n\0"), "a header has one line"
        lines = [b"%b: %b\r\n" % pair for pair in (*pairs, (b"connection", b"close"))]
        self.transport.write(b"".join([STATUS_LINE[message["status"]], *lines, b"\r\n"]))

    def _go_on(self, message: Any) -> None:
        if self.scope["method"] != "HEAD":
            self.transport.write(message.get("body", b""))
        if not message.get("more_body", False):
            self.response_complete = True
            self.message_event.set()
            self.transport.close()
            self.on_response()
