"""How the tables came to be: one step per file in versions/, run by Alembic when a store is opened."""
