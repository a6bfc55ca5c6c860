"""Code that was sent with workflows, by user, so that a hash does not open the files of another user."""

from sqlalchemy import Column, LargeBinary, Table

from runrig.store.columns import WHOLE, UtcDateTime, Words
from runrig.store.schema.base import metadata

# *id*: of a manifest, which is one of the contents. *sent_at*: when its user last sent or used it.
codes = Table(
    "codes",
    metadata,
    Column("user", Words, primary_key=True),
    Column("id", Words, primary_key=True),
    Column("sent_at", UtcDateTime, nullable=False),
)

# The compressed contents with this SHA-256, in pieces of at most 1 MiB, by their *place* from 0.
code_pieces = Table(
    "code_pieces",
    metadata,
    Column("user", Words, primary_key=True),
    Column("hash", Words, primary_key=True),
    Column("place", WHOLE, primary_key=True, autoincrement=False),
    Column("data", LargeBinary, nullable=False),
)
