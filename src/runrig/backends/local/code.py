"""Code of tasks on disk: unpacked once, and copied for each attempt.

Up to 20,000 files take seconds. Threads of their own copy them, so that no other task waits.

DATA/code/ID appears complete, by renaming; what a killed server left unfinished begins with a dot and is removed.
"""

import errno
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from runrig.domain.code import LARGEST
from runrig.domain.workflows import TaskKey
from runrig.ports.backend import no_code
from runrig.ports.code import CodeOf, StoredCode

_AT_ONCE = 2
"""Copies at the same time; the others wait."""
_NO_COPY = (errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EBADF)
"""Errors of file systems that cannot copy inside the kernel."""


class NotCopied(Exception):
    """The copy is not complete yet."""


class CodeFolders:
    """*folder*: for its exclusive use. *code_of*: gets code that is not unpacked. *done*: called in another thread when a
    copy is complete.
    """

    def __init__(self, folder: Path, done: Callable[[], object] = lambda: None) -> None:
        self.code_of: CodeOf = no_code
        self._folder = folder
        folder.mkdir(mode=0o700, exist_ok=True)
        for unfinished in folder.glob(".*"):
            shutil.rmtree(unfinished, ignore_errors=True)
        self._there = {each.name for each in folder.iterdir()}
        self._done = done
        self._copies: dict[TaskKey, tuple[str, Future[Path]]] = {}
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="code")
        self._unpacking = threading.Lock()

    def copy_for(self, key: TaskKey, user: str, id: str) -> Path:
        """Returns a copy of the code *id* of *user* for an attempt, to be moved away. Does not wait.

        Raises NotCopied until it is complete; the errors of `CodeOf`, and OSError, after which a later call tries again.
        """
        if key not in self._copies:
            self._there.add(id)
            self._copies[key] = id, self._threads.submit(self._copy, user, id)
            self._copies[key][1].add_done_callback(self._tell)
        copying = self._copies[key][1]
        if not copying.done():
            raise NotCopied
        del self._copies[key]
        return copying.result()

    def _tell(self, copying: "Future[Path]") -> None:
        """A failure is noticed later, so that one that repeats does not keep the server busy."""
        if not copying.cancelled() and copying.exception() is None:
            self._done()

    def forget(self, key: TaskKey) -> None:
        """Removes the copy for an attempt that does not start."""
        _, copying = self._copies.pop(key, ("", None))
        if copying is not None and not copying.cancel():
            copying.add_done_callback(_remove)

    def close(self) -> None:
        """Waits for what is being copied."""
        self._threads.shutdown(cancel_futures=True)

    def _copy(self, user: str, id: str) -> Path:
        with self._unpacking:  # Only the first attempt with this code unpacks it.
            if not (self._folder / id).is_dir():
                self._unpack(self.code_of(user, id), id)
        target = Path(tempfile.mkdtemp(prefix=".", dir=self._folder))
        try:
            shutil.copytree(self._folder / id, target, symlinks=True, copy_function=_copy, dirs_exist_ok=True)
        except BaseException:
            shutil.rmtree(target, ignore_errors=True)
            raise
        return target

    def keep(self, ids: Collection[str | None]) -> None:
        """Removes all code but *ids* and what is being copied."""
        copied = {id for id, _ in self._copies.values()}
        for id in self._there.difference(ids, copied):
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


def _remove(copying: Future[Path]) -> None:
    if not copying.cancelled() and copying.exception() is None:
        shutil.rmtree(copying.result(), ignore_errors=True)


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
