"""Entry point of Alembic: runs the steps of versions/ in the transaction of the store's connection."""

from alembic import context

from runrig.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,  # its names of constraints and indexes
    transactional_ddl=True,
)
context.run_migrations()
