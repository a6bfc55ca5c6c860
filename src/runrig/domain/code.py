"""Code that is sent along with a workflow: the files of a folder, listed in a manifest.

The SHA-256 of the manifest is the id of the code, so equal folders have equal ids. A manifest comes from anybody, and its
paths become files: `read_manifest` accepts only those that stay inside one folder.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from runrig.domain.errors import InvalidInput

MIB = 1024 * 1024
LARGEST_PACKED = 32 * MIB
"""Bytes of the files of a code, compressed."""
LARGEST = 256 * MIB
"""Bytes of the files of a code."""
MOST_FILES = 20_000
LARGEST_MANIFEST = 8 * MIB
LARGEST_OF_USER = 2048 * MIB
"""Bytes that a server keeps for one user, compressed."""
POD_CODE = "/api/v1/pod-code"
"""The path at which pods fetch their code."""
LONGEST_PATH = 1024
LONGEST_NAME = 255

_HASH = re.compile(r"[0-9a-f]{64}")
_DRIVE = re.compile(r"[A-Za-z]:")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class CodeFile(NamedTuple):
    """*path*: below the folder, with slashes. *size*: in bytes."""

    path: str
    executable: bool
    sha256: str
    size: int


class CodeLink(NamedTuple):
    """A symbolic link. *target*: relative to the folder of *path*; it stays inside the code."""

    path: str
    target: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """*files*, *links*: each sorted by path."""

    files: tuple[CodeFile, ...]
    links: tuple[CodeLink, ...] = ()

    def written(self) -> bytes:
        """Returns the text that its id is computed from: one line of ASCII."""
        return json.dumps({"files": self.files, "links": self.links}, separators=(",", ":")).encode()

    @property
    def id(self) -> str:
        return sha256(self.written())

    @property
    def contents(self) -> Mapping[str, int]:
        """Returns the SHA-256 of each content → its size, in order of first use."""
        return {file.sha256: file.size for file in self.files}


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def is_id(text: str) -> bool:
    return _HASH.fullmatch(text) is not None


def path_problem(path: str) -> str | None:
    """Returns why *path* cannot be part of a code, as the rest of a sentence; None if it can."""
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        return "is not valid UTF-8"
    if _CONTROL.search(path):
        return "contains a control character"
    if path.startswith("/") or _DRIVE.match(path) or "\\" in path:
        return "is not a relative path with slashes"
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "has an empty part, '.' or '..'"
    if size > LONGEST_PATH or any(len(part.encode()) > LONGEST_NAME for part in parts):
        return f"is too long: at most {LONGEST_NAME} bytes per name and {LONGEST_PATH} in all"
    return None


def link_problem(path: str, target: str) -> str | None:
    """The same for a link at *path*, a valid path.

    ``..`` is allowed only at the beginning of *target*. Since no path of a code leads through a link, each ``..`` then
    leaves a real folder, and links that lead through other links cannot leave the code either.
    """
    parts = target.split("/")
    ups = next((number for number, part in enumerate(parts) if part != ".."), len(parts))
    if ups > path.count("/"):
        return "is a link that leads out of the folder"
    rest = "/".join(parts[ups:])
    if (rest or not ups) and (problem := path_problem(rest)) is not None:
        out = target.startswith("/")
        return "is a link that leads out of the folder" if out else f"is a link whose target {problem}"
    return None


# ---------------------------------------------------------------- reading


def read_manifest(raw: bytes) -> Manifest:
    """Raises InvalidInput with the first problem."""
    if len(raw) > LARGEST_MANIFEST:
        raise InvalidInput.one(f"the manifest is larger than {LARGEST_MANIFEST // MIB} MiB. Send fewer files")
    try:
        manifest = _read(json.loads(raw))
    except (ValueError, TypeError, KeyError, RecursionError):
        raise InvalidInput.one(
            "invalid manifest: must be {files: [[PATH, EXECUTABLE, SHA256, SIZE], ...], links: [[PATH, TARGET], ...]}"
        ) from None
    InvalidInput.check(next(_problems(manifest), None))
    return manifest


def _read(plain: Any) -> Manifest:
    """Raises ValueError, TypeError or KeyError."""
    files = tuple(CodeFile(*entry) for entry in plain["files"])
    links = tuple(CodeLink(*entry) for entry in plain["links"])
    for entry in (*files, *links):
        kinds = (str, bool, str, int) if isinstance(entry, CodeFile) else (str, str)
        if tuple(map(type, entry)) != kinds:
            raise TypeError(entry)
    return Manifest(files, links)


def _problems(manifest: Manifest) -> Iterator[str]:
    entries: tuple[CodeFile | CodeLink, ...] = (*manifest.files, *manifest.links)
    if not manifest.files:
        yield "the code has no files. Choose a folder with files, or send no code"
    if len(entries) > MOST_FILES:
        yield f"too many files in the code ({len(entries):,}, maximum {MOST_FILES:,})"
    for entry in entries:
        if (problem := path_problem(entry.path)) is not None:
            yield f"{_shown(entry.path)} {problem}"
    for link in manifest.links:
        if (problem := link_problem(link.path, link.target)) is not None:
            yield f"{_shown(link.path)} {problem}"
    yield from _clashes([file.path for file in manifest.files], [link.path for link in manifest.links])
    sizes: dict[str, int] = {}
    for file in manifest.files:
        if not is_id(file.sha256) or file.size < 0 or sizes.setdefault(file.sha256, file.size) != file.size:
            yield f"{_shown(file.path)} has an invalid SHA-256 or size"
    if (total := sum(file.size for file in manifest.files)) > LARGEST:
        yield f"the code is too large ({total:,} bytes, maximum {LARGEST:,})"


def _clashes(files: list[str], links: list[str]) -> Iterator[str]:
    for paths in (files, links):
        for before, path in pairwise(paths):
            if path == before:
                yield f"{_shown(path)} is listed twice"
            if path < before:
                yield f"{_shown(path)} is in the wrong place: paths must be sorted"
    if twice := set(files).intersection(links):
        yield f"{_shown(min(twice))} is listed twice"
    every = [*files, *links]
    folders = {path[:at] for path in every for at, letter in enumerate(path) if letter == "/"}
    if both := folders.intersection(every):
        yield f"{_shown(min(both))} is both a file and a folder"


def _shown(path: str) -> str:
    return f"{path!r:.120}"
