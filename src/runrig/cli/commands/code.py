"""`runrig code`: downloads the code that was sent with a workflow."""

import tarfile
import tempfile
from pathlib import Path

import click

from runrig.cli import completing
from runrig.cli.lazy import command
from runrig.cli.rendering.output import warn
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import path
from runrig.domain.code import LARGEST, MOST_FILES
from runrig.domain.errors import InvalidInput, ServerFault
from runrig.domain.quantities import counted

_IN_MEMORY = 1024 * 1024
_LARGEST_ARCHIVE = LARGEST + 2048 * MOST_FILES


@command("runrig code train-1", "runrig code train-1 -o /tmp/train")
@click.argument("id", required=False, shell_complete=completing.workflows)
@click.option("-o", "--output", metavar="DIR", type=click.Path(path_type=Path), help="Folder. Default: ID-code.")
@with_session
def code(session: Session, id: str | None, output: Path | None) -> None:
    """Download the code that ran in a workflow.

    The folder must be empty or new. Without ID: your latest workflow.
    """
    client = session.client
    id = session.or_latest(id)
    folder = output or Path(f"{id}-code")
    _check_empty(folder)
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as packed:
        size = 0
        for piece in client.raw(path("workflows", id, "code")):
            size += len(piece)
            if size > _LARGEST_ARCHIVE:
                raise ServerFault(f"the code of {id} exceeds the size limit. Check the server address")
            packed.write(piece)
        packed.seek(0)
        count = _unpack(packed, folder, id)
    warn(f"Wrote {counted(count, 'file')} to {folder}")


def _check_empty(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInput.one(f"{folder} is not an empty folder. Choose another one with -o")


def _unpack(packed: "tempfile.SpooledTemporaryFile[bytes]", folder: Path, id: str) -> int:
    """Returns the number of files. Writes nothing outside *folder*, whatever the server has sent."""
    try:
        with tarfile.open(fileobj=packed, mode="r:gz") as tar:
            entries = tar.getmembers()
            if sum(entry.size for entry in entries) > LARGEST:
                raise ServerFault(f"the code of {id} exceeds the size limit. Check the server address")
            folder.mkdir(parents=True, exist_ok=True)
            tar.extractall(folder, entries, filter="data")
    except (tarfile.TarError, EOFError) as error:
        raise ServerFault(
            f"the code of {id} cannot be unpacked: {error}. Check the server address and version"
        ) from None
    except OSError as error:
        raise InvalidInput.one(f"{folder} cannot be written: {error.strerror}. Choose another folder with -o") from None
    return len(entries)
