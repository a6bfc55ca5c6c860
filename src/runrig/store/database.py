"""Which database a URL or a path means."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError

from runrig.domain.errors import InvalidInput

_WAYS = "Use sqlite:///PATH, a path, or postgresql://USER:PASSWORD@HOST/DATABASE"


@dataclass(frozen=True, slots=True)
class Database:
    """*reader*: its transactions see one state throughout. *writer*: one transaction at a time.

    *place*: its name in messages. *elsewhere*: how to use another one, for messages. *watch*: called around each
    transaction; raises ServerFault or Unavailable if a write would be lost now. *risk*: why a commit may not survive a
    power failure, and the way out; None if it does. *room*: raises ServerFault if there is no disk space for some
    commits. *inspect*: called at the start of a server; raises ServerFault for damage that the database does not check
    itself.
    """

    place: str
    elsewhere: str
    reader: Engine
    writer: Engine
    release: Callable[[], None]
    watch: Callable[[], None] = lambda: None
    room: Callable[[], None] = lambda: None
    inspect: Callable[[Connection], None] = lambda _: None
    risk: Callable[[Connection], str | None] = lambda _: None

    def close(self) -> None:
        """Closes its connections, then gives up ownership."""
        self.reader.dispose()
        self.writer.dispose()
        self.release()


def is_postgresql(url_or_path: str | Path) -> bool:
    """Returns True for a PostgreSQL URL. Raises InvalidInput for other URLs, except of SQLite."""
    text = str(url_or_path)
    return "://" in text and parsed(text).get_backend_name() == "postgresql"


def parsed(text: str) -> URL:
    """Returns *text* as a URL. Errors show only its beginning, since the rest may contain a password."""
    scheme, _, rest = text.partition("://")
    try:
        url = make_url(f"postgresql://{rest}" if scheme == "postgres" else text)
    except (ArgumentError, ValueError):
        raise InvalidInput.one(f"{scheme}://… is not a database URL. {_WAYS}") from None
    if url.drivername in ("sqlite", "sqlite+pysqlite") and url.database and url.database != ":memory:":
        return url
    if url.drivername not in ("postgresql", "postgresql+psycopg"):
        raise InvalidInput.one(f"{scheme}://… is not a supported database. {_WAYS}")
    if url.host and "@" in url.host:
        raise InvalidInput.one(f"{scheme}://… contains two @. Write @ in the user or password as %40")
    if not url.database:
        raise InvalidInput.one(f"{scheme}://… has no database name. Use postgresql://USER:PASSWORD@HOST/DATABASE")
    return url
