"""Leadership: one of several servers leads, the others stand by.

A process is STANDBY until it owns the database. It leads while its last heartbeat is recent, no write has found another
epoch, and it has not been asked to stop. Each request checks all three, by a clock that includes sleep: a process that
wakes after a minute does not answer from old data.

Each term gets a new service, which is discarded after it, so nothing from an earlier term is trusted.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from runrig.domain.errors import RunrigError, Unavailable
from runrig.ports.election import Election, Term

POLL_S = 0.5
"""Seconds between a standby's checks of the owner."""
BEAT_S = 2.0
SILENT_S = 6.0
"""Seconds without a heartbeat after which a leader stops itself, and a standby takes over."""
FIRST_BACK_OFF_S = 0.5
LONGEST_BACK_OFF_S = 8.0
_LOOK_S = 0.1

STARTING = "it is starting"
STANDING_BY = "it is a standby, because another server is the leader"
UNREACHABLE = "its database or cluster is unreachable; see its log"
FAULT = "it cannot become the leader; see its log"
ENDING = "it is shutting down"

_log = logging.getLogger(__name__)


class LeaderTerm(Protocol):
    """The parts of a leader."""

    def close(self) -> None:
        """Stops deciding and releases the store."""


AnyTerm = TypeVar("AnyTerm", bound=Term)
AnyLeaderTerm = TypeVar("AnyLeaderTerm", bound=LeaderTerm)


class Heart:
    """The heartbeat of one term, in its own thread."""

    def __init__(self, term: Term) -> None:
        self._term = term
        self._stopped = threading.Event()
        self._confirmed = time.monotonic()
        self._replaced = False
        threading.Thread(target=self._run, name="heartbeat", daemon=True).start()

    @property
    def alive(self) -> bool:
        """Whether this process leads, as far as it can know."""
        return time.monotonic() - self._confirmed <= SILENT_S and not self.replaced

    @property
    def replaced(self) -> bool:
        """Whether another server is known to lead."""
        return self._replaced or self._term.overtaken

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        wait_s = 0.0
        while not self._stopped.wait(wait_s) and not self._replaced:
            # Counted from the time of sending, because others may already have seen the heartbeat.
            sent = time.monotonic()
            try:
                self._replaced = not self._term.beat()
                self._confirmed = sent
                wait_s = BEAT_S
            except RunrigError as error:
                _log.warning("event=heartbeat_failed error=%r", error.message)
                wait_s = POLL_S


class Leadership(Generic[AnyTerm, AnyLeaderTerm]):
    """*begin* creates the parts of a leader; its argument reports whether this process still leads. It can take long:
    heartbeats continue in the meantime.
    """

    def __init__(
        self, election: Election[AnyTerm], begin: Callable[[AnyTerm, Callable[[], bool]], AnyLeaderTerm]
    ) -> None:
        self._election = election
        self._begin = begin
        self._leader_term: AnyLeaderTerm | None = None
        self._heart: Heart | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leadership", daemon=True)
        self._has_led = False
        self.standing = STARTING
        """Short public reason why it does not lead."""
        self.when_led: Callable[[AnyLeaderTerm], None] = lambda _: None
        self.when_failed: Callable[[], None] = lambda: None
        self.failure: RunrigError | None = None
        """Why this process can never lead; set only if it never did."""

    @property
    def leader_term(self) -> AnyLeaderTerm | None:
        """Returns the term that answers requests; None while this process stands by or stops."""
        leader_term, heart = self._leader_term, self._heart
        if leader_term is None or heart is None or not heart.alive or self._stopped.is_set():
            return None
        return leader_term

    # ------------------------------------------------------------ the thread

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stops deciding and answering, and hands over. Returns immediately; safe in a signal handler."""
        self.standing = ENDING
        self._stopped.set()

    def join(self, timeout_s: float) -> None:
        """Waits until the database is free for the next leader."""
        self._thread.join(timeout_s)
        self._election.close()

    def _run(self) -> None:
        back_off_s = FIRST_BACK_OFF_S
        while not self._stopped.is_set():
            try:
                term = self._won()
                if term is not None:
                    self._lead(term)
                    back_off_s = FIRST_BACK_OFF_S
                self._stopped.wait(POLL_S)
            except Exception as error:  # noqa: BLE001 - a standby must survive all errors of what it checks
                self._failed(error, back_off_s)
                self._stopped.wait(back_off_s)
                back_off_s = min(2 * back_off_s, LONGEST_BACK_OFF_S)

    def _won(self) -> AnyTerm | None:
        """Returns the term that begins now; None while another server leads."""
        holder = self._election.holder()
        if holder is not None and holder.silent_s is not None and holder.silent_s > SILENT_S:
            _log.warning("event=leader_silent who=%r silent_s=%.1f", holder.who, holder.silent_s)
            self._election.end(holder)
        elif holder is not None:
            self._stands_by(holder.who)
            return None
        try:
            return self._election.take()
        except Unavailable:
            faster = self._election.holder()
            if faster is None:
                raise
            self._stands_by(faster.who)
            return None

    def _stands_by(self, why: str) -> None:
        if self.standing not in (STANDING_BY, ENDING):
            _log.info("event=standing_by leader=%r", why)
            self.standing = STANDING_BY

    def _lead(self, term: AnyTerm) -> None:
        """Leads until the term is over, then closes it in any case."""
        heart = Heart(term)
        try:
            leader_term = self._begin(term, lambda: heart.alive)
            try:
                self._leader_term, self._heart, self._has_led = leader_term, heart, True
                _log.info("event=leading")
                self.when_led(leader_term)
                while heart.alive and not self._stopped.wait(_LOOK_S):
                    pass
                level = logging.INFO if self._stopped.is_set() else logging.WARNING
                _log.log(level, "event=leading_ended stopping=%s replaced=%s", self._stopped.is_set(), heart.replaced)
            finally:
                self._leader_term = None
                self._say(STANDING_BY if heart.replaced else UNREACHABLE)
                leader_term.close()
        finally:
            heart.stop()
            term.close()

    def _failed(self, error: Exception, back_off_s: float) -> None:
        away = isinstance(error, Unavailable)
        self._say(UNREACHABLE if away else FAULT)
        if not away and not self._has_led and isinstance(error, RunrigError):
            _log.error("event=cannot_lead error=%r", error.message)
            self.failure = error
            self._stopped.set()
            self.when_failed()
            return
        _log.error(
            "event=leading_failed retry_in_s=%s error=%r",
            back_off_s,
            str(error),
            exc_info=None if isinstance(error, RunrigError) else error,
        )

    def _say(self, standing: str) -> None:
        if not self._stopped.is_set():
            self.standing = standing
