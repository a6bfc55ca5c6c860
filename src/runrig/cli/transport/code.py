"""Sends the code of a workflow: chooses the files of a folder, and sends what the server does not have."""

import gzip
import io
import json
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import click

from runrig.cli.rendering.sanitize import line as one_line
from runrig.cli.transport import code_files
from runrig.client import folders
from runrig.client.transport import Transport, path
from runrig.domain.code import (
    LARGEST,
    LARGEST_PACKED,
    MIB,
    MOST_FILES,
    CodeFile,
    CodeLink,
    Manifest,
    link_problem,
    path_problem,
    read_manifest,
    sha256,
)
from runrig.domain.errors import Conflict, InvalidInput, NotFound
from runrig.domain.quantities import counted

UPLOAD_S = 600.0
"""Longest time for sending everything."""
_LISTED = 10
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Chosen:
    """The files of *folder*. *labels*: ``git.commit`` and ``git.dirty``, the number of changed files; empty outside git."""

    folder: Path
    manifest: Manifest
    labels: Mapping[str, str]

    @property
    def id(self) -> str:
        return self.manifest.id


def choose(folder: Path) -> Chosen:
    """Returns what git tracks below *folder* and what it does not ignore; outside git, all files but caches.

    Leaves out what ``.runrigignore`` names. Reads every file. Raises InvalidInput for a home folder, a link that leads
    out, and more than the limits of `domain.code`.
    """
    folder = _checked(folder)
    paths = code_files.listed(folder)
    files: list[tuple[str, os.stat_result]] = []
    links: list[CodeLink] = []
    for name in paths:
        try:
            found = (folder / name).lstat()
        except (FileNotFoundError, NotADirectoryError):  # deleted, but still tracked
            continue
        if (problem := path_problem(name)) is not None:
            raise _refused(name, problem)
        if stat.S_ISLNK(found.st_mode):
            links.append(_link(folder, name))
        elif stat.S_ISREG(found.st_mode):
            files.append((name, found))
    _check_sizes(folder, [(name, found.st_size) for name, found in files], len(links))
    read = (_read(folder, name, bool(found.st_mode & 0o100)) for name, found in files)
    manifest = read_manifest(Manifest(tuple(file for file in read if file), tuple(links)).written())
    _check_packed(folder, manifest)
    return Chosen(folder, manifest, code_files.git_labels(folder))


class _Changing(Conflict):
    """A file is not what was chosen."""


def send(client: Transport, chosen: Chosen) -> str:
    """Returns the id of the code, which the server has from now on. Sends only contents that it does not have from you.

    Chooses files again if some have changed, a few times. Prints one line to stderr if something was sent. Raises Conflict
    for a file that keeps changing, and the server's errors.
    """
    for _ in range(_TRIES - 1):
        with suppress(_Changing):
            return _sent(client, chosen)
        chosen = choose(chosen.folder)
    return _sent(client, chosen)


def _sent(client: Transport, chosen: Chosen) -> str:
    id = chosen.id
    if _known(client, id):
        return id
    line = chosen.manifest.written() + b"\n"
    missing = _post(client, gzip.compress(line, mtime=0))["missing"]
    if missing:
        contents = {file.sha256: file for file in chosen.manifest.files}
        sent = [contents[hash] for hash in missing if hash in contents]
        body = _packed(line, chosen.folder, sent)
        _post(client, body)
        count, size = sum(file.sha256 in missing for file in chosen.manifest.files), shown_size(len(body))
        click.echo(f"Sent {counted(count, 'file')} ({size}) of {len(chosen.manifest.files):,}", err=True)
    return id


def shown_size(size: int) -> str:
    """Returns a number of bytes as ``2.1 kB``."""
    value, unit = float(size), "B"
    for unit in ("B", "kB", "MB"):
        if value < 1000 or unit == "MB":
            break
        value /= 1000
    return f"{size} B" if unit == "B" else f"{value:.1f} {unit}"


def _known(client: Transport, id: str) -> bool:
    try:
        client.call("HEAD", path("code", id))
    except NotFound:
        return False
    return True


def _post(client: Transport, body: bytes) -> Any:
    # Storing the same code twice changes nothing, so the call may be repeated.
    return client.call("POST", path("code"), body=body, timeout_s=UPLOAD_S, key=str(uuid4()))


