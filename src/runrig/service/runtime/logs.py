"""Lines of the server's log: ``event=NAME key=value …``, one event per line, with the id of its request.

Values never contain tokens, queries, bodies or environments, because each line names its fields explicitly.
"""

import logging
import random
import re
from contextvars import ContextVar

from runrig.domain.errors import RunrigError, ServerFault, Unavailable

_SANE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")
_PLAIN = re.compile(r"[^\s\"'=\\]+")
LONGEST = 200

_request: ContextVar[str] = ContextVar("request", default="")


def request_id(proposed: str | None) -> str:
    """Returns the client's id if it is valid, else a new one."""
    if proposed is not None and _SANE.fullmatch(proposed):
        return proposed
    return f"{random.getrandbits(64):016x}"  # Not a secret. Asking the system for random bytes would let other threads run first.


def enter(request: str) -> None:
    """Adds the id *request* to everything logged from here on, in this request and its threads."""
    _request.set(request)


def current() -> str:
    """Returns the id of the current request; empty outside of one."""
    return _request.get()


def line(event: str, **fields: object) -> str:
    """Returns the line for *event*, without None and empty values. Quotes special characters and truncates long values."""
    parts = [f"event={event}"]
    parts += [f"{name}={_value(value)}" for name, value in fields.items() if value is not None and value != ""]
    if request := current():
        parts.append(f"request={request}")
    return " ".join(parts)


def failure(log: logging.Logger, event: str, error: Exception, **fields: object) -> None:
    """Logs *error* in a line, with the stack trace unless it is about something outside of the server: while its database is
    unreachable, or its disk full, everything fails.
    """
    said = error.message if isinstance(error, RunrigError) else repr(error)
    trace = None if isinstance(error, Unavailable | ServerFault) else error
    log.error("%s", line(event, **fields, error=said), exc_info=trace)


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.1f}"
    text = str(value)
    text = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    if _PLAIN.fullmatch(text) and text.isprintable():
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(each if each.isprintable() else ascii(each)[1:-1] for each in escaped) + '"'
