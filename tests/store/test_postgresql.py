"""What can happen to a server of PostgreSQL: it is away, refuses us, is not ours, forgets us, or has another owner meanwhile."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import event

from runrig.domain.errors import InvalidInput, RunrigError, ServerFault, Unavailable
from runrig.domain.pools import Cohort
from runrig.store import SqlStore
from runrig.store.election import election
from runrig.store.faults import fault
from tests import postgres
from tests.patience import PATIENCE_S
from tests.stores import store_url

from .values import HISTORY, LOADED, commit, fill, put

SECRET = "se%25cret"


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with store_url("postgresql", tmp_path) as url:
        yield url


def name_of(url: str) -> str:
    return url.partition("@/")[2].partition("?")[0]


def refusal(url: str, kind: type[RunrigError], *, exclusive: bool = False) -> str:
    with pytest.raises(kind) as refused:
        SqlStore.open(url, exclusive=exclusive)
    assert "cret" not in refused.value.message
    return refused.value.message


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://me:secret@db/runrig", "mysql://… is not a supported database. Use sqlite:///PATH"),
        ("postgresql+asyncpg://me:secret@db/runrig", "postgresql+asyncpg://… is not a supported database"),
        ("sqlite://", "sqlite://… is not a supported database"),
        ("sqlite:///:memory:", "sqlite://… is not a supported database"),
        ("no way://secret", "no way://… is not a database URL"),
        ("postgresql://me:secret@db:port/runrig", "postgresql://… is not a database URL"),
        ("postgresql://me:se@cret@db/runrig", "postgresql://… contains two @. Write @ in the user or password as %40"),
        ("postgresql://me:secret@db", "postgresql://… has no database name"),
    ],
)
def test_url_without_a_database_is_refused_without_showing_its_password(url: str, words: str) -> None:
    assert refusal(url, InvalidInput).startswith(words)


def test_all_driver_names_mean_the_same(url: str) -> None:
    store = SqlStore.open(url)
    fill(store)
    store.close()
    for scheme in ("postgres://", "postgresql://", "postgresql+psycopg://"):
        other = SqlStore.open(url.replace("postgresql://", scheme))
        assert other.load() == LOADED
        other.close()


def test_server_with_fsync_off_is_reported_as_a_risk_with_a_way_out(url: str) -> None:
    """W2.  One with fsync is none: tests/crash/test_power_cut.py."""
    with closing(SqlStore.open(url)) as store:
        assert store.risk() == (
            f"{store.transactions.place} has fsync = off, so a power failure can lose confirmed changes or damage the database. Set "
            "fsync = on in postgresql.conf and reload"
        )


# ---------------------------------------------------------------- unusable servers


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (
            lambda url: url.replace("?host=", "?host=/nowhere"),
            Unavailable,
            "is unreachable (No such file or directory). Check",
        ),
        (
            lambda url: f"postgresql://me:{SECRET}@127.0.0.1:1/x",
            Unavailable,
            "is unreachable (Connection refused). Check",
        ),
        (
            lambda url: url.replace("postgres@", "nobody-knows@"),
            ServerFault,
            'rejected the login (role "nobody-knows" does not',
        ),
        (lambda url: url.replace("/test", "/nope"), ServerFault, "Create it with `createdb`, or correct the URL"),
        (
            lambda url: f"{url}&sslmode=wrong",
            ServerFault,
            'cannot be opened: invalid sslmode value: "wrong" in its URL',
        ),
        (
            lambda url: f"{url}&colour=red",
            ServerFault,
            'cannot be opened: invalid connection option "colour" in its URL',
        ),
    ],
)
def test_unusable_server_is_reported_with_a_way_out(
    url: str, change: Callable[[str], str], kind: type[RunrigError], words: str
) -> None:
    message = refusal(change(url), kind, exclusive=True)
    assert message.startswith("the database ")
    assert words in message


def test_wrong_password_is_refused_and_not_shown(url: str) -> None:
    server = postgres.server()
    server.sql(f"DROP ROLE IF EXISTS {postgres.ASKED}")
    server.sql(f"CREATE ROLE {postgres.ASKED} LOGIN PASSWORD 'right'")
    for password in ("", SECRET):
        wrong = server.url(name_of(url), user=postgres.ASKED, password=password)
        assert "rejected the login" in refusal(wrong, ServerFault)
    right = server.url(name_of(url), user=postgres.ASKED, password="right")
    assert "denied permission (permission denied" in refusal(right, ServerFault)  # the tables belong to another user


def test_role_that_cannot_create_tables_gets_a_message(tmp_path: Path) -> None:
    server = postgres.server()
    server.sql("DROP ROLE IF EXISTS guest")
    server.sql("CREATE ROLE guest LOGIN")
    with store_url("postgresql", tmp_path, tables=False) as url:
        message = refusal(server.url(name_of(url), user="guest"), ServerFault)
    assert "denied permission (permission denied for schema public). Make the user in the URL the owner" in message


def test_read_only_server_is_refused_at_the_first_write(url: str) -> None:
    postgres.server().sql(f"ALTER DATABASE {name_of(url)} SET default_transaction_read_only = on")
    store = SqlStore.open(url)
    with pytest.raises(ServerFault, match=r"is read-only \(.*\)\. It may be a standby; use the primary in the URL"):
        HISTORY[0].to(store)
    assert store.load().revision == 0
    store.close()


def test_database_of_another_program_is_refused_and_unchanged(tmp_path: Path) -> None:
    with store_url("postgresql", tmp_path, tables=False) as url:
        postgres.server().sql("CREATE TABLE songs (title TEXT)", name_of(url))
        message = refusal(url, ServerFault)
        assert "belongs to another program (it has the table 'songs'). Move it away" in message
        assert message.endswith("or use another database in the URL")
        postgres.server().sql("SELECT title FROM songs", name_of(url))


def test_database_that_cannot_store_all_text_is_refused() -> None:
    server = postgres.server()
    server.sql("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    try:
        assert "uses encoding LATIN1. Create one with `createdb --encoding UTF8" in refusal(
            server.url("latin"), ServerFault
        )
    finally:
        server.sql("DROP DATABASE latin WITH (FORCE)")


@pytest.mark.parametrize(
    ("state", "kind", "words"),
    [
        ("53100", ServerFault, "the disk of X is full, so nothing was stored"),
        ("53300", Unavailable, "X is out of resources (oh)"),
        ("55P03", Unavailable, "another process has locked X"),
        ("40P01", Unavailable, "another process has locked X"),
        ("57014", Unavailable, "X took too long (oh)"),
        ("XX001", ServerFault, "X may be damaged (oh)"),
        ("42P01", ServerFault, "X failed (oh), so nothing was stored"),
    ],
)
def test_server_errors_become_sentences(state: str, kind: type[RunrigError], words: str) -> None:
    found = fault(psycopg.errors.lookup(state)("oh"), "X")
    assert (type(found), found.message[: len(words)]) == (kind, words)


# ---------------------------------------------------------------- durability and ownership


def test_commit_is_on_disk_even_if_the_servers_default_differs(url: str) -> None:
    """Law W2."""
    postgres.server().sql(f"ALTER DATABASE {name_of(url)} SET synchronous_commit = off")
    store = SqlStore.open(url, exclusive=True)
    with store.transactions.writing() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
    store.close()


def cut_all(url: str) -> None:
    """Every connection to that database ends, as if the server had been started again."""
    postgres.server().sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name_of(url)}'")


def test_server_whose_connections_were_cut_continues_as_owner(url: str) -> None:
    store = SqlStore.open(url, exclusive=True)
    fill(store)
    cut_all(url)
    assert store.load() == LOADED
    commit(6, (), put(Cohort("after"))).to(store)
    assert "is in use by the server with process id" in refusal(url, Unavailable, exclusive=True)
    store.close()


def test_server_that_lost_its_connection_to_another_owner_stores_nothing(url: str) -> None:
    first = SqlStore.open(url, exclusive=True)
    fill(first)
    cut_all(url)
    second = SqlStore.open(url, exclusive=True)
    with pytest.raises(Unavailable, match=r"was taken over by the server with process id .*, so nothing was stored"):
        commit(6, (), put(Cohort("never"))).to(first)
    commit(6, (), put(Cohort("ours"))).to(second)
    second.close()
    with pytest.raises(Unavailable, match="is at 6, because another server wrote to it"):
        commit(6, (), put(Cohort("never"))).to(first)
    assert [cohort.name for cohort in first.load().cohorts] == ["org", "ours", "research"]
    first.close()


def cut_within_a_commit(store: SqlStore, url: str) -> None:
    with store.transactions.writing() as connection:
        store._advance(connection, 6, 6)
        cut_all(url)
        store._advance(connection, 7, 7)


def test_connection_cut_in_the_middle_of_a_commit_stores_nothing(url: str) -> None:
    store = SqlStore.open(url, exclusive=True)
    fill(store)
    with pytest.raises(Unavailable, match=r"the connection to the database .* was lost"):
        cut_within_a_commit(store, url)
    assert store.load() == LOADED
    commit(6, (), put(Cohort("after"))).to(store)
    store.close()


def test_owner_with_a_hidden_name_is_another_server(url: str) -> None:
    server = postgres.server()
    store = SqlStore.open(url, exclusive=True)
    with store.transactions.writing() as connection:
        connection.exec_driver_sql("SET application_name = ''")
    message = refusal(url, Unavailable, exclusive=True)
    assert message == (
        f"the database {name_of(url)} on {server.folder} is in use by another server. "
        "Stop that server, or use another database in the URL"
    )
    store.close()


def test_leader_suspended_in_the_middle_of_a_heartbeat_is_replaced(url: str) -> None:
    """What it has written by then must not lock out the next leader until it wakes."""
    asleep, wakes = threading.Event(), threading.Event()
    with closing(election(url)) as old, closing(election(url)) as new, closing(old.take()) as first:

        def sleeps(*_: object) -> None:
            asleep.set()
            wakes.wait(PATIENCE_S)

        event.listen(old._engine, "after_cursor_execute", sleeps)  # type: ignore[attr-defined]
        beat = threading.Thread(target=first.beat)
        beat.start()
        try:
            assert asleep.wait(PATIENCE_S)
            holder = new.holder()
            assert holder is not None
            new.end(holder)
            with closing(new.take()) as second:
                assert (first.epoch or 0) < (second.epoch or 0)
        finally:
            wakes.set()
            beat.join()
        assert not first.beat()
