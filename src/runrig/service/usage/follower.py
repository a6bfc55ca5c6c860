"""Follows the event log and folds it into usage, off the state's lock: a commit does nothing for it.

Uses its own thread and connections, on the leader. It reads the log from a stored position, and writes closed hours together with
the next position, so a server that was killed continues where they were written.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence

from runrig.domain.errors import Unavailable
from runrig.domain.records import Event
from runrig.domain.usage import DAY_S, KEEP_DAYS_S, KEEP_HOURS_S, MICROSECONDS, WORK, Hour, Key, microseconds
from runrig.engine.usage.fold import Fold
from runrig.ports.clock import Clock
from runrig.ports.store import Store
from runrig.ports.usage import Position
from runrig.service.runtime import logs
from runrig.service.runtime.background import Background
from runrig.service.usage import beginning
from runrig.service.usage.summed import alike

VERSION = 3
"""Changes with the rules by which usage is counted."""
EVENTS_AT_ONCE = 200
PAUSE_S = 1.0
"""Seconds between two reads of the log."""
REST = 50.0
"""Pauses this many times as long as a look took, because others need the interpreter."""
SAVED_S = 600.0
"""Seconds after which the position is written although no hour was closed, so that retention does not wait."""
MOST_FAILURES = 5
"""After so many failures to read or fold an event the rest of the log is left out: retention waits for the stored position."""

_log = logging.getLogger(__name__)


class Follower:
    """`lock`: held while usage is read, so that no hour is counted twice or left out."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self.lock = threading.RLock()
        self._fold: Fold | None = None
        self._since = 0
        self._hours: list[Hour] = []  # Complete hours that are not written yet.
        self._saved_at = 0.0
        self._saved_revision = -1
        self._caught_up = False
        self._written: Counter[Key] = Counter()
        self._before: Counter[Key] | None = None
        self._counters: Counter[Key] = Counter()
        self._behind_s = 0.0
        self._failures = 0  # Consecutive failures to read and fold an event.
        self.thread = Background("usage", self._step, lambda took_s, _: max(PAUSE_S, REST * took_s))
        """What is not written when it stops is folded again by the next server."""

    def step(self) -> bool:
        """Folds the next part of the log; returns False if there is none. Raises what the store raises; nothing is lost then."""
        with self.lock:
            try:
                fold = self._fold or self._begin()
                if fold is None:
                    return False
                events = self._store.usage.steps(fold.revision, EVENTS_AT_ONCE)
                self._apply(fold, events)
            except BaseException as error:
                self._fold, self._hours = None, []  # It may be half applied: begin again from the stored position.
                self._failures += not isinstance(error, (Unavailable, OSError))
                raise
            self._failures = 0
            self._caught_up = len(events) < EVENTS_AT_ONCE
            if self._caught_up:
                fold.count_minutes()
            idle_s = time.monotonic() - self._saved_at
            if self._hours or (fold.revision != self._saved_revision and idle_s > SAVED_S):
                self._save(fold)
            return not self._caught_up

    def open_hours(self) -> tuple[Sequence[Hour], int, int] | None:
        """Returns the hours that are not written yet, the time up to which they are complete, and the time since when usage is
        known, in microseconds. None if nothing is known yet. Call with `lock`.
        """
        fold = self._fold
        if fold is None:
            return None
        now = microseconds(self._clock.now()) if self._caught_up else fold.at
        return [*self._hours, *fold.until(now)], max(now, fold.at), self._since

    def counters(self) -> tuple[Mapping[Key, int], float]:
        """Returns sums that begin at 0 with the first call after the log was folded, and by how many seconds they are behind.

        Keys of work have a pool and a flavor, without users. Sums never fall. Does not wait: while the log is being folded,
        they are those of the last call.
        """
        if self.lock.acquire(blocking=False):
            try:
                self._count()
            finally:
                self.lock.release()
        return self._counters, self._behind_s

    def _count(self) -> None:
        known = self.open_hours()
        if known is None:
            return
        self._behind_s = max(0.0, self._clock.now() - known[1] / MICROSECONDS)
        now = Counter(self._written)
        now.update(_without_users(known[0]))
        if self._before is None and self._caught_up:
            self._before = now
        if self._before is not None:
            for key, amount in now.items():
                # Counters must not fall: after a failure the fold repeats what was counted.
                self._counters[key] = max(self._counters[key], amount - self._before[key])

    def minutes(self) -> tuple[int, Sequence[Hour]]:
        """Returns the last hour by minute, and since when it is known, in seconds. Minutes without sums are missing. Call with `lock`."""
        now = microseconds(self._clock.now())
        return (now // MICROSECONDS, ()) if self._fold is None else self._fold.minutes(now)

    def _step(self) -> None:
        try:
            self.step()
        except Exception:
            if self._failures >= MOST_FAILURES:
                self.begin_anew()
            raise

    def begin_anew(self) -> None:
        """Leaves out what is not folded yet, for an event that cannot be folded. Usage is complete again from now on."""
        with self.lock:
            try:
                base = beginning.present(self._store)
                if base is not None:
                    self._since, self._hours = base.at, []
                    self._save(Fold(base))
                    _log.error("%s", logs.line("usage_skipped", revision=base.cluster.revision))
            except Exception as error:  # noqa: BLE001 - tried again after the next failures
                logs.failure(_log, "usage_failed", error)
            self._fold, self._failures = None, 0

    # ------------------------------------------------------------ folding

    def _begin(self) -> Fold | None:
        """Continues from the stored position. Without one, writes the first."""
        position = self._store.usage.position()
        if position is None:
            base = beginning.first(self._store)
            if base is None:
                return None
            self._since = base.at
            self._save(Fold(base))
            position = Position(base, base.at, VERSION)
        self._since, self._saved_revision = position.since, position.folded.revision
        self._fold = Fold(position.folded)
        return self._fold

    def _apply(self, fold: Fold, events: Sequence[Event]) -> None:
        self._hours += fold.apply(events, beginning.submitters(self._store, events))

    def _save(self, fold: Fold) -> None:
        begin = fold.at // MICROSECONDS // DAY_S * DAY_S
        self._store.usage.save(
            Position(fold.folded(), self._since, VERSION),
            self._hours,
            keep_hours=begin - KEEP_HOURS_S,
            keep_days=begin - KEEP_DAYS_S,
        )
        self._written.update(_without_users(self._hours))
        self._hours = []
        self._saved_at, self._saved_revision = time.monotonic(), fold.revision


def _without_users(hours: Sequence[Hour]) -> Counter[Key]:
    found: Counter[Key] = Counter()
    for _, sums, count in alike(hours):
        for key, amount in sums.items():
            found[(WORK, *key[1:3], key[-1]) if key[0] == WORK else key] += count * amount
    return found
