"""The migrations make the tables that the code has, and a database of any release becomes one of this version."""

import dataclasses
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import JSON, Connection, MetaData, String, Table, create_engine, inspect, select

from runrig.domain.errors import ServerFault
from runrig.domain.usage import Sums, totals
from runrig.domain.workflows import Workflow
from runrig.engine.state.timing import times_of
from runrig.store import SqlStore
from runrig.store.rows import KINDS
from runrig.store.schema import HEAD, metadata, usage_keys
from tests import stores
from tests.stores import store_url

from .make_dump import dump, restore, restore_in_postgresql
from .values import DONE, DONE_GROUPS, DONE_TASKS, EVAL, EVENTS, LOADED, TRAIN

DUMPS = sorted((Path(__file__).parent / "data").glob("*.sql"))

SAMPLES = {
    type(rows[0]).__name__: rows[0]
    for rows in (
        LOADED.flavors,
        LOADED.nodes,
        LOADED.cohorts,
        LOADED.pools,
        LOADED.workflows,
        LOADED.groups,
        LOADED.tasks,
    )
}


def described(connection: Connection) -> dict[str, object]:
    """All that a database says of its tables, but for the migrations' own."""
    seen = inspect(connection)
    return {
        table: (
            by_name([column | {"type": str(column["type"])} for column in seen.get_columns(table)]),
            seen.get_pk_constraint(table),
            by_name(seen.get_foreign_keys(table)),
            by_name(seen.get_unique_constraints(table)),
            by_name(seen.get_check_constraints(table)),
            [{**each, "dialect_options": _plain(each)} for each in by_name(seen.get_indexes(table))],
        )
        for table in sorted(seen.get_table_names())
        if table != "alembic_version"
    } | _by_expressions(connection)


def _by_expressions(connection: Connection) -> dict[str, object]:
    """Indexes that SQLAlchemy does not see in SQLite."""
    if connection.dialect.name != "sqlite":
        return {}
    found = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql LIKE '%json_%'"
    return dict(map(tuple, connection.exec_driver_sql(found)))


def _plain(index: Mapping[str, Any]) -> dict[str, str]:
    """The condition of a partial index is an object that equals no other."""
    return {name: str(value) for name, value in index.get("dialect_options", {}).items()}


