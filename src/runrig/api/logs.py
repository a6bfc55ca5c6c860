"""Logs as a stream from the files that tasks write, for as long as they write if the client follows."""

import errno
import os
import stat
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from anyio import CapacityLimiter, to_thread

from runrig.api.staying import Stays
from runrig.api.waiting import changes, soon
from runrig.domain.natural_order import natural
from runrig.domain.workflows import Task, TaskKey
from runrig.ports.backend import LogFile
from runrig.service.service import Service

CHUNK = 64 * 1024
POLL_S = 0.15
LONGEST_POLL_S = 0.6
"""How often to look at a growing file, and at one that has not grown for a while: nothing tells us that it grew."""

READERS = 8
"""Threads of a server that read output, besides those that answer: whatever a disk or a task does, only readers wait for it."""
LONGEST_TAIL = 64 * 1024 * 1024
"""Bytes at the end of a file in which its last lines are looked for."""

_readers = CapacityLimiter(READERS)
_NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO, errno.EACCES)


@dataclass(frozen=True, slots=True)
class LogRequest:
    """*task* None: all tasks, each line with its pod in front unless there can be only one.  *last_lines* None: from the beginning."""

    workflow: str
    task: str | None = None
    retry_id: int | None = None
    last_lines: int | None = None
    follow: bool = False
    error: bool = False


class Tail:
    """The rest of an attempt's output."""

    def __init__(self, service: Service, key: TaskKey, prefix: str, request: LogRequest) -> None:
        self.key = key
        self._service = service
        self._prefix = prefix.encode()
        self._request = request
        self._offset: int | None = None
        self._open_line = b""

    def read(self) -> bytes:
        """At most `CHUNK` more bytes, each line with the prefix; b"" if there is no more now, or no whole line."""
        file = self._service.workflow_queries.log(self.key, error=self._request.error)
        if file is None:
            return b""
        descriptor = open_log(file)
        if descriptor is None:
            return b""
        try:
            if self._offset is None:
                self._offset = _start(descriptor, self._request.last_lines)
            data = os.pread(descriptor, CHUNK, self._offset)
        finally:
            os.close(descriptor)
        self._offset += len(data)
        return self._prefixed(data)

    def _prefixed(self, data: bytes) -> bytes:
        """*data* with the prefix on each line: whole lines only, so that tasks do not run into each other."""
        if not self._prefix:
            return data
        *lines, self._open_line = (self._open_line + data).split(b"\n")
        if len(self._open_line) > CHUNK:
            lines, self._open_line = [*lines, self._open_line], b""
        return b"".join(self._prefix + line + b"\n" for line in lines)

    def rest(self) -> Iterator[bytes]:
        """Everything written so far, and the line not yet ended."""
        while True:
            before = self._offset
            data = self.read()
            if data:
                yield data
            if self._offset == before:
                break
        if self._open_line:
            yield self._prefix + self._open_line + b"\n"
            self._open_line = b""


async def _read(read: Callable[[], bytes]) -> bytes:
    return await to_thread.run_sync(read, limiter=_readers, abandon_on_cancel=True)


def _start(descriptor: int, last_lines: int | None) -> int:
    """The offset where the last *last_lines* lines of the file begin."""
    if last_lines is None:
        return 0
    end = position = os.fstat(descriptor).st_size
    if not last_lines:
        return end
    missing = last_lines + (end > 0 and os.pread(descriptor, 1, end - 1) == b"\n")
    least = max(0, end - LONGEST_TAIL)
    while position > least:
        size = min(CHUNK, position - least)
        position -= size
        block = os.pread(descriptor, size, position)
        here = block.count(b"\n")
        if here >= missing:
            at = len(block)
            for _ in range(missing):
                at = block.rfind(b"\n", 0, at)
            return position + at + 1
        missing -= here
    return least


def open_log(file: LogFile) -> int | None:
    """A descriptor of *file*; None if there is no regular file, or one only behind a link."""
    *folders, name = file.name.split("/")
    try:
        descriptor = os.open(file.folder, os.O_RDONLY | os.O_DIRECTORY)
        for part in folders:
            descriptor = _inside(descriptor, part, os.O_DIRECTORY)
        descriptor = _inside(descriptor, name, os.O_NONBLOCK)
    except OSError as error:
        if error.errno in _NO_FILE:
            return None
        raise
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None


def _inside(folder: int, name: str, flags: int) -> int:
    """*name* in *folder*, which is closed."""
    try:
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | flags, dir_fd=folder)
    finally:
        os.close(folder)


class Follower:
    """The tails of the attempts that a request asks for; new attempts join as they are made."""

    def __init__(self, service: Service, request: LogRequest, attempts: Sequence[Task]) -> None:
        self._service = service
        self._request = request
        self._id = attempts[0].workflow if attempts else request.workflow  # the request may name it by uuid
        self._tails: dict[TaskKey, Tail] = {}
        self._ended = False
        self._take_in(attempts)

    async def stream(self, stays: Stays) -> AsyncIterator[bytes]:
        with changes(self._service, self._id) as changed:
            pause_s = POLL_S
            while self._request.follow and not self._ended:
                if stays() is None:
                    return
                for tail in tuple(self._tails.values()):
                    if data := await _read(tail.read):
                        yield data
                        changed.set()  # there may already be more of it
                pause_s = POLL_S if changed.is_set() else min(2 * pause_s, LONGEST_POLL_S)
                if await soon(changed, pause_s):
                    self._take_in(await to_thread.run_sync(self._attempts))
        for tail in self._tails.values():
            rest = tail.rest()
            while data := await _read(partial(next, rest, b"")):
                yield data

    def written(self) -> Iterator[bytes]:
        """Yields all that is there now, without waiting."""
        for tail in self._tails.values():
            yield from tail.rest()

    def _attempts(self) -> tuple[Task, ...]:
        request = self._request
        return self._service.workflow_queries.attempts(request.workflow, task=request.task, retry_id=request.retry_id)

    def _take_in(self, attempts: Sequence[Task]) -> None:
        alone = self._request.task is not None or _only_one(attempts)
        for task in sorted(attempts, key=lambda each: (each.group, natural(each.name), each.retry_id)):
            if task.key not in self._tails:
                prefix = "" if alone else f"[{task.name}] "
                self._tails[task.key] = Tail(self._service, task.key, prefix, self._request)
        self._ended = all(task.status.finished for task in attempts)


def _only_one(attempts: Sequence[Task]) -> bool:
    """True if the workflow never has more than one pod: with a `count`, others may be left out for now (law A3)."""
    return len(attempts) == 1 and attempts[0].name == attempts[0].spec


def stream(service: Service, request: LogRequest, stays: Stays) -> AsyncIterator[bytes]:
    """Follows, if asked to, for as long as who asks *stays*.

    Raises NotFound before anything is sent.  Reads the store, so must not be called in the event loop.
    """
    attempts = service.workflow_queries.attempts(request.workflow, task=request.task, retry_id=request.retry_id)
    return Follower(service, request, attempts).stream(stays)
