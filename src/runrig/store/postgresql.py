"""PostgreSQL: for many users, and several runrig servers.

A commit begins by advancing the revision, and that row is the lock for all writers: they take turns, and a late writer
finds another revision. Readers see the state as of their first statement (REPEATABLE READ), and never wait.

The owner of the database holds an advisory lock on **the one connection that it writes through**. So it cannot lose
ownership unnoticed: PostgreSQL releases the lock when the connection ends, which also ends the write in progress. The
next write takes the lock again, or names the new owner.
"""

import os
import socket
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakSet

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import NoSuchModuleError

from runrig.domain.errors import ServerFault, Unavailable
from runrig.store.codec import loads
from runrig.store.database import Database
from runrig.store.text import checked_dumps

OWNER_KEY = int.from_bytes(b"runrig")
"""Key of the advisory lock; such keys are per database."""
MIGRATION_KEY = OWNER_KEY + 1
OWNER_WAIT_S = 1
"""Seconds to wait for the lock: a killed server holds it until PostgreSQL notices."""
LOCK_TIMEOUT_S = 30
QUICK_S = 3
_CONNECT = {
    "connect_timeout": "10",
    "client_encoding": "utf8",
    # A PostgreSQL server that disappears is noticed within half a minute.
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "25000",
}
_SESSION = f"""
SET timezone = 'UTC';
SET lock_timeout = '{LOCK_TIMEOUT_S}s';
-- An accepted submission survives a power cut (rule W2), whatever the server's default is.
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'
"""
# PostgreSQL, too, must soon notice that this server disappeared, or stopped in the middle of a transaction.
_OWNER_SESSION = """
SET idle_in_transaction_session_timeout = '30s';
SET tcp_keepalives_idle = 5;
SET tcp_keepalives_interval = 2;
SET tcp_keepalives_count = 3
"""
_QUICK = f"SET statement_timeout = '{QUICK_S}s'; SET tcp_user_timeout = {QUICK_S * 1000}"
_HOLDER = """
SELECT application_name, to_char(backend_start AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"+00:00"'), pid
FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND granted AND objsubid = 1
AND classid = %s AND objid = %s
AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""

_owning: WeakSet[Any] = WeakSet()


def _forget() -> None:
    """A fork shares its parent's connection, and would keep its lock after the parent died."""
    for connection in _owning:
        if not connection.closed:
            os.close(connection.fileno())
    _owning.clear()


os.register_at_fork(after_in_child=_forget)


def open_postgresql(url: URL, *, exclusive: bool) -> Database:
    """*url* names a database. Ownership is taken at the first write."""
    place = f"the database {url.database} on {_host(url)}"
    shared = _engine(url, "READ COMMITTED")
    writer = shared
    if exclusive:
        writer = _engine(url, "READ COMMITTED", pool_size=1, max_overflow=0)
        event.listen(writer, "connect", _taking(place))
    return Database(
        place,
        elsewhere="use another database in the URL",
        reader=shared.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True),
        writer=writer,
        release=lambda: None,  # with the connection
        risk=lambda connection: _risk(connection, place),
    )


def _host(url: URL) -> str:
    hosts = url.query.get("host") or url.host or os.environ.get("PGHOST") or "this machine"
    named = ",".join((hosts,) if isinstance(hosts, str) else hosts)
    return f"{named}:{url.port}" if url.port else named


def _risk(connection: Connection, place: str) -> str | None:
    # The other ways to lose a commit are session settings, which `_SESSION` sets.
    if connection.exec_driver_sql("SELECT current_setting('fsync')").scalar_one() == "on":
        return None
    return (
        f"{place} has fsync = off, so a power failure can lose confirmed changes or damage the database. Set fsync = on in "
        "postgresql.conf and reload"
    )


