"""Notices about a user's workflows: their kinds, settings and deliveries."""

import enum
import re
from dataclasses import dataclass, field


class When(enum.StrEnum):
    """Kinds of events of a workflow. FAIL includes cancelled workflows."""

    START = "start"
    DONE = "done"
    FAIL = "fail"
    PREEMPT = "preempt"


USUAL = (When.FAIL, When.PREEMPT)
DELIVERED = "delivered"


@dataclass(frozen=True, slots=True)
class NoticeSetting:
    """*to*: an https address, or a mail address. *min_run_s*: no notice of the end of a workflow that ran for less. *secret*: signs each
    notice. *position*: the last revision of the log that was searched for this user.

    *tried_at*, *result*: the last attempt and what came of it; None and "" before the first.
    """

    user: str
    to: str
    when: tuple[str, ...]
    min_run_s: int
    secret: str = field(repr=False)
    position: int
    tried_at: float | None = None
    result: str = ""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A notice that has not arrived yet. *id*: the same in each attempt. *attempt*: number of failed ones. *due*: when to
    try next.
    """

    id: str
    user: str
    body: str
    attempt: int
    due: float


def place(to: str) -> str:
    """*to* as it can be shown: the path of an https address can be a password, as those of chats are."""
    head, _, rest = to.partition("://")
    host, slash, path = rest.partition("/")
    return f"{head}://{host}{slash}{'…' if path else ''}" if rest else to


class Security(enum.StrEnum):
    """How a connection to a mail server is encrypted: from its beginning, after STARTTLS, or not at all."""

    TLS = "tls"
    STARTTLS = "starttls"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Smtp:
    """The mail server for notices. *user* "": no login. *domains*: of the addresses to which users can have mail sent."""

    host: str
    port: int
    security: Security
    sender: str
    domains: tuple[str, ...]
    user: str = ""
    password: str = field(default="", repr=False)


_LOCAL = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
_DOMAIN = r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_ADDRESS = re.compile(rf"({_LOCAL})@({_DOMAIN})")


def mail_domain(address: str) -> str | None:
    """The domain of a mail address, in lower case; None if *address* is not one. Names, comments and quotes are not accepted, so an
    address cannot bring a second one or a header.
    """
    local, _, domain = address.rpartition("@")
    found = _ADDRESS.fullmatch(f"{local}@{domain.lower()}")
    return found[2] if found and len(local) <= 64 and len(domain) <= 253 else None
