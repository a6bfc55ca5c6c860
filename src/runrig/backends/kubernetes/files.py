"""Files of tasks, in Secrets: one per gang, or more if they do not fit.

Pure. The distribution depends only on the gang, so a recreated pod finds its files in the same place.
"""

import base64
import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import NamedTuple

from runrig.domain.tokens import contents_of, tokens_in
from runrig.domain.workflows import FileSpec, TaskSpec

OUTPUT = "/runrig/output"
WORK = "/runrig/work"
"""Working folder of a task that has a file with a relative path."""

LARGEST_SECRET = 1024 * 1024
"""Bytes of contents in a Secret; a limit of Kubernetes."""
LARGEST_GANG = 16 * LARGEST_SECRET
"""Bytes of a gang's files. All are in memory and in etcd, which has a few gigabytes for all users."""

_OVERHEAD = 256  # Bytes of overhead per key, so that many small files do not exceed the limit.
_LONGEST_PART = 255
_SCRIPT, _PLAIN = 0o555, 0o444


class Mount(NamedTuple):
    """A file of a pod. *secret*: number of the Secret that has it under *key*."""

    path: str
    secret: int
    key: str
    mode: int


@dataclass(frozen=True, slots=True)
class GangFiles:
    """*secrets*: for each Secret, key → contents in base64. *mounts*: of each pod with files."""

    secrets: tuple[Mapping[str, str], ...]
    mounts: Mapping[str, tuple[Mount, ...]]


def files_of(
    tasks: Iterable[TaskSpec], values: Callable[[TaskSpec, int], Mapping[str, str]], work: str = WORK
) -> GangFiles:
    """*values*: token values for a pod of a task. *work*: folder of relative paths.

    Raises ValueError with a message for impossible files.
    """
    shelf = _Shelf()
    mounts: dict[str, tuple[Mount, ...]] = {}
    for task in tasks:
        if not task.files:
            continue
        places = [(file, path) for file, path in zip(task.files, _paths(task, work), strict=True)]
        same = {path: shelf.put(path, contents_of(file, {})) for file, path in places if _is_same_for_all(file)}
        for index in range(task.pods):
            its = values(task, index)
            mounts[task.pod_name(index)] = tuple(
                same[path] if path in same else shelf.put(path, contents_of(file, its)) for file, path in places
            )
    return GangFiles(tuple(shelf.secrets), mounts)


@dataclass(slots=True)
class _Shelf:
    """Stores equal contents once, in order of arrival. *room*: bytes left in the last Secret. *left*: bytes left for the gang."""

    secrets: list[dict[str, str]] = field(default_factory=list)
    where: dict[str, int] = field(default_factory=dict)
    room: int = 0
    left: int = LARGEST_GANG

    def put(self, path: str, data: bytes) -> Mount:
        if len(data) > LARGEST_SECRET:
            raise ValueError(
                f"file {path!r} has {len(data):,} bytes, more than a Kubernetes Secret can hold ({LARGEST_SECRET:,}). "
                "Put it into the image, or let the task download it"
            )
        key = hashlib.sha256(data).hexdigest()
        if key not in self.where:
            if not self.secrets or self.room < len(data) + _OVERHEAD:
                self.secrets.append({})
                self.room = LARGEST_SECRET
            self.room -= len(data) + _OVERHEAD
            self.left -= len(data) + _OVERHEAD
            if self.left < 0:
                raise ValueError(
                    f"the files of the group exceed {LARGEST_GANG:,} bytes, the limit for Kubernetes Secrets. A file whose content differs "
                    f"between pods, such as {path!r}, counts once per pod. Use the same file for all pods and pass the differences "
                    "in environment or args, or let the task download it"
                )
            self.secrets[-1][key] = base64.b64encode(data).decode()
            self.where[key] = len(self.secrets) - 1
        return Mount(path, self.where[key], key, _SCRIPT if data.startswith(b"#!") else _PLAIN)


def _is_same_for_all(file: FileSpec) -> bool:
    return file.base64 or not tokens_in(file.contents)


def _paths(task: TaskSpec, work: str) -> list[str]:
    """Returns the absolute paths of its files. Raises ValueError if one collides with another, with a folder or with the output."""
    places = [_place(file.path, work) for file in task.files]
    folders = {parent for place in (*places, PurePosixPath(OUTPUT)) for parent in place.parents}
    taken = {PurePosixPath(OUTPUT)}
    for place in places:
        if place in taken or place in folders:
            raise ValueError(
                f"file {str(place)!r} cannot be created: another file of the task, or a folder, has the same path"
            )
        taken.add(place)
    return [str(place) for place in places]


def _place(path: str, work: str) -> PurePosixPath:
    parts = PurePosixPath(path).parts
    if not parts or parts[-1] in ("/", "//") or ".." in parts or "\0" in path:
        raise ValueError(f"file {path!r} is outside the task's folder. Use a path without '..'")
    if ":" in path:
        raise ValueError(f"file {path!r} contains ':', which Kubernetes cannot mount. Use a path without it")
    if any(len(part.encode(errors="surrogateescape")) > _LONGEST_PART for part in parts):
        raise ValueError(f"file {path[:80]!r}… cannot be created: a name in its path is too long")
    return PurePosixPath("/", *parts[1:]) if path.startswith("/") else PurePosixPath(work, *parts)
