"""Migrates a database to the tables of this version, or explains why it cannot."""

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from runrig.domain.errors import ServerFault
from runrig.store.schema import HEAD


def upgrade(connection: Connection, found: str | None, place: str) -> None:
    """Runs every step after *found* (None: empty) within the transaction of *connection*.

    Raises ServerFault if *found* is unknown to this version.
    """
    config = Config()
    config.set_main_option("script_location", "runrig.store:migrations")
    config.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if found is not None and found not in known:
        raise ServerFault(
            f"{place} was written by a newer runrig (schema {found}, this version supports up to {HEAD}). "
            "Install the newer version, or restore an older backup",
            {"found": found, "known": HEAD},
        )
    command.upgrade(config, "head")
