"""What a database says when the machine under us fails, as an error that names the file and the way out."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError

from runrig.domain.errors import InvalidInput, RunrigError, ServerFault, Unavailable
from runrig.store.codec import Undecodable

_UNWRITABLE = (
    "{place} cannot be opened for writing ({cause}): give the server's user write permission on the file and on its folder, "
    "or choose another folder with --data"
)
_BY_CODE = (
    ("SQLITE_CANTOPEN", _UNWRITABLE),
    ("SQLITE_READONLY", _UNWRITABLE),
    ("SQLITE_PERM", _UNWRITABLE),
    ("SQLITE_NOTADB", "{place} is not a database: move it away to start afresh, or choose another folder with --data"),
    (
        "SQLITE_CORRUPT",
        "{place} is damaged ({cause}): restore a backup of it, or start afresh in another folder with --data",
    ),
    ("SQLITE_FULL", "the disk of {place} is full: free some room and try again; nothing of this was stored"),
    ("SQLITE_IOERR", "the disk of {place} fails ({cause}): look at the system's log; nothing of this was stored"),
    (
        "SQLITE_CONSTRAINT",
        "{place} refused what was to be written ({cause}), so nothing of it was stored: please report this",
    ),
)
_OTHERWISE = "{place} failed ({cause}); nothing of this was stored"


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Raises what the database raises as one of our errors; *place* names it to people."""
    try:
        yield
    except (DBAPIError, sqlite3.Error) as error:
        raise fault(error, place) from error
    except UnicodeEncodeError as error:
        raise InvalidInput.one(
            f"{error.object!r:.200} cannot be stored: it is not valid Unicode; write it again"
        ) from error
    except Undecodable as error:
        raise ServerFault(
            f"{place} holds what this version cannot read: {error}: restore a backup, or use the version that wrote it"
        ) from error


def fault(error: Exception, place: str) -> RunrigError:
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    code = str(getattr(cause, "sqlite_errorname", ""))
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return Unavailable(f"another process keeps {place} locked: end it, or try again later")
    sentence = next((sentence for prefix, sentence in _BY_CODE if code.startswith(prefix)), _OTHERWISE)
    return ServerFault(sentence.format(place=place, cause=cause))
