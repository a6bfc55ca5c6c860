"""Code that was sent with workflows, by user, so that a hash does not open the files of another user."""

from sqlalchemy import LargeBinary

from runrig.store.columns import WHOLE, UtcDateTime, Words
from runrig.store.schema.base import key, needed, table

# *id*: of a manifest, which is one of the contents. *sent_at*: when its user last sent or used it.
codes = table("codes", *key(user=Words, id=Words), *needed(sent_at=UtcDateTime))

# The compressed contents with this SHA-256, in pieces of at most 1 MiB, by their *place* from 0.
code_pieces = table("code_pieces", *key(user=Words, hash=Words, place=WHOLE), *needed(data=LargeBinary))
