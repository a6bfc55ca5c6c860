"""Types of columns in migrations, and columns by their types. Names of constraints and indexes follow `schema.base`.

Text is sorted by code points, whatever the locale; whole numbers have 64 bits. None of it ever changes: a change would be another
type, with another name.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

from runrig.store.schema.base import key as key
from runrig.store.schema.base import needed as needed
from runrig.store.schema.base import optional as optional

WORDS = sa.String().with_variant(sa.String(collation="C"), "postgresql")
WORD = sa.String(32).with_variant(sa.String(32, collation="C"), "postgresql")
PROSE = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
WHOLE = sa.Integer().with_variant(sa.BigInteger(), "postgresql")
LARGE = sa.BigInteger()
REAL: sa.Double[float] = sa.Double()
FLAG = sa.Boolean()
TIME = sa.DateTime(timezone=True)
JSON = sa.JSON(none_as_null=True)
BYTES = sa.LargeBinary()


def add(table: str, *columns: sa.Column[Any]) -> None:
    """Adds columns that can be NULL or have a default."""
    for column in columns:
        op.add_column(table, column)
