"""Output of tasks: the lines of both streams of many attempts, in the order of time.

A task writes its streams to two files, and its supervisor records their lengths over time (`ports.backend.Output`). The
records put the lines of an attempt in order, and their times those of several attempts.
"""

import errno
import heapq
import os
import re
import stat
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from typing import NamedTuple

from runrig.domain.workflows import TaskKey
from runrig.ports.backend import LogFile, Output

CHUNK = 64 * 1024
LONGEST_TAIL = 64 * 1024 * 1024
"""Bytes at the end of a file that are searched for its last lines."""
OPEN_S = 0.5
"""Seconds for which an incomplete line is withheld from readers that follow."""
STDOUT, STDERR = "stdout", "stderr"

_NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO, errno.EACCES)
_NOTE = re.compile(rb"^([0-9]{1,17}) ([0-9]{1,17}) ([0-9]{1,17})$", re.MULTILINE)
_LONGEST_NOTE = 60
"""Bytes of a record and more."""
_STAMP = re.compile(rb"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8})(\.[0-9]{1,9})?Z ")


class Lines(NamedTuple):
    """Output of an attempt on one stream at one time, in seconds since the epoch. About `CHUNK` bytes at most, because
    many short lines together are cheaper.

    *data*: lines separated by line feeds. *whole*: the last line is complete.
    """

    time: float
    key: TaskKey
    stream: str
    data: bytes
    whole: bool


def one_by_one(lines: Iterable[Lines]) -> Iterator[Lines]:
    """Yields each line separately."""
    for some in lines:
        *before, last = some.data.split(b"\n")
        yield from (some._replace(data=data, whole=True) for data in before)
        yield some._replace(data=last)


def text_of(line: Lines) -> str:
    """Returns the text of one line. If carriage returns overwrite it, as in progress bars, that is its last part."""
    return line.data.decode(errors="replace").rstrip("\r").rpartition("\r")[2]


class Tail:
    """Output of an attempt, from the beginning or from its last lines on, as it grows."""

    def __init__(
        self, key: TaskKey, find: Callable[[TaskKey], Output | None], streams: Iterable[str], last_lines: int | None
    ) -> None:
        self.key = key
        self._find = find
        self._streams = {name: _Stream(last_lines) for name in streams}
        self._order = _Notes()
        self._time = 0.0

    def more(self, now: float) -> list[Lines]:
        """Returns output since the last call, in order, perhaps only part of it; empty if there is none.

        *now*: includes an incomplete line that has not grown for `OPEN_S`.
        """
        output = self._find(self.key)
        if output is None:
            return []
        found = self._some(output, ended=output.order is None)
        if not found:
            found = [line for name, stream in self._streams.items() for line in self._open(name, stream, now)]
        return found

    def so_far(self) -> Iterator[Lines]:
        """Returns all lines whose order is known. `more` continues after them."""
        return self._all(ended=False)

    def rest(self) -> Iterator[Lines]:
        """Returns everything up to the end, including an incomplete line."""
        yield from self._all(ended=True)
        for name, stream in self._streams.items():
            if stream.line:
                yield self._lines(name, stream.taken(), whole=False)

    def _all(self, *, ended: bool) -> Iterator[Lines]:
        before = None
        while (output := self._find(self.key)) is not None and before != (before := self._read_so_far()):
            yield from self._some(output, ended=ended or output.order is None)

    def _read_so_far(self) -> tuple[int, ...]:
        return self._order.position, len(self._order.here), *(each.position for each in self._streams.values())

    def _some(self, output: Output, *, ended: bool) -> list[Lines]:
        """Returns about `CHUNK` bytes of output, or less. *ended*: includes output that is not recorded, all of stdout
        before stderr.
        """
        found: list[Lines] = []
        size = 0
        with closing(self._read(output, ended=ended)) as reading:
            for lines in reading:
                found.append(lines)
                size += len(lines.data)
                if size >= CHUNK:
                    break
        return found

    def _read(self, output: Output, *, ended: bool) -> Generator[Lines]:
        """Can be closed at any point; the next call continues there."""
        files = {STDOUT: output.stdout, STDERR: output.stderr}
        logs = [(name, stream, open_log(file)) for name, stream in self._streams.items() if (file := files[name])]
        there = [(name, stream, descriptor) for name, stream, descriptor in logs if descriptor is not None]
        try:
            starts = {int(name == STDERR): stream.begin(descriptor) for name, stream, descriptor in there}
            notes = deque[tuple[float, int, int]]() if output.order is None else self._order.more(output.order, starts)
            noted = bool(notes)
            while notes:
                at, *sizes = notes[0]
                self._time = max(self._time, at)
                for name, stream, descriptor in there:
                    for data, whole in stream.upto(descriptor, sizes[name == STDERR]):
                        yield self._lines(name, data, whole=whole)
                notes.popleft()
            for name, stream, descriptor in there if ended and not noted else ():
                self._time = self._time or os.fstat(descriptor).st_mtime
                before = stream.position
                for data, whole in stream.upto(descriptor, before + CHUNK):
                    lines = self._lines(name, data, whole=whole)
                    yield from map(self._stamped, one_by_one([lines])) if output.stamped else [lines]
                if stream.position != before:
                    break
        finally:
            for _, _, descriptor in there:
                os.close(descriptor)

    def _open(self, name: str, stream: "_Stream", now: float) -> Iterator[Lines]:
        if not stream.line:
            stream.waits_since = None
        elif stream.waits_since is None or stream.waits_since[1] != len(stream.line):
            stream.waits_since = now, len(stream.line)
        elif now - stream.waits_since[0] >= OPEN_S:
            yield self._lines(name, stream.taken(), whole=False)

    def _lines(self, stream: str, data: bytes, *, whole: bool) -> Lines:
        return Lines(self._time, self.key, stream, data, whole)

    def _stamped(self, line: Lines) -> Lines:
        """Uses the time at the beginning of the line, as Kubernetes writes it."""
        found = _STAMP.match(line.data)
        if found is None:
            return line._replace(time=self._time)
        second = datetime.fromisoformat(found[1].decode()).replace(tzinfo=UTC).timestamp()
        self._time = max(self._time, second + float(found[2] or 0))
        return line._replace(time=self._time, data=line.data[found.end() :])


