"""Logs as a stream from the files that tasks write, for as long as they write if the client follows."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass

from starlette.concurrency import iterate_in_threadpool

from runrig.api.waiting import changes, soon
from runrig.domain.workflows import Task, TaskKey
from runrig.service.service import Service

CHUNK = 64 * 1024
POLL_S = 0.15
"""How often to look at a growing file: nothing tells us that it grew."""


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
        try:
            with open(file.path, "rb") as stream:
                if self._offset is None:
                    self._offset = _start(stream.fileno(), self._request.last_lines)
                stream.seek(self._offset)
                data = stream.read(CHUNK)
        except FileNotFoundError:
            return b""
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


def _start(descriptor: int, last_lines: int | None) -> int:
    """The offset where the last *last_lines* lines of the file begin."""
    if last_lines is None:
        return 0
    position, missing = os.fstat(descriptor).st_size, last_lines
    if position and os.pread(descriptor, 1, position - 1) == b"\n":
        missing += 1
    while position > 0 and missing > 0:
        size = min(CHUNK, position)
        block = os.pread(descriptor, size, position - size)
        for at in range(len(block) - 1, -1, -1):
            if block[at] == 0x0A:
                missing -= 1
                if missing == 0:
                    return position - size + at + 1
        position -= size
    return 0 if last_lines else os.fstat(descriptor).st_size


class Follower:
    """The tails of the attempts that a request asks for; new attempts join as they are made."""

    def __init__(self, service: Service, request: LogRequest, attempts: Sequence[Task]) -> None:
        self._service = service
        self._request = request
        self._id = attempts[0].workflow if attempts else request.workflow  # the request may name it by uuid
        self._tails: dict[TaskKey, Tail] = {}
        self._ended = False
        self._take_in(attempts)

    async def stream(self) -> AsyncIterator[bytes]:
        with changes(self._service, self._id) as changed:
            while self._request.follow and not self._ended:
                for tail in tuple(self._tails.values()):
                    if data := await asyncio.to_thread(tail.read):
                        yield data
                        changed.set()  # there may already be more of it
                if await soon(changed, POLL_S):
                    self._take_in(await asyncio.to_thread(self._attempts))
        for tail in self._tails.values():
            async for data in iterate_in_threadpool(tail.rest()):
                yield data

    def _attempts(self) -> tuple[Task, ...]:
        request = self._request
        return self._service.workflow_queries.attempts(request.workflow, task=request.task, retry_id=request.retry_id)

    def _take_in(self, attempts: Sequence[Task]) -> None:
        alone = self._request.task is not None or _only_one(attempts)
        for task in attempts:
            if task.key not in self._tails:
                prefix = "" if alone else f"[{task.name}] "
                self._tails[task.key] = Tail(self._service, task.key, prefix, self._request)
        self._ended = all(task.status.finished for task in attempts)


def _only_one(attempts: Sequence[Task]) -> bool:
    """True if the workflow never has more than one pod: with a `count`, others may be left out for now (law A3)."""
    return len(attempts) == 1 and attempts[0].name == attempts[0].spec


def stream(service: Service, request: LogRequest) -> AsyncIterator[bytes]:
    """Raises NotFound before anything is sent.  Reads the store, so must not be called in the event loop."""
    attempts = service.workflow_queries.attempts(request.workflow, task=request.task, retry_id=request.retry_id)
    return Follower(service, request, attempts).stream()
