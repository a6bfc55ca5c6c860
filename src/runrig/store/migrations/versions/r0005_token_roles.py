"""Description of a token, and the roles of its user that it grants."""

import sqlalchemy as sa

from runrig.store.migrations.types import JSON, PROSE, add, optional

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    add("tokens", sa.Column("description", PROSE, nullable=False, server_default=""), *optional(roles=JSON))
