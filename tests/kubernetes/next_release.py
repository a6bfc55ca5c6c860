"""The code of a release after this one: the same, with one migration more."""

import shutil
from pathlib import Path

from sqlalchemy import create_engine

import runrig
from runrig.store import schema

NEXT = "9999"
_MIGRATION = f'''"""A column more of a table that each submission writes, and what was so when it was added."""

import sqlalchemy as sa
from alembic import op

revision = "{NEXT}"
down_revision = "{schema.HEAD}"


def upgrade() -> None:
    op.add_column("workflows", sa.Column("of_next", sa.Integer(), nullable=True))
    op.execute("CREATE TABLE migrated AS SELECT epoch, revision FROM meta")
'''


def write_next_release(folder: Path) -> None:
    """Writes it to *folder*, which is then its PYTHONPATH."""
    shutil.copytree(Path(runrig.__file__).parent, folder / "runrig")
    (folder / "runrig/store/migrations/versions" / f"r{NEXT}_next.py").write_text(_MIGRATION)


def take_back(url: str) -> None:
    """The database has the tables of this release again, when nobody uses it any more."""
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE migrated")
        connection.exec_driver_sql("ALTER TABLE workflows DROP COLUMN of_next")
        connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{schema.HEAD}'")
    engine.dispose()
