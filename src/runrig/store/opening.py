"""Opens the database at a URL or path, of either kind."""

from pathlib import Path

from runrig.domain.errors import NotFound
from runrig.store.database import Database, parsed
from runrig.store.postgresql import open_postgresql
from runrig.store.sqlite import open_sqlite


def open_database(url_or_path: str | Path, *, exclusive: bool, make: bool = True) -> Database:
    """Returns the database, not connected yet. *exclusive*: this process owns it until it is closed or the process
    ends.

    *make* False: raises NotFound for a missing file instead of creating it.

    Raises InvalidInput for a URL of an unsupported database, ServerFault if it is owned or cannot be created.
    """
    url = None if isinstance(url_or_path, Path) or "://" not in url_or_path else parsed(url_or_path)
    if url is not None and url.get_backend_name() == "postgresql":
        return open_postgresql(url, exclusive=exclusive)
    path = Path(str(url_or_path) if url is None else str(url.database))
    if not make and not path.exists():
        raise NotFound(f"database {path} not found. Use the database of a server")
    return open_sqlite(path, exclusive=exclusive)