def _packed(line: bytes, folder: Path, files: Iterable[CodeFile]) -> bytes:
    """Returns the manifest, a line of hashes, and their contents in that order, compressed."""
    files, stream = list(files), io.BytesIO()
    with gzip.GzipFile(fileobj=stream, mode="wb", mtime=0) as packed:
        packed.write(line + json.dumps([file.sha256 for file in files]).encode() + b"\n")
        for file in files:
            try:
                with (folder / file.path).open("rb") as opened:
                    data = opened.read(file.size)  # A growing log still begins with the selected bytes.
            except OSError:
                data = None
            if data is None or sha256(data) != file.sha256:
                raise _Changing(
                    f"{file.path} keeps changing while it is sent. Wait until it is complete, or leave it out: "
                    f"echo '/{one_line(file.path)}' >> {code_files.IGNORE}"
                )
            packed.write(data)
    return stream.getvalue()


# ---------------------------------------------------------------- selecting files


def _checked(folder: Path) -> Path:
    try:
        found = folder.resolve(strict=True)
    except (OSError, RuntimeError):
        raise InvalidInput.one(f"{folder}: no such folder") from None
    if not found.is_dir():
        raise InvalidInput.one(f"{folder} is not a folder. Choose a folder with --code")
    home = folders.home().resolve()
    if found == home or found in home.parents:
        raise InvalidInput.one(
            f"{found} contains your home folder, which is too much to send as code. Change into the folder of your "
            "project, or use --code DIR or --code none"
        )
    return found


def _link(folder: Path, name: str) -> CodeLink:
    target = os.readlink(folder / name)
    if (problem := link_problem(name, target)) is not None:
        raise _refused(name, problem)
    return CodeLink(name, target)


def _read(folder: Path, name: str, executable: bool) -> CodeFile | None:
    """Returns None if the file has been deleted since it was listed."""
    try:
        data = (folder / name).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _refused(name, f"cannot be read: {error.strerror}") from None
    return CodeFile(name, executable, sha256(data), len(data))


def _refused(name: str, problem: str) -> InvalidInput:
    shown = one_line(name.encode(errors="surrogateescape").decode(errors="replace"))
    return InvalidInput.one(f"{shown!r:.120} {problem}. Remove it, or add it to {code_files.IGNORE}")


def _check_sizes(folder: Path, sizes: list[tuple[str, int]], links: int) -> None:
    if not sizes:
        raise InvalidInput.one(
            f"{folder} has no files to send. Change into the folder of your project, or use --code none"
        )
    if len(sizes) + links > MOST_FILES:
        counts = Counter(name.partition("/")[0] + "/" for name, _ in sizes if "/" in name).most_common(_LISTED)
        most = [f"{count:8,}  {name}" for name, count in counts]
        said = f"too many files to send as code ({len(sizes) + links:,}, maximum {MOST_FILES:,}). The largest folders"
        raise _too_much(said, most, [name for name, _ in counts])
    if sum(size for _, size in sizes) > LARGEST:
        raise _too_large(folder, sizes)


def _check_packed(folder: Path, manifest: Manifest) -> None:
    """Compresses the files only if they might be too large."""
    if sum(manifest.contents.values()) <= LARGEST_PACKED:
        return
    once = {file.sha256: file for file in manifest.files}
    if sum(len(piece) for piece in _pieces(folder, once.values())) > LARGEST_PACKED:
        raise _too_large(folder, [(file.path, file.size) for file in manifest.files])


def _pieces(folder: Path, files: Iterable[CodeFile]) -> Iterator[bytes]:
    import zlib

    packer = zlib.compressobj()
    for file in files:
        with suppress(FileNotFoundError):  # a deleted file is noticed when it is sent
            yield packer.compress((folder / file.path).read_bytes())
    yield packer.flush()


def _too_large(folder: Path, sizes: Iterable[tuple[str, int]]) -> InvalidInput:
    largest = sorted(sizes, key=lambda pair: (-pair[1], pair[0]))[:_LISTED]
    lines = [f"{shown_size(size):>9}  {name}" for name, size in largest]
    limits = f"at most {LARGEST_PACKED // MIB} MiB compressed and {LARGEST // MIB} MiB in all"
    return _too_much(f"{folder} is too large to send as code: {limits}. The largest files", lines, [largest[0][0]])


def _too_much(sentence: str, lines: Iterable[str], names: Iterable[str]) -> InvalidInput:
    first = next(iter(names), "data/")
    listed = "\n".join(f"  {one_line(line)}" for line in lines)
    return InvalidInput.one(
        f"{sentence}:\n{listed}\nTo leave one out: echo '/{one_line(first)}' >> {code_files.IGNORE}"
    )
