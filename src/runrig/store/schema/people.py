"""Access: users, roles, tokens, sessions and their audit trail."""

from sqlalchemy import Boolean, Column, ForeignKey, Index, Table

from runrig.domain.access import RoleKind
from runrig.domain.credentials import CredentialKind
from runrig.domain.trail import AccessEventKind
from runrig.store.columns import WHOLE, Encoded, OneOf, Prose, UtcDateTime, Words
from runrig.store.schema.base import Texts, metadata

# Rows are never deleted, because logs name their users.
users = Table(
    "users",
    metadata,
    Column("name", Words, primary_key=True),
    Column("created_at", UtcDateTime, nullable=False),
    Column("disabled", Boolean, nullable=False),
    Column("account", Words, index=True, unique=True),
)

# *pool* "": all pools, since a key cannot be NULL.
grants = Table(
    "grants",
    metadata,
    Column("user", Words, ForeignKey("users.name"), primary_key=True),
    Column("kind", OneOf(RoleKind), primary_key=True),
    Column("pool", Words, primary_key=True),
    Column("granted_at", UtcDateTime, nullable=False),
    Column("granted_by", Words, nullable=False),
)

# Users' own settings. With `up` the owner can act for users without a row in users.
profiles = Table(
    "profiles",
    metadata,
    Column("user", Words, primary_key=True),
    Column("pool", Words),
    Column("email_notification", Boolean, nullable=False),
    Column("slack_notification", Boolean, nullable=False),
)

# Only the hash of a token is stored. Rows are never deleted.
tokens = Table(
    "tokens",
    metadata,
    Column("id", Words, primary_key=True),
    Column("name", Words, nullable=False),
    Column("user", Words, ForeignKey("users.name"), nullable=False, index=True),
    Column("hash", Words, nullable=False, unique=True),
    Column("created_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime),
    Column("last_used_at", UtcDateTime),
    Column("revoked_at", UtcDateTime),
    Column("description", Prose, nullable=False, server_default=""),
    Column("roles", Encoded(Texts)),
)

# Values are encrypted with a key that is stored elsewhere. *user* can be the owner of `up`, who has no row.
credentials = Table(
    "credentials",
    metadata,
    Column("user", Words, primary_key=True),
    Column("name", Words, primary_key=True),
    Column("kind", OneOf(CredentialKind), nullable=False),
    Column("keys", Encoded(Texts), nullable=False),
    Column("profile", Prose, nullable=False),
    Column("changed_at", UtcDateTime, nullable=False),
    Column("sealed", Prose, nullable=False),
)

# Browser sessions; only the hash of a cookie is stored. *user* can be the owner of `up`, who has no row.
browser_sessions = Table(
    "browser_sessions",
    metadata,
    Column("hash", Words, primary_key=True),
    Column("user", Words, nullable=False),
    Column("token", Words, nullable=False),
    Column("roles", Encoded(Texts)),
    Column("created_at", UtcDateTime, nullable=False),
    Column("seen_at", UtcDateTime, nullable=False),
    Column("ends_at", UtcDateTime, nullable=False),
)

# The audit trail of users, roles and tokens, kept without limit.
access_events = Table(
    "access_events",
    metadata,
    Column("number", WHOLE, primary_key=True, autoincrement=False),
    Column("time", UtcDateTime, nullable=False),
    Column("actor", Words, nullable=False),
    Column("kind", OneOf(AccessEventKind), nullable=False),
    Column("user", Words, nullable=False),
    Column("subject", Words, nullable=False),
    Index(None, "user", "number"),
)

# Secrets shared by the servers of one database: the signing key.
secrets = Table("secrets", metadata, Column("name", Words, primary_key=True), Column("value", Words, nullable=False))
