"""Notices: settings of users, and what has not arrived yet."""

from sqlalchemy import BigInteger, Column, Index, Table

from runrig.store.columns import WHOLE, Encoded, Prose, UtcDateTime, Words
from runrig.store.schema.base import Texts, metadata

# *user* can be the owner of `up`, who has no row in users.
notice_settings = Table(
    "notice_settings",
    metadata,
    Column("user", Words, primary_key=True),
    Column("to", Prose, nullable=False),
    Column("when", Encoded(Texts), nullable=False),
    Column("min_run_s", WHOLE, nullable=False),
    Column("secret", Words, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("tried_at", UtcDateTime),
    Column("result", Prose, nullable=False),
)

# Rows are deleted once the notice is delivered or abandoned, after 36 minutes at most.
deliveries = Table(
    "deliveries",
    metadata,
    Column("id", Words, primary_key=True),
    Column("user", Words, nullable=False),
    Column("body", Prose, nullable=False),
    Column("attempt", WHOLE, nullable=False),
    Column("due", UtcDateTime, nullable=False),
    Column("number", BigInteger, nullable=False),
    Index(None, "user", "number"),
)
