"""Metrics of sessions in tasks. Labels are fixed kinds, directions and reasons, never users, workflows or ports."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge

TOO_MANY, NO_KEY, NOT_REACHED = "too_many", "no_key", "not_reached"
"""Why a session was refused: too many sessions, unknown key, or no connection to the program or port in the task."""


class Carried(NamedTuple):
    """Counts bytes sent *to_task* and received *from_task*."""

    to_task: Callable[[float], None]
    from_task: Callable[[float], None]


class SessionMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._open = Gauge("runrig_sessions", "Open sessions in tasks.", ["kind"], registry=registry)
        self._opened = Counter(
            "runrig_sessions_opened", "Sessions in tasks that were opened.", ["kind"], registry=registry
        )
        self._bytes = Counter(
            "runrig_session_bytes", "Bytes sent to and from tasks.", ["kind", "direction"], registry=registry
        )
        self._refused = Counter(
            "runrig_sessions_refused",
            "Refused sessions, and refused connections of sessions.",
            ["why"],
            registry=registry,
        )

    @contextmanager
    def session(self, kind: str) -> Iterator[None]:
        """Counts a session as open."""
        self._opened.labels(kind).inc()
        with self._open.labels(kind).track_inprogress():
            yield

    def carried(self, kind: str) -> Carried:
        return Carried(self._bytes.labels(kind, "to_task").inc, self._bytes.labels(kind, "from_task").inc)

    def refused(self, why: str) -> None:
        self._refused.labels(why).inc()
