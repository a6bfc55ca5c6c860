"""Default and maximum run times of pools, and pools closed to submissions (rules P6, S7)."""

import sqlalchemy as sa

from runrig.store.migrations.types import PROSE, REAL, TIME, WORDS, add, optional

revision = "0017"
down_revision = "0015"


def upgrade() -> None:
    add("pools", *optional(default_run_time_s=REAL, max_run_time_s=REAL, closed_by=WORDS, closed_since=TIME))
    add("pools", sa.Column("closed_reason", PROSE, nullable=False, server_default=""))
