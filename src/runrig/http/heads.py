"""Rejects heads of requests that could be interpreted in two ways, before the parser reads them.

If a proxy in front interprets an unusual head differently, the two see different requests in the same bytes.
"""

import re
from collections.abc import Iterable

LARGEST_HEAD = 64 * 1024
"""Bytes of request line and headers."""

_LONGEST_LENGTH = 20
"""Digits of a length. Python reads only some thousand, also of zeros."""
_END = b"\r\n\r\n"
_BEGINNING = re.compile(rb"[A-Z]")
_LINE = re.compile(rb"[A-Z-]+ /[!\"$-~]* HTTP/1\.[01]\r\n")
"""A path on this server, without a fragment. Requests for other servers are rejected."""
_UPGRADE = re.compile(rb"\r\nupgrade:[^\r]*", re.IGNORECASE)


class Unreadable(Exception):
    """The bytes are not a request, or can be interpreted in two ways."""


def end_of_head(sent: bytearray, looked_at: int) -> int | None:
    """Returns where the head at the beginning of *sent* ends; None if it is incomplete. Raises Unreadable if waiting
    for more is useless.

    *looked_at*: bytes of *sent* known not to contain the end.
    """
    if not _BEGINNING.match(sent):
        raise Unreadable
    end = sent.find(_END, max(0, looked_at - len(_END)))
    size = end + len(_END) if end >= 0 else len(sent)
    if size > LARGEST_HEAD:
        raise Unreadable
    if end >= 0:
        return size
    if (line := sent.find(b"\n")) >= 0 and sent[line - 1 : line] != b"\r":
        raise Unreadable
    return None


def as_parsed(head: bytes) -> bytes:
    """Returns *head* for the parser. Raises Unreadable.

    Removes an upgrade to another protocol, which a server may ignore, because the parser would then ignore the body.
    """
    lines = head.count(b"\r\n")
    if head.count(b"\n") != lines or head.count(b"\r") != lines or b"\0" in head or not _LINE.match(head):
        raise Unreadable
    return _UPGRADE.sub(b"", head)


def body_of(version: str, headers: Iterable[tuple[bytes, bytes]]) -> int | None:
    """Returns the bytes of the body of a request; None if it is chunked. Raises Unreadable. *headers*: with names in
    lower case.
    """
    hosts, lengths, encodings = 0, [], []
    for name, value in headers:
        if name == b"host":
            hosts += 1
        elif name == b"content-length":
            lengths.append(value)
        elif name == b"transfer-encoding":
            encodings.append(value.lower())
    if hosts > 1 or (version == "1.1" and not hosts) or len(lengths) + len(encodings) > 1:
        raise Unreadable
    if encodings:
        if version != "1.1" or encodings != [b"chunked"]:
            raise Unreadable
        return None
    if lengths and not (lengths[0].isdigit() and len(lengths[0]) <= _LONGEST_LENGTH):
        raise Unreadable
    return int(lengths[0]) if lengths else 0
