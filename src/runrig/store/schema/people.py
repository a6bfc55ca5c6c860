"""Access: users, roles, tokens, sessions and their audit trail."""

from sqlalchemy import Boolean, Column, ForeignKey, Index

from runrig.domain.access import RoleKind
from runrig.domain.credentials import CredentialKind
from runrig.domain.trail import AccessEventKind
from runrig.store.columns import WHOLE, Encoded, OneOf, Prose, UtcDateTime, Words
from runrig.store.schema.base import Texts, key, needed, optional, table

# Rows are never deleted, because logs name their users.
users = table(
    "users",
    *key(name=Words),
    *needed(created_at=UtcDateTime, disabled=Boolean),
    Column("account", Words, index=True, unique=True),
)

# *pool* "": all pools, since a key cannot be NULL.
grants = table(
    "grants",
    Column("user", Words, ForeignKey("users.name"), primary_key=True),
    *key(kind=OneOf(RoleKind), pool=Words),
    *needed(granted_at=UtcDateTime, granted_by=Words),
)

# Users' own settings. With `up` the owner can act for users without a row in users.
profiles = table(
    "profiles",
    *key(user=Words),
    *optional(pool=Words),
    *needed(email_notification=Boolean, slack_notification=Boolean),
)

# Only the hash of a token is stored. Rows are never deleted.
tokens = table(
    "tokens",
    *key(id=Words),
    *needed(name=Words),
    Column("user", Words, ForeignKey("users.name"), nullable=False, index=True),
    Column("hash", Words, nullable=False, unique=True),
    *needed(created_at=UtcDateTime),
    *optional(expires_at=UtcDateTime, last_used_at=UtcDateTime, revoked_at=UtcDateTime),
    Column("description", Prose, nullable=False, server_default=""),
    *optional(roles=Encoded(Texts)),
)

# Values are encrypted with a key that is stored elsewhere. *user* can be the owner of `up`, who has no row.
credentials = table(
    "credentials",
    *key(user=Words, name=Words),
    *needed(kind=OneOf(CredentialKind), keys=Encoded(Texts), profile=Prose, changed_at=UtcDateTime, sealed=Prose),
)

# Browser sessions; only the hash of a cookie is stored. *user* can be the owner of `up`, who has no row.
browser_sessions = table(
    "browser_sessions",
    *key(hash=Words),
    *needed(user=Words, token=Words),
    *optional(roles=Encoded(Texts)),
    *needed(created_at=UtcDateTime, seen_at=UtcDateTime, ends_at=UtcDateTime),
)

# The audit trail of users, roles and tokens, kept without limit.
access_events = table(
    "access_events",
    *key(number=WHOLE),
    *needed(time=UtcDateTime, actor=Words, kind=OneOf(AccessEventKind), user=Words, subject=Words),
    Index(None, "user", "number"),
)

# Secrets shared by the servers of one database: the signing key.
secrets = table("secrets", *key(name=Words), *needed(value=Words))
