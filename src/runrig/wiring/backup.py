"""Backs up a server and restores a backup, for `runrig backup` and `runrig restore`."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from runrig import __version__
from runrig.backends.local.owners import own_all, put_others_aside
from runrig.domain.errors import Conflict, InvalidInput, ServerFault
from runrig.domain.quantities import counted
from runrig.spec.regular_file import regular_file
from runrig.store import SqlStore
from runrig.store.backup import LOG_FILES, PIECE, STATE_FILES, BackupReader, BackupWriter, Contents, restore
from runrig.store.opening import open_database


def write_backup(database: str | Path, folder: Path, out: Path, *, log_files: bool) -> Contents:
    """Backs up a server, which may be running. *folder*: its data folder. *log_files*: include the output of its tasks.

    Raises Conflict if *out* exists, NotFound or Unavailable if there is no usable database, ServerFault if the database
    has another version.
    """
    if out.exists():
        raise Conflict(f"{out} already exists. Use another file")
    with (
        closing(SqlStore.look(database)) as store,
        _whole_or_not(out) as stream,
        store.transactions.reading() as connection,
    ):
        taken_at = datetime.now(UTC).isoformat(timespec="seconds")
        writer = BackupWriter(stream, connection, version=__version__, taken_at=taken_at)
        writer.tables()
        for path in _files(folder, log_files=log_files):
            writer.file(path, _pieces(folder / path))
        return writer.end()


def check_backup(file: Path) -> Contents:
    """Returns the contents of the backup. Raises InvalidInput if it is not one, is damaged, or comes from another version."""
    with _opened(file) as stream:
        return BackupReader(stream, str(file)).check()


def restore_backup(
    file: Path, database: str | Path, folder: Path, aside: Callable[[list[Path]], None] = lambda _: None
) -> Contents:
    """Restores into an empty *database*, and files of the backup into the data folder. Existing output is not
    overwritten.

    *aside*: called with where the existing folders of tasks outside the backup were moved.

    Raises what `check_backup` raises; Conflict if anything already exists; ServerFault or Unavailable if a server is
    using it.
    """
    with _opened(file) as stream:
        reader = BackupReader(stream, str(file))
        contents = reader.check()

        def fill(uuids: Mapping[str, str]) -> None:
            with _fault(
                f"the tasks in {folder} cannot be moved aside",
                ", so nothing was restored. Choose another folder with --data",
            ):
                others = put_others_aside(folder, uuids)
            aside(others)
            before = {each.name for each in folder.glob("tasks/*")}
            with _fault(
                f"{folder} cannot be written",
                ", so nothing was restored. Free some space, or choose another folder with --data",
            ):
                _put_files(reader, folder)
            own_all(folder, uuids, but=before)

        with _fault(f"{folder} cannot be created", ". Choose another folder with --data"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with closing(open_database(database, exclusive=True)) as target:
            restore(target, reader, fill)
    return contents


def in_words(contents: Contents) -> str:
    head = contents.header
    parts = [counted(contents.rows[f"{noun}s"], noun) for noun in ("workflow", "pool", "user", "event")]
    parts += [counted(contents.files, "file")] if contents.files else []
    parts += [f"hash {head.head}"] if head.head else []
    return f"revision {head.revision} of {head.taken_at}, {', '.join(parts)} (runrig {head.version} on {head.store})"


def missing(contents: Contents) -> str | None:
    """Returns a sentence on which values the backup lacks; None if it has all."""
    if not contents.lost:
        return None
    return f"credentials without values, which their users must set again: {', '.join(contents.lost)}"


# ---------------------------------------------------------------- files


@contextmanager
def _fault(what: str, so: str) -> Iterator[None]:
    """Turns an OSError into a ServerFault: *what* failed, the cause, and what follows from it."""
    try:
        yield
    except OSError as error:
        raise ServerFault(f"{what} ({error.strerror}){so}") from error


@contextmanager
def _whole_or_not(out: Path) -> Iterator[IO[bytes]]:
    """Yields a temporary file that becomes *out* at the end. Only its owner can read it, because it holds all users' work."""
    partial = out.with_name(f"{out.name}.partial-{os.getpid()}")
    with _fault(f"{out} cannot be written", ". Use another file"):
        stream = open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")  # noqa: SIM115
    try:
        with stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.link(partial, out)  # Unlike a rename, a link never overwrites.
    except FileExistsError as error:
        raise Conflict(f"{out} already exists. Use another file") from error
    except OSError as error:
        raise ServerFault(
            f"{out} cannot be written ({error.strerror}). Free some space, or use another file"
        ) from error
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def _opened(file: Path) -> Iterator[IO[bytes]]:
    try:
        stream = regular_file(file).open("rb")  # It is read twice, which a pipe does not allow.
    except OSError as error:
        raise InvalidInput.one(
            f"{file} cannot be read ({error.strerror}). Use a file that `runrig backup` wrote"
        ) from error
    with stream:
        yield stream


def _files(folder: Path, *, log_files: bool) -> Iterator[str]:
    for at, levels, names in ((folder, 1, STATE_FILES), (folder / "tasks", 4, LOG_FILES if log_files else ())):
        for path in _below(at, levels) if names else ():
            if path.name in names:
                yield path.relative_to(folder).as_posix()


def _below(folder: Path, levels: int) -> Iterator[Path]:
    """Yields the regular files exactly *levels* below *folder*. Raises ServerFault where a glob leaves out what it cannot read."""
    found: list[os.DirEntry[str]] = []
    with _readable(folder):
        found = sorted(os.scandir(folder), key=lambda each: each.name)
    for each in found:
        if levels == 1 and each.is_file(follow_symlinks=False):
            yield Path(each.path)
        elif levels > 1 and each.is_dir(follow_symlinks=False):
            yield from _below(Path(each.path), levels - 1)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    out = ", so nothing was backed up. Grant yourself read permission, or leave out task output with --no-logs"
    with _fault(f"{path} cannot be read", out), suppress(FileNotFoundError):  # Not found: its workflow expired.
        yield


def _pieces(path: Path) -> Iterator[bytes]:
    with _readable(path), path.open("rb") as file:
        left = os.fstat(file.fileno()).st_size  # Output printed from now on is left out, because it may never end.
        while left > 0 and (piece := file.read(min(PIECE, left))):
            left -= len(piece)
            yield piece


def _put_files(reader: BackupReader, folder: Path) -> None:
    stream: IO[bytes] | None = None
    try:
        for path, piece in reader.files():
            if not piece:
                if stream is not None:
                    stream.close()
                stream = _created(folder, path)
            elif stream is not None:
                stream.write(piece)
    finally:
        if stream is not None:
            stream.close()


def _created(folder: Path, path: str) -> IO[bytes] | None:
    """Returns None if the output exists: it is at least as long as in the backup, and a task may be writing it."""
    target = folder / path
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path not in STATE_FILES and os.path.lexists(target):
        return None
    return open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")