def looking_engine(url: URL) -> Engine:
    """Returns an engine for short queries and heartbeats, with timeouts of seconds. Each statement commits itself: a server
    suspended before its commit would keep the row of the leader locked.
    """
    engine = _engine(url, "AUTOCOMMIT", connect={"connect_timeout": str(QUICK_S)}, pool_size=1, max_overflow=1)
    event.listen(engine, "connect", lambda dbapi, _: _in_session(dbapi, lambda: dbapi.execute(_QUICK)))
    return engine


def process_name(process: int, host: str) -> str:
    """Returns the name of that process's sessions in PostgreSQL."""
    return f"runrig: process id {process} on {host}"[:63]


def _engine(url: URL, isolation: str, connect: Mapping[str, str] | None = None, **pool: int) -> Engine:
    try:
        engine = create_engine(
            url.set(drivername="postgresql+psycopg"),
            json_serializer=checked_dumps,
            json_deserializer=loads,
            isolation_level=isolation,
            connect_args={
                "application_name": process_name(os.getpid(), socket.gethostname()),
                **{name: value for name, value in {**_CONNECT, **(connect or {})}.items() if name not in url.query},
            },
            hide_parameters=True,
            pool_pre_ping=True,
            use_native_hstore=False,
            **pool,
        )
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        raise ServerFault(
            "the PostgreSQL driver is not installed. Install it with `pip install 'runrig[postgresql]'`"
        ) from error
    event.listen(engine, "connect", _prepare)
    return engine


def _prepare(dbapi: Any, _record: object) -> None:
    _in_session(dbapi, lambda: dbapi.execute(_SESSION))


def _taking(place: str) -> Callable[[Any, object], None]:
    """Returns a listener with which new connections take ownership of the database."""
    owned = False

    def take(dbapi: Any, _record: object) -> None:
        nonlocal owned
        _in_session(dbapi, lambda: _take(dbapi, place, again=owned))
        _owning.add(dbapi)
        owned = True

    return take


def _take(dbapi: Any, place: str, *, again: bool) -> None:
    """Takes the ownership lock, or raises an Unavailable that names the holder. *again*: after this process lost it."""
    dbapi.execute(_OWNER_SESSION)
    dbapi.execute(f"SET lock_timeout = '{OWNER_WAIT_S}s'")
    try:
        dbapi.execute("SELECT pg_advisory_lock(%s)", (OWNER_KEY,))
    except Exception as error:
        if getattr(error, "sqlstate", None) != "55P03":
            raise
        holder = _holder(dbapi)
        raise Unavailable(
            f"{place} was taken over by {holder}, so nothing was stored. Try again"
            if again
            else f"{place} is in use by {holder}. Stop that server, or use another database in the URL"
        ) from error
    dbapi.execute(f"SET lock_timeout = '{LOCK_TIMEOUT_S}s'")


def _holder(dbapi: Any) -> str:
    """Describes the owner."""
    row = dbapi.execute(_HOLDER, (OWNER_KEY >> 32, OWNER_KEY & 0xFFFFFFFF)).fetchone()
    return in_words(*(row or ("", "", 0)))


def holding(connection: Connection) -> tuple[str, str, int] | None:
    """Returns (name, since, session) of the owner; None if the database has no owner."""
    row = connection.exec_driver_sql(_HOLDER, (OWNER_KEY >> 32, OWNER_KEY & 0xFFFFFFFF)).one_or_none()
    return None if row is None else (row[0] or "", row[1] or "", row[2])


def in_words(name: str, since: str, _session: int) -> str:
    """Describes an owner; PostgreSQL hides the names of other users' sessions."""
    if not name or not name.startswith("runrig: "):
        return "another server"
    return f"the server with {name.removeprefix('runrig: ')} since {since}"


def _in_session(dbapi: Any, work: Callable[[], object]) -> None:
    """Runs *work* outside a transaction; closes the connection if it fails."""
    before = dbapi.autocommit
    try:
        dbapi.autocommit = True
        work()
        dbapi.autocommit = before
    except BaseException:
        dbapi.close()
        raise