def by_name(found: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(found, key=lambda each: str(each["name"]))


@pytest.mark.filterwarnings("ignore:.*expression-based index")
@pytest.mark.parametrize("kind", stores.KINDS)
def test_migrations_of_an_empty_database_create_the_tables_of_the_code(tmp_path: Path, kind: str) -> None:
    with (
        store_url(kind, tmp_path / "one", tables=False) as migrated_url,
        store_url(kind, tmp_path / "two", tables=False) as made_url,
    ):
        SqlStore.open(migrated_url).close()
        (tmp_path / "two" / "data").mkdir(parents=True)
        migrated, made = create_engine(migrated_url), create_engine(made_url)
        with migrated.connect() as connection, made.begin() as other:
            metadata.create_all(other)
            differ = compare_metadata(MigrationContext.configure(connection), metadata)
            expressions = (
                "ix_workflows_status_ran",
                "ix_workflows_status_waited",
            )  # compared below, as the database has them
            assert [each for each in differ if getattr(each[1], "name", "") not in expressions] == []
            assert described(connection) == described(other)
        migrated.dispose()
        made.dispose()


def test_newest_migration_is_the_one_named_in_the_code() -> None:
    config = Config()
    config.set_main_option("script_location", "runrig.store:migrations")
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


def test_every_field_of_a_record_has_a_column() -> None:
    fields = {name: {field.name for field in dataclasses.fields(type(record))} for name, record in SAMPLES.items()}
    columns = {name: set(KINDS[name].table.columns.keys()) for name in SAMPLES}
    assert columns == fields


def test_two_dumps_have_the_same_bytes() -> None:
    assert dump() == dump()


def _without_times(workflow: Workflow) -> Workflow:
    """What it says of where its time went is read from its log (tests/store/test_sessions.py compares all of it)."""
    return replace(workflow, times=None)


@pytest.mark.parametrize("kind", stores.KINDS)
@pytest.mark.parametrize("path", [None, *DUMPS], ids=lambda path: path.stem if path else "now")
def test_store_restored_from_a_dump_is_complete(tmp_path: Path, path: Path | None, kind: str) -> None:
    """Its tables are those of its release; opening it brings them to those of the code."""
    text = path.read_text(encoding="utf-8") if path else dump()
    with store_url(kind, tmp_path, tables=False) as url:
        if kind == "sqlite":
            (tmp_path / "data").mkdir()
            restore(text, tmp_path / "data" / "runrig.db")
        else:
            restore_in_postgresql(text, url, tmp_path / "restored.db")
        store = SqlStore.open(url)
        loaded = store.load()
        assert replace(loaded, workflows=tuple(map(_without_times, loaded.workflows))) == replace(
            LOADED, workflows=tuple(map(_without_times, LOADED.workflows))
        )
        assert all(times_of(each).now is not None for each in loaded.workflows), "none of them has ended"
        assert store.log.events() == EVENTS
        assert (store.spec("hash-of-train"), store.spec("hash-of-eval")) == (TRAIN, EVAL)
        done = store.workflow("train-1")
        assert (_without_times(done.workflow), done.groups, done.tasks) == (DONE, DONE_GROUPS, DONE_TASKS)
        store.close()


def _filled(connection: Connection, name: str) -> Table:
    """Gives the table *name* a row of words and zeros."""
    table = Table(name, MetaData(), autoload_with=connection)
    kinds = {each.name: each.type for each in table.columns if not each.nullable or each.name == "times"}
    known = {"state": "ACTIVE", "submit_time": datetime.now(UTC), "times": {"waited": "x", "now": "x"}}
    filler = {each: "x" if isinstance(kind, String | JSON) else 0 for each, kind in kinds.items()}
    connection.execute(table.insert().values({each: known.get(each, filler[each]) for each in kinds}))
    return table


@pytest.mark.parametrize("kind", stores.KINDS)
def test_usage_by_names_becomes_usage_by_keys_with_totals(tmp_path: Path, kind: str) -> None:
    with store_url(kind, tmp_path, tables=False) as url:
        (tmp_path / "data").mkdir()
        engine = create_engine(url)
        with engine.begin() as connection:
            config = Config()
            config.set_main_option("script_location", "runrig.store:migrations")
            config.attributes["connection"] = connection
            command.upgrade(config, "0033")
            odd = [_filled(connection, name) for name in ("pools", "specifications", "workflows")]
            command.upgrade(config, "0034")  # although a time is a word
            for table in reversed(odd):
                connection.execute(table.delete())
            connection.execute(Table("workflow_sums", MetaData(), autoload_with=connection).delete())
            for table, *values in (
                ("work", 1, 90_000, "a", "h100", "LOW", "zoë", 5, 0, 6, 0),
                ("work", 1, 93_600, "a", "h100", "LOW", "ann", 7, 0, 0, 0),
                ("work", 1, 93_600, "a", "any", "LOW", "ann", 0, 8, 0, 0),
                ("work", 24, 86_400, "a", "h100", "LOW", "zoë", 5, 0, 6, 0),
                ("quota", 1, 176_400, "a", "h100", 8, 0, 1, 0),
                ("flavor", 1, 90_000, "h100", 9, 0, 3, 0),
            ):
                connection.execute(
                    Table(f"usage_{table}", MetaData(), autoload_with=connection).insert().values(values)
                )
        engine.dispose()
        store = SqlStore.open(url)
        work = ("work", "a", "h100", "LOW")
        zoë: Sums = {(*work, "zoë", "held"): 5, (*work, "zoë", "lost_preempted"): 6}
        hours: list[Sums] = [
            {**zoë, ("flavor", "h100", "capacity"): 9, ("flavor", "h100", "free"): 3},
            {(*work, "ann", "held"): 7, ("work", "a", "any", "LOW", "ann", "waited"): 8},
            {("quota", "a", "h100", "quota"): 8, ("quota", "a", "h100", "borrowed"): 1},
        ]
        assert [store.usage.stored(1, begin) for begin in (90_000, 93_600, 176_400)] == [
            {**sums, **totals(sums)} for sums in hours
        ]
        assert store.usage.stored(24, 86_400) == {**zoë, **totals(zoë)}
        with store.transactions.reading() as connection:
            assert [tuple(row) for row in connection.execute(select(usage_keys).order_by(usage_keys.c.id))] == [
                (1, 172_800, "", "h100", "", ""),
                (2, 86_400, "a", "any", "LOW", "ann"),
                (3, 172_800, "a", "h100", "", ""),
                (4, 86_400, "a", "h100", "LOW", "ann"),
                (5, 86_400, "a", "h100", "LOW", "zoë"),
                (6, 86_400, "", "any", "", ""),
            ]
        store.close()


def test_database_of_a_newer_version_is_refused_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "runrig.db"
    SqlStore.open(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
        before = list(connection.iterdump())
    with pytest.raises(ServerFault) as refused:
        SqlStore.open(path)
    assert refused.value.message == (
        f"the database {path} was written by a newer runrig (schema 9999, this version supports up to {HEAD}). "
        "Install the newer version, or restore an older backup"
    )
    with closing(sqlite3.connect(path)) as connection:
        assert list(connection.iterdump()) == before
