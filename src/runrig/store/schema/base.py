"""Shared by all tables."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Column, MetaData, Table
from sqlalchemy.schema import SchemaItem

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

# In a table's info: the names of columns that keep their first value. An update that does not name them leaves their indices alone.
FIXED = "fixed"

Texts = tuple[str, ...]
Labels = Mapping[str, str]

Columns = list[Column[Any]]


def table(name: str, *parts: SchemaItem, **options: Any) -> Table:
    return Table(name, metadata, *parts, **options)


def key(**types: Any) -> Columns:
    """Returns the columns of the primary key."""
    return [Column(name, of, primary_key=True, autoincrement=False) for name, of in types.items()]


def needed(**types: Any) -> Columns:
    """Returns columns that are never NULL."""
    return [Column(name, of, nullable=False) for name, of in types.items()]


def optional(**types: Any) -> Columns:
    return [Column(name, of) for name, of in types.items()]
