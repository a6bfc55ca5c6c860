"""Code that was sent with workflows, and the workflows that use it."""

from alembic import op

from runrig.store.migrations.types import BYTES, TIME, WHOLE, WORDS, add, key, needed, optional

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    op.create_table("codes", *key(user=WORDS, id=WORDS), *needed(sent_at=TIME))
    op.create_table("code_pieces", *key(user=WORDS, hash=WORDS, place=WHOLE), *needed(data=BYTES))
    add("specifications", *optional(code=WORDS))
    op.create_index(None, "specifications", ["code"])
