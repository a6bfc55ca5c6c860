"""Code of tasks on disk: unpacked once, and copied for each attempt.

DATA/code/ID appears complete, by renaming; what a killed server left unfinished begins with a dot and is removed.
"""

import errno
import os
import shutil
import tempfile
from collections.abc import Collection
from pathlib import Path

from runrig.domain.code import LARGEST
from runrig.ports.backend import no_code
from runrig.ports.code import CodeOf, StoredCode

_NO_COPY = (errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EBADF)
"""Errors of file systems that cannot copy inside the kernel."""


class CodeFolders:
    """*folder*: for its exclusive use. *code_of*: gets code that is not unpacked."""

    def __init__(self, folder: Path) -> None:
        self.code_of: CodeOf = no_code
        self._folder = folder
        folder.mkdir(mode=0o700, exist_ok=True)
        for unfinished in folder.glob(".*"):
            shutil.rmtree(unfinished, ignore_errors=True)
        self._there = {each.name for each in folder.iterdir()}

    def copy(self, user: str, id: str, work: Path) -> None:
        """Copies the code *id* of *user* into the empty folder *work*.

        Raises the errors of `CodeOf`, and OSError.
        """
        if not (self._folder / id).is_dir():
            self._unpack(self.code_of(user, id), id)
        self._there.add(id)
        shutil.copytree(self._folder / id, work, symlinks=True, copy_function=_copy, dirs_exist_ok=True)

    def keep(self, ids: Collection[str | None]) -> None:
        """Removes all code but *ids*."""
        for id in self._there.difference(ids):
            shutil.rmtree(self._folder / id, ignore_errors=True)
            self._there.discard(id)

    def _unpack(self, code: StoredCode, id: str) -> None:
        unfinished = Path(tempfile.mkdtemp(prefix=".", dir=self._folder))
        try:
            _write(code, unfinished)
            os.rename(unfinished, self._folder / id)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise


def _write(code: StoredCode, folder: Path) -> None:
    """The manifest was checked: its paths stay inside, and none leads through a link."""
    for file in code.manifest.files:
        path = folder / file.path
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with open(os.open(path, flags, 0o700 if file.executable else 0o600), "wb") as new:
            new.write(code.read(file.sha256))
    for link in code.manifest.links:
        path = folder / link.path
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.symlink_to(link.target)


def _copy(source: str, target: str) -> str:
    """Copies a file with its mode, sharing blocks where the file system can."""
    with open(source, "rb") as old, open(target, "xb") as new:
        try:
            while os.copy_file_range(old.fileno(), new.fileno(), LARGEST):
                pass
        except OSError as error:
            if error.errno not in _NO_COPY:
                raise
            old.seek(0)
            new.truncate(0)
            shutil.copyfileobj(old, new)
        os.fchmod(new.fileno(), os.fstat(old.fileno()).st_mode & 0o700)
    return target