class _Stream:
    """A file and the position up to which it was read. *line*: the incomplete line before it."""

    def __init__(self, last_lines: int | None) -> None:
        self.position = -1
        self.line = b""
        self.waits_since: tuple[float, int] | None = None
        self._last_lines = last_lines
        self._ahead = b""
        self._at = 0

    def begin(self, descriptor: int) -> int:
        """Returns the position, which at first is that of the last lines."""
        if self.position < 0:
            self.position = start(descriptor, self._last_lines)
        return self.position

    def upto(self, descriptor: int, size: int) -> Iterator[tuple[bytes, bool]]:
        """Yields the lines up to byte *size*, some at a time, and whether the last one is complete."""
        while self.position < size:
            if self._at == len(self._ahead):
                self._ahead, self._at = os.pread(descriptor, CHUNK, self.position), 0
                if not self._ahead:
                    break
            data = self._ahead[self._at : self._at + size - self.position]
            self._at += len(data)
            self.position += len(data)
            lines, end, self.line = (self.line + data).rpartition(b"\n")
            if end:
                yield lines, True
            if len(self.line) > CHUNK:
                yield self.taken(), False

    def taken(self) -> bytes:
        line, self.line, self.waits_since = self.line, b"", None
        return line


class _Notes:
    def __init__(self) -> None:
        self.position = -1
        self._line = b""
        self.here: deque[tuple[float, int, int]] = deque()

    def more(self, file: LogFile, starts: Mapping[int, int]) -> deque[tuple[float, int, int]]:
        """Returns new records, whose output was not returned yet: (time, size of stdout, size of stderr).

        Ignores invalid records, which the task may have written. *starts*: stream (0: stdout, 1: stderr) → the position
        from which it is read; the first call skips most records of what is before.
        """
        descriptor = None if self.here else open_log(file)
        if descriptor is None:
            return self.here
        try:
            if self.position < 0:
                self.position = _first_note(descriptor, starts)
            data = os.pread(descriptor, CHUNK, self.position)
        finally:
            os.close(descriptor)
        self.position += len(data)
        lines, _, self._line = (self._line[-CHUNK:] + data).rpartition(b"\n")
        self.here.extend([(int(at) / 1e6, int(out), int(err)) for at, out, err in _NOTE.findall(lines)])
        return self.here


def _first_note(descriptor: int, starts: Mapping[int, int]) -> int:
    """Returns the offset of a record, at most about `CHUNK` bytes before the first one beyond *starts*."""
    found, least, most = 0, 0, os.fstat(descriptor).st_size
    while any(starts.values()) and most - least > CHUNK:
        middle = (least + most) // 2
        before, _, after = os.pread(descriptor, _LONGEST_NOTE * 2, middle).partition(b"\n")
        note = _NOTE.match(after)
        if note and all(int(note[2 + stream]) <= start for stream, start in starts.items()):
            found, least = middle + len(before) + 1, middle
        else:
            most = middle
    return found


def merged(attempts: Iterable[Iterable[Lines]]) -> Iterator[Lines]:
    """Merges the output of several attempts by time; the lines of each attempt keep their order."""
    return heapq.merge(*attempts, key=lambda lines: lines.time)


def start(descriptor: int, last_lines: int | None) -> int:
    """Returns the offset of the last *last_lines* lines of the file."""
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
    """Returns a descriptor of *file*; None if it is not a regular file, or its path contains a link."""
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
    """Opens *name* in *folder*, and closes *folder*."""
    try:
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | flags, dir_fd=folder)
    finally:
        os.close(folder)
