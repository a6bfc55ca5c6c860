"""Migrations of the tables: one step per file in versions/, run by Alembic when a store is opened."""
