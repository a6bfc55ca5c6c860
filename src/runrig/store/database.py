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
    """*reader*: its transactions see one state throughout.  *writer*: one at a time writes.

    *place* names it to people, *elsewhere* tells them how to take another.
    *watch*: called around each transaction; raises ServerFault or Unavailable if what is written now would be lost.
    *risk*: why a commit may not survive a power cut, and the way out; None if it does.
    *room*: raises ServerFault where the disk has no room for some commits.
    *inspect*: called at the start of a server; raises ServerFault for damage, which the database itself would not look for.
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
        """Closes its connections, then gives up the ownership."""
        self.reader.dispose()
        self.writer.dispose()
        self.release()


def is_postgresql(url_or_path: str | Path) -> bool:
    """True for a PostgreSQL URL.  Raises InvalidInput for a URL of any other database but SQLite."""
    text = str(url_or_path)
    return "://" in text and parsed(text).get_backend_name() == "postgresql"


def parsed(text: str) -> URL:
    """*text* as a URL.  An error shows only its beginning: the rest may hold a password."""
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
