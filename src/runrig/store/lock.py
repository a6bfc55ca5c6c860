"""One server per database: a lock on a file next to it, which names the holder.

The system releases it when the holder ends, in any way. The file stays, because removing it would race with the next
holder.
"""

import fcntl
import json
import os
import socket
import time
from datetime import UTC, datetime
from pathlib import Path

import psutil

from runrig.domain.errors import ServerFault
from runrig.ports.disk import is_full
from runrig.store.faults import full

INHERITED_S = 5.0
"""Seconds to wait for a lock whose holder is dead: a process that it was starting shares the lock until it runs its program."""
_POLL_S = 0.01

_held: set[int] = set()


def _forget() -> None:
    """A fork shares its parent's lock, and would keep it after the parent died."""
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_forget)


class DataLock:
    """Held from construction until `release` or the end of the process. Child processes do not inherit it."""

    def __init__(self, path: Path, place: str) -> None:
        """Takes the lock, or raises a ServerFault that names the holder. *place*: what it protects, for the message."""
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ServerFault(
                f"{path} cannot be written ({error.strerror}). Grant the server's user write permission on it and its folder, "
                "or choose another data folder"
            ) from error
        try:
            _take(self._descriptor)
        except OSError as error:
            holder = _read(self._descriptor)
            os.close(self._descriptor)
            raise ServerFault(
                f"{place} is in use by {holder}. Stop that server, or choose another data folder"
            ) from error
        _held.add(self._descriptor)
        try:
            _write(self._descriptor)
        except OSError as error:
            self.release()
            raise full(place) if is_full(error) else error from error

    def probe(self) -> None:
        """Rewrites the existing content. Raises OSError if the folder is no longer writable."""
        os.pwrite(self._descriptor, b"{", 0)

    def release(self) -> None:
        if self._descriptor in _held:
            _held.remove(self._descriptor)
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)


def _take(descriptor: int) -> None:
    """Raises BlockingIOError if the holder is alive, or its child processes do not release the lock in time."""
    give_up = time.monotonic() + INHERITED_S
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not _holder_died(descriptor) or time.monotonic() > give_up:
                raise
            time.sleep(_POLL_S)


def _holder_died(descriptor: int) -> bool:
    """Returns False if the holder is alive, on another host, or has not written the file yet."""
    try:
        holder = json.loads(os.pread(descriptor, 1000, 0))
        return bool(holder["host"] == socket.gethostname() and not psutil.pid_exists(holder["pid"]))
    except (ValueError, KeyError, TypeError):
        return False


def _write(descriptor: int) -> None:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": since}).encode(), 0)


def _read(descriptor: int) -> str:
    """Describes the holder, from the file; "another server" if it has not written the file yet."""
    try:
        holder = json.loads(os.pread(descriptor, 1000, 0))
        return f"the server with process id {holder['pid']} on {holder['host']} since {holder['since']}"
    except (ValueError, KeyError, TypeError):
        return "another server"
