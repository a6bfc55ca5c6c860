"""Shared by all tables."""

from collections.abc import Mapping

from sqlalchemy import MetaData

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# Leaves space on each page for new versions of rows, so that PostgreSQL writes no index for such an update.
ROOM = {"fillfactor": 50}

Texts = tuple[str, ...]
Labels = Mapping[str, str]
