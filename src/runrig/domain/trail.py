"""The audit trail of access: who changed users, roles, tokens and credentials, and who entered tasks."""

from dataclasses import dataclass
from datetime import datetime

from runrig.domain.value import Page, Shown, Word, at, shown_as


class AccessEventKind(Word):
    USER_CREATED = "user created"
    USER_DISABLED = "user disabled"
    USER_ENABLED = "user enabled"
    TOKEN_CREATED = "token created"  # noqa: S105 - no token
    TOKEN_CHANGED = "token changed"  # noqa: S105
    TOKEN_REVOKED = "token revoked"  # noqa: S105
    ROLE_GRANTED = "role granted"
    ROLE_REVOKED = "role revoked"
    SIGNED_IN = "signed in"
    EXEC = "exec"
    PORT_FORWARD = "port-forward"
    RSYNC = "rsync"
    CREDENTIAL_SET = "credential set"
    CREDENTIAL_DELETED = "credential deleted"
    CREDENTIALS_RESEALED = "credentials resealed"


@dataclass(frozen=True, slots=True)
class AccessEvent(Shown):
    """*actor* changed something about *user*, or entered one of their tasks.  The trail is kept forever.

    *number*: position in the trail, from 1.  *subject*: name of the role, token or task; empty if the user itself changed.
    """

    number: int
    time: datetime
    actor: str
    what: AccessEventKind
    user: str
    subject: str


shown_as(AccessEvent(7, at(1769860800.0), "root", AccessEventKind.ROLE_GRANTED, "alice", "vision-user"))


class AccessEventPage(Page[AccessEvent]):
    """Newest first."""
