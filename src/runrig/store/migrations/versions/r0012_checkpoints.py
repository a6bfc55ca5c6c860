"""The state of the cluster after some revisions."""

from alembic import op

from runrig.store.migrations.types import BYTES, LARGE, TIME, WHOLE, key, needed, optional

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.create_table(
        "checkpoints",
        *key(revision=LARGE),
        *needed(time=TIME, cluster_at=LARGE),
        *optional(cluster=BYTES),
        *needed(gangs=BYTES, firm=WHOLE, low=WHOLE, waiting=WHOLE, preempted=WHOLE),
    )
