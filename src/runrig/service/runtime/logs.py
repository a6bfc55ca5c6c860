"""Lines of the server's log: ``event=NAME key=value …``, one event per line, with the id of its request.

Values never hold tokens, queries, bodies or environments: each line names its fields one by one.
"""

import random
import re
from contextvars import ContextVar

_SANE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")
_PLAIN = re.compile(r"[^\s\"'=\\]+")
LONGEST = 200

_request: ContextVar[str] = ContextVar("request", default="")


def request_id(proposed: str | None) -> str:
    """The id that the client proposed if it is sane, else a new one."""
    if proposed is not None and _SANE.fullmatch(proposed):
        return proposed
    return f"{random.getrandbits(64):016x}"  # no secret: asking the system for bytes would let other threads in first


def enter(request: str) -> None:
    """Marks everything logged from here on, in this request and the threads that work for it, with *request*."""
    _request.set(request)


def current() -> str:
    """The id of the current request; empty outside of one."""
    return _request.get()


def line(event: str, **fields: object) -> str:
    """The line for *event*, without None and empty values; values with spaces, quotes or control characters are quoted, long ones cut."""
    parts = [f"event={event}"]
    parts += [f"{name}={_value(value)}" for name, value in fields.items() if value is not None and value != ""]
    if request := current():
        parts.append(f"request={request}")
    return " ".join(parts)


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.1f}"
    text = str(value)
    text = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    if _PLAIN.fullmatch(text) and text.isprintable():
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(each if each.isprintable() else ascii(each)[1:-1] for each in escaped) + '"'
