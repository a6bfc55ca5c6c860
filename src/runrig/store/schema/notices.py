"""Notices: settings of users, and what has not arrived yet."""

from sqlalchemy import BigInteger, Index

from runrig.store.columns import WHOLE, Encoded, Prose, UtcDateTime, Words
from runrig.store.schema.base import Texts, key, needed, optional, table

# *user* can be the owner of `up`, who has no row in users.
notice_settings = table(
    "notice_settings",
    *key(user=Words),
    *needed(to=Prose, when=Encoded(Texts), min_run_s=WHOLE, secret=Words, position=BigInteger),
    *optional(tried_at=UtcDateTime),
    *needed(result=Prose),
)

# Rows are deleted once the notice is delivered or abandoned, after 36 minutes at most.
deliveries = table(
    "deliveries",
    *key(id=Words),
    *needed(user=Words, body=Prose, attempt=WHOLE, due=UtcDateTime, number=BigInteger),
    Index(None, "user", "number"),
)
