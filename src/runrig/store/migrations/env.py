"""What Alembic runs: the steps of versions/, in the transaction of the connection that the store hands over."""

from alembic import context

from runrig.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite alters little: Alembic copies the table instead
    transactional_ddl=True,
)
context.run_migrations()
