"""Streams output from the files that tasks write, for as long as they write if the client follows."""

import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from runrig.domain.errors import NotFound
from runrig.domain.natural_order import natural
from runrig.domain.workflows import Status, Task, TaskKey
from runrig.service.queries.output import STDERR, STDOUT, Lines, Tail, merged, one_by_one, text_of
from runrig.service.queries.record import Record
from runrig.service.rights import Stays
from runrig.service.service import Service
from runrig.service.waiting import HEARTBEAT_S, changes, soon

T = TypeVar("T")

BOTH = (STDOUT, STDERR)
POLL_S = 0.15
LONGEST_POLL_S = 0.6
"""Seconds between reads of a growing file, and of one that has not grown for a while. Nothing reports growth."""

READERS = 8
"""Threads that read output. Other threads answer requests, so a slow disk delays only these."""
BYTES_AT_ONCE = 256 * 1024

_readers = CapacityLimiter(READERS)


@dataclass(frozen=True, slots=True)
class LogRequest:
    """*task* None: all tasks, or those of *group*, with the pod at the beginning of each line unless there can be only one. *last_lines*
    None: from the beginning.

    *every_attempt*: not only the latest of each pod. *since*: only output from then on. *records*: each line as a JSON
    object, `LogRecord`.
    """

    workflow: str
    task: str | None = None
    retry_id: int | None = None
    last_lines: int | None = None
    follow: bool = False
    streams: Sequence[str] = BOTH
    every_attempt: bool = False
    since: float | None = None
    records: bool = False
    group: str | None = None


_NOT_STARTED = (Status.WAITING, Status.SCHEDULING)
"""Attempts with one of these have no output, but the simulated backend has a note for every attempt."""


class Follower:
    """The output of the requested attempts, including attempts that start later."""

    def __init__(self, service: Service, request: LogRequest, attempts: Sequence[Task]) -> None:
        self._service = service
        self._request = request
        self._id = attempts[0].workflow if attempts else request.workflow  # The request may contain its uuid.
        self._tails: dict[TaskKey, Tail] = {}
        self._alone = True
        self._ended = False
        self._take_in(attempts)

    async def stream(self, stays: Stays) -> AsyncIterator[bytes]:
        with changes(self._service, self._id) as changed:
            follows = self._request.follow
            history = self._parts(tail.so_far() for tail in self._tails.values() if follows)
            while stays() is not None and (data := await _read(partial(next, history, None))) is not None:
                yield data
            changed.set()  # A commit changed it before the listener was registered.
            pause_s, spoken = POLL_S, time.monotonic()
            while follows and not self._ended:
                if stays() is None:
                    return
                lines: list[Lines] = []
                for tail in tuple(self._tails.values()):
                    lines += await _read(partial(tail.more, time.monotonic()))
                if data := b"".join(map(self._bytes, sorted(lines, key=lambda each: each.time))):
                    yield data
                    changed.set()  # There may already be more output.
                elif self._request.records and time.monotonic() - spoken > HEARTBEAT_S:
                    data = b" "  # The next record can begin with spaces.
                    yield data
                spoken = time.monotonic() if data else spoken
                pause_s = POLL_S if changed.is_set() else min(2 * pause_s, LONGEST_POLL_S)
                if await soon(changed, pause_s):
                    self._take_in(await to_thread.run_sync(partial(attempts_of, self._service, self._request)))
        parts = self.written()
        while (data := await _read(partial(next, parts, None))) is not None:
            yield data

    def written(self) -> Iterator[bytes]:
        """Yields all output up to now, without waiting."""
        return self._parts(tail.rest() for tail in self._tails.values())

    def lines(self) -> Iterator[Lines]:
        """As `written`, but not as text."""
        return merged(tail.rest() for tail in self._tails.values())

    def _parts(self, attempts: Iterable[Iterable[Lines]]) -> Iterator[bytes]:
        parts: list[bytes] = []
        size = 0
        for lines in merged(attempts):
            parts.append(self._bytes(lines))
            size += len(parts[-1])
            if size >= BYTES_AT_ONCE:
                yield b"".join(parts)
                parts, size = [], 0
        if size:
            yield b"".join(parts)

    def _take_in(self, attempts: Sequence[Task]) -> None:
        self._alone = self._request.task is not None or _only_one(attempts)
        for task in sorted(attempts, key=lambda each: (each.group, natural(each.name), each.retry_id)):
            if task.key not in self._tails and task.status not in _NOT_STARTED:
                find, request = self._service.workflow_queries.output, self._request
                self._tails[task.key] = Tail(task.key, find, request.streams, request.last_lines)
        self._ended = all(task.status.finished for task in attempts)

    def _bytes(self, lines: Lines) -> bytes:
        """Returns the lines as text; empty if they are older than requested."""
        if self._request.since is not None and lines.time < self._request.since:
            return b""
        return b"".join(map(_record, one_by_one([lines]))) if self._request.records else self._text(lines)

    def _text(self, lines: Lines) -> bytes:
        """Leaves an incomplete line open if it can only be followed by its own rest."""
        prefix = b"" if self._alone else f"[{lines.key.task}] ".encode()
        data = lines.data.replace(b"\n", b"\n" + prefix) if prefix else lines.data
        ends = lines.whole or prefix or len(self._request.streams) > 1
        return prefix + data + (b"\n" if ends else b"")


def _record(line: Lines) -> bytes:
    at = datetime.fromtimestamp(round(line.time, 6), UTC).isoformat(timespec="microseconds")
    found = {
        "time": at.replace("+00:00", "Z"),
        "task": line.key.task,
        "attempt": line.key.retry_id,
        "stream": line.stream,
        "text": text_of(line),
    }
    return json.dumps(found, separators=(",", ":")).encode() + b"\n"


async def _read(read: Callable[[], T]) -> T:
    return await to_thread.run_sync(read, limiter=_readers, abandon_on_cancel=True)


def _only_one(attempts: Sequence[Task]) -> bool:
    """Whether the workflow never has more than one pod: with a `count`, others may be missing for now (rule
    A3).
    """
    names = {(task.name, task.spec) for task in attempts}
    return len(names) == 1 and all(name == spec for name, spec in names)


def attempts_of(service: Service, request: LogRequest, record: Record | None = None) -> tuple[Task, ...]:
    """*record*: of its workflow, if it was read already. Raises NotFound."""
    find = partial(service.workflow_queries.attempts, request.workflow, record=record)
    found = find(task=request.task, retry_id=request.retry_id, every=request.every_attempt)
    mine = tuple(each for each in found if request.group in (None, each.group))
    if found and not mine:
        raise NotFound(f"{request.workflow} has no task group {request.group!r:.80}")
    return mine


def stream(service: Service, request: LogRequest, stays: Stays) -> AsyncIterator[bytes]:
    """Follows the output if requested, while the user *stays*.

    Raises NotFound before it sends anything. Reads the store, so it must not be called in the event loop.
    """
    return Follower(service, request, attempts_of(service, request)).stream(stays)
