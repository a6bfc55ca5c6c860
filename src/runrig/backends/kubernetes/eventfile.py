"""The events of one workflow in a file: one line of JSON for each state of an event; the newest counts.

Append-only, so a kill loses at most half a line. Rewritten at twice the necessary size.
"""

import contextlib
import json
import math
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from runrig.domain.observed import ClusterEvent
from runrig.domain.quantities import counted
from runrig.domain.workflows import TaskKey

MOST = 5000
"""Maximum events of a workflow; the oldest are dropped."""

REPEAT_S = 60.0
"""Seconds until the next state of an event can be written."""

_DROPPED = "dropped"
_UNREADABLE = (ValueError, TypeError, KeyError)


class EventFile:
    """*path* need not exist.  Not thread-safe."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, ClusterEvent] = {}
        self._unwritten: dict[str, None] = {}
        self._written: dict[str, float] = {}
        self._dropped = 0
        self._from = -math.inf
        """Older events are dropped."""
        self._lines = 0
        self._whole = True
        """The file ends with a complete line."""
        self._read()

    @property
    def written(self) -> bool:
        """Whether nothing is left to write."""
        return not self._unwritten

    def note(self, uid: str, event: ClusterEvent) -> None:
        """Records *event* if it is a later state of the event *uid*."""
        known = self._known.get(uid)
        if event.version > known.version if known else event.latest >= self._from:
            self._known[uid] = event
            self._unwritten[uid] = None

    def all(self) -> tuple[ClusterEvent, ...]:
        """Returns all events, oldest first."""
        events = tuple(sorted(self._known.values(), key=_order))
        if not (events and self._dropped):
            return events
        words = (
            f"{counted(self._dropped, 'older event')} of the cluster {'was' if self._dropped == 1 else 'were'} dropped"
        )
        return (ClusterEvent(events[0].time, None, "", "runrig", "Dropped", words), *events)

    def write(self, now: float) -> None:
        """Writes the events due at *now*, in monotonic seconds; infinity: all. Raises OSError; they stay due."""
        due = [uid for uid in self._unwritten if now - self._written.get(uid, -math.inf) >= REPEAT_S]
        if not due:
            return
        try:
            self._append([_line(uid, self._known[uid]) for uid in due])
            for uid in due:
                del self._unwritten[uid]
                self._written[uid] = now
        finally:
            self._trim()
        if self._lines > 2 * MOST:
            self._write_anew()

    # ------------------------------------------------------------ the file

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            said = self._path.read_bytes()
            self._whole = not said or said.endswith(b"\n")
            for line in said.splitlines():
                self._lines += 1
                with contextlib.suppress(*_UNREADABLE):  # An incomplete line: the writer was killed.
                    self._take(json.loads(line))
            self._trim()

    def _take(self, said: dict[str, Any]) -> None:
        if _DROPPED in said:
            self._dropped = int(said[_DROPPED])
            return
        uid, key = said.pop("uid"), said.pop("key")
        event = ClusterEvent(**said, key=None if key is None else TaskKey(*key))
        if uid not in self._known or event.version > self._known[uid].version:  # Written by a server that stopped late.
            self._known[uid] = event

    def _append(self, lines: list[bytes]) -> None:
        start, self._whole = b"" if self._whole else b"\n", False
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(self._path, os.O_APPEND, start + b"".join(lines))
        self._whole = True
        self._lines += len(lines)

    def _write_anew(self) -> None:
        new = self._path.with_name(f"{self._path.name}.new")
        header = [json.dumps({_DROPPED: self._dropped}).encode() + b"\n"] if self._dropped else []
        lines = header + [_line(uid, event) for uid, event in self._known.items()]
        _write(new, os.O_TRUNC, b"".join(lines))
        new.replace(self._path)
        self._lines = len(lines)

    def _trim(self) -> None:
        by_age = sorted(self._known, key=lambda uid: _order(self._known[uid])) if len(self._known) > MOST else []
        for uid in by_age[: len(by_age) - MOST]:
            del self._known[uid]
            self._unwritten.pop(uid, None)
            self._written.pop(uid, None)
            self._dropped += 1
        if by_age or (self._dropped and self._from == -math.inf):
            self._from = min((event.latest for event in self._known.values()), default=-math.inf)


def _order(event: ClusterEvent) -> tuple[float, int]:
    return event.latest, event.version


def _line(uid: str, event: ClusterEvent) -> bytes:
    return json.dumps({"uid": uid, **asdict(event)}).encode() + b"\n"


def _write(path: Path, flag: int, data: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | flag, 0o600), "wb") as file:
        file.write(data)
