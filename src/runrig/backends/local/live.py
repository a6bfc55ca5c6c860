"""The unfinished attempts: an empty file each, so that a start does not have to read all attempts that ever ran.

``live/BOOT/WORKFLOW:TASK:RETRY``, where BOOT is the boot during which the attempt was added. The file is on disk before
anything starts, so that after a power failure nothing runs twice.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from runrig.domain.errors import ServerFault
from runrig.domain.workflows import TaskKey
from runrig.ports.disk import sync_folder


class LiveFolder:
    def __init__(self, folder: Path) -> None:
        self._root = folder
        self._boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        self._current = folder / self._boot
        self._current.mkdir(mode=0o700, parents=True, exist_ok=True)
        sync_folder(self._root)

    def load(self) -> Iterator[tuple[TaskKey, bool]]:
        """Yields each live attempt, and whether it is from this boot; from then on all count as from this boot."""
        for boot in sorted(self._root.iterdir()):
            for marker in sorted(boot.iterdir()):
                try:
                    workflow, task, number = marker.name.split(":")
                    retry_id = int(number)
                except ValueError:
                    raise ServerFault(f"{marker} was not created by runrig. Remove it and start again") from None
                yield TaskKey(workflow, task, retry_id), boot == self._current
                if boot != self._current:
                    marker.replace(self._current / marker.name)
            if boot != self._current:
                boot.rmdir()

    def add(self, keys: Iterable[TaskKey]) -> None:
        """Adds *keys*, with a single wait for the disk."""
        added = False
        for key in keys:
            os.close(os.open(self._path(key), os.O_WRONLY | os.O_CREAT, 0o600))
            added = True
        if added:
            sync_folder(self._current)

    def remove(self, key: TaskKey) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._path(key).unlink()

    def _path(self, key: TaskKey) -> Path:
        return self._current / f"{key.workflow}:{key.task}:{key.retry_id}"
