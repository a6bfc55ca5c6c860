"""Description of a token, and the roles of its user that it grants."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.add_column("tokens", sa.Column("description", TEXT, nullable=False, server_default=""))
    op.add_column("tokens", sa.Column("roles", sa.JSON(), nullable=True))
