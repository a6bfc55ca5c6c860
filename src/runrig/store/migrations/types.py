"""Types of columns in migrations: text is sorted by code points, whatever the locale; whole numbers have 64 bits.

They never change: a change would be another type, with another name.
"""

import sqlalchemy as sa

WORDS = sa.String().with_variant(sa.String(collation="C"), "postgresql")
WORD = sa.String(32).with_variant(sa.String(32, collation="C"), "postgresql")
PROSE = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
WHOLE = sa.Integer().with_variant(sa.BigInteger(), "postgresql")
TIME = sa.DateTime(timezone=True)
