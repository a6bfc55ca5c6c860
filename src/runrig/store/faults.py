"""Translates database errors into runrig's errors, which name the database and the way out.

SQLite has its own codes and PostgreSQL has SQLSTATE, but PostgreSQL reports a refused connection only as text.
"""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from runrig.domain.errors import InvalidInput, RunrigError, ServerFault, Unavailable
from runrig.store.codec import Undecodable

_DAMAGED = (
    "{place} is damaged ({cause}). Restore a backup with `runrig restore` into an empty folder, "
    "or start from scratch in another data folder"
)
_FULL = "the disk of {place} is full, so nothing was stored. Free some space and try again"
_LOST = "the connection to {place} was lost ({cause}). Check whether the last change was stored, and try again"
_NO_LOGIN = (
    "{place} rejected the login ({cause}). Correct the user and password in the URL, or the server's pg_hba.conf"
)
_NO_DATABASE = "{place} does not exist ({cause}). Create it with `createdb`, or correct the URL"
_NO_RIGHT = (
    "{place} denied permission ({cause}). Make the user in the URL the owner of the database "
    "(ALTER DATABASE … OWNER TO …), or correct the URL"
)

_BY_CODE: tuple[tuple[tuple[str, ...], type[RunrigError], str], ...] = (
    (
        ("SQLITE_BUSY", "SQLITE_LOCKED", "40", "55P03"),
        Unavailable,
        "another process has locked {place}. Stop it, or try again later",
    ),
    (
        ("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM"),
        ServerFault,
        "{place} cannot be opened for writing ({cause}). Grant the server's user write permission on the file and its folder, "
        "or choose another data folder",
    ),
    (
        ("SQLITE_NOTADB",),
        ServerFault,
        "{place} is not a database. Restore a backup with `runrig restore` into an empty folder, or start from scratch in "
        "another data folder",
    ),
    (("SQLITE_CORRUPT",), ServerFault, _DAMAGED),
    (("SQLITE_FULL", "53100"), ServerFault, _FULL),
    (
        ("SQLITE_IOERR", "58"),
        ServerFault,
        "the disk of {place} failed ({cause}), so nothing was stored. Check the system log",
    ),
    (
        ("SQLITE_CONSTRAINT", "23"),
        ServerFault,
        "{place} rejected the write ({cause}), so nothing was stored. Please report this as a bug",
    ),
    # 25P03: it was idle in a transaction for too long, because this process was paused.
    (("08", "57P", "25P03"), Unavailable, _LOST),
    (("25006",), ServerFault, "{place} is read-only ({cause}). It may be a standby; use the primary in the URL"),
    (("28",), ServerFault, _NO_LOGIN),
    (("3D",), ServerFault, _NO_DATABASE),
    (("42501",), ServerFault, _NO_RIGHT),
    (("53",), Unavailable, "{place} is out of resources ({cause}), so nothing was stored. Try again"),
    (("57014",), Unavailable, "{place} took too long ({cause}), so nothing was stored. Try again"),
    (("XX",), ServerFault, "{place} may be damaged ({cause}), so nothing was stored. Check PostgreSQL's log"),
)
"""Beginnings of codes → the error. The first that matches counts."""
_BY_SENTENCE: tuple[tuple[re.Pattern[str], type[RunrigError], str], ...] = (
    (re.compile(r"password|authentication|role .* (does not exist|not permitted)|pg_hba"), ServerFault, _NO_LOGIN),
    (re.compile(r"database .* does not exist"), ServerFault, _NO_DATABASE),
    (re.compile(r"permission denied for database|not currently accepting"), ServerFault, _NO_RIGHT),
    (
        re.compile(r"invalid .* value|invalid connection option"),
        ServerFault,
        "{place} cannot be opened: {cause} in its URL",
    ),
    (
        re.compile(""),  # all others
        Unavailable,
        "{place} is unreachable ({cause}). Check that PostgreSQL is running and accepts connections, or correct the URL",
    ),
)


def damaged(place: str, cause: str) -> ServerFault:
    return ServerFault(_DAMAGED.format(place=place, cause=cause))


def full(place: str) -> ServerFault:
    return ServerFault(_FULL.format(place=place))


class DatabaseSaid(Exception):
    """Logged instead of the database's own error, which may quote the refused row with its secrets."""


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Translates database errors. *place*: name of the database in messages."""
    try:
        yield
    except (DBAPIError, sqlite3.Error) as error:
        told = fault(error, place)
        raise told from DatabaseSaid(f"{type(error).__name__}: {told.message}").with_traceback(error.__traceback__)
    except StatementError as error:  # refused by the driver, before the database saw it
        if isinstance(error.orig, RunrigError):
            raise error.orig from None
        if isinstance(error.orig, UnicodeEncodeError):
            raise _not_unicode(error.orig) from error
        raise
    except UnicodeEncodeError as error:
        raise _not_unicode(error) from error
    except UnicodeDecodeError as error:  # a message of SQLite that quotes what is damaged
        raise damaged(place, "bytes that are not text") from error
    except OverflowError as error:
        raise InvalidInput.one("numbers above 64 bits cannot be stored. Use a smaller one") from error
    except PoolTimeout as error:
        raise Unavailable(f"too many requests are waiting for {place}. Try again later") from error
    except Undecodable as error:
        raise ServerFault(
            f"{place} contains data that this version cannot read ({error}). Restore a backup, or use the version that wrote it"
        ) from error


def fault(error: Exception, place: str) -> RunrigError:
    raised = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    code = str(getattr(raised, "sqlite_errorname", None) or getattr(raised, "sqlstate", None) or "")
    cause = _cause(raised)
    if code == "22003":
        return InvalidInput.one("numbers above 64 bits cannot be stored. Use a smaller one")
    if not code and type(raised).__module__.startswith("psycopg"):
        lost = isinstance(error, DBAPIError) and error.connection_invalidated
        known = [(Unavailable, _LOST)] if lost else [each[1:] for each in _BY_SENTENCE if each[0].search(cause)]
    else:
        known = [each[1:] for each in _BY_CODE if code.startswith(each[0])]
    kind, sentence = known[0] if known else (ServerFault, "{place} failed ({cause}), so nothing was stored")
    return kind(sentence.format(place=place, cause=cause))


def _cause(raised: BaseException) -> str:
    """Returns the database's message in one line, without the position."""
    diagnosis = getattr(getattr(raised, "diag", None), "message_primary", None)
    line = str(diagnosis or raised).partition("\n")[0]
    return re.sub(r"^connection .* failed: |^connection is bad: ", "", line).removeprefix("FATAL:").strip()


def _not_unicode(error: UnicodeEncodeError) -> InvalidInput:
    """Returns an error without the text around the fault, which may be secret."""
    wrong = error.object[error.start : error.end]
    return InvalidInput.one(
        f"text with {wrong!r:.40} cannot be stored, because it is not valid Unicode. Correct it and try again"
    )
