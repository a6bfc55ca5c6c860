"""Description of a token, and the roles of its user that it grants."""

import sqlalchemy as sa
from alembic import op

from runrig.store.migrations.types import PROSE

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("tokens", sa.Column("description", PROSE, nullable=False, server_default=""))
    op.add_column("tokens", sa.Column("roles", sa.JSON(), nullable=True))
