"""Answers questions about the state: by the mirror, or without one by the server itself."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from runrig.domain.errors import Unavailable
from runrig.domain.steps import Steps, drained
from runrig.engine.state.state import State
from runrig.service.mirror.answering import Call, Question, in_branches
from runrig.service.mirror.mirror import ANSWER_S, Absent, Asked, GivenUp, Mirror
from runrig.service.runtime.metrics import Metrics
from runrig.service.runtime.transactor import Transactor

T = TypeVar("T")
Sent = Callable[[Asked[Any]], None]
"""Called with a question once it was sent, so that another thread can hang up."""


SMALL = 2_000
"""Maximum nodes and gangs of a state that the server copies for a question without a mirror: about 0.2 s."""

MOST_FRESH_STARTS = 5
"""How often a question answered in steps restarts because of a commit."""

HOLD_S = 0.001
"""Seconds for which the lock is held to run steps of a question, plus the step in progress."""


class NoBranches(Unavailable):
    """The question needs its own state, which only a mirror has."""


class Asker:
    """*mirror* None: the server always answers itself.

    A question is a pure function of the state, identified by module and name. An answer comes with the revision of its
    state, which includes everything stored before the question.
    """

    def __init__(self, transactor: Transactor, mirror: Mirror | None, metrics: Metrics) -> None:
        self._transactor = transactor
        self._mirror = mirror
        self._metrics = metrics

    def ask_steps(
        self,
        ask: Callable[..., Steps[T]],
        *args: Any,
        here: Callable[..., Steps[T]] | None = None,
        fresh_starts: int = MOST_FRESH_STARTS,
    ) -> tuple[T, int]:
        """Returns the result of *ask*, which does not change the state. *here*: used by the server instead, under its lock, which
        others get between steps.

        After *fresh_starts* restarts because of commits, it answers without a break.
        """
        found = None
        with suppress(GivenUp):  # Its answer takes too long.
            found = self._of_mirror(Question(_in_one, (ask, *args), self._transactor.stored), ANSWER_S)
        if found is None:
            found = self._here_in_steps(here or ask, *args, fresh_starts=fresh_starts)
        if found is not None:
            return found
        with self._transactor.reading() as state:
            return drained((here or ask)(state, *args)), state.revision

    def ask_branches(self, *calls: Call[T], within_s: float, sent: Sent = lambda _: None) -> tuple[list[T], int]:
        """Returns the result of each of *calls*, which may change its own state.

        Raises GivenUp if the mirror takes longer than *within_s*, or the asker hung up. Raises NoBranches if there is
        no mirror and the state is too large to copy.
        """
        found = self._of_mirror(Question(in_branches, (calls,), self._transactor.stored, branch=True), within_s, sent)
        if found is not None:
            return found
        with self._transactor.reading() as state:
            size = len(state.nodes) + len(state.ledger.entries)
        if size > SMALL:
            raise self._no_branches(size)
        copy, revision = self._transactor.copies()
        return [ask(copy(), *args) for ask, args in calls], revision

    def _no_branches(self, size: int) -> NoBranches:
        large = (
            f"the cluster has {size:,} nodes and groups, more than the {SMALL:,} that the server can simulate itself"
        )
        if self._mirror is None:
            return NoBranches(f"this needs the mirror process: {large}. Start the server without --no-mirror")
        return NoBranches(
            f"the mirror process is still loading: {large}. Try again in a few seconds", {"retry_after_s": 5}
        )

    def ask_in_steps(self, ask: Callable[..., Steps[T]], *args: Any) -> tuple[T, int]:
        """Returns the result of *ask* in the server's state, which each step leaves unchanged. Others get the lock
        between steps.

        Restarts after a commit. Raises Unavailable after MOST_FRESH_STARTS.
        """
        found = self._here_in_steps(ask, *args)
        if found is None:
            raise Unavailable("the cluster changed while this was computed. Try again", {"retry_after_s": 2})
        return found

    def _here_in_steps(
        self, ask: Callable[..., Steps[T]], *args: Any, fresh_starts: int = MOST_FRESH_STARTS
    ) -> tuple[T, int] | None:
        """Returns None after *fresh_starts* attempts that were interrupted by a commit."""
        for _ in range(fresh_starts):
            with self._transactor.reading() as state:
                revision, steps = state.revision, ask(state, *args)
            while True:
                with self._transactor.reading() as now:
                    if now is not state or now.revision != revision:
                        break
                    until = time.perf_counter() + HOLD_S
                    try:
                        next(steps)
                        while time.perf_counter() < until:
                            next(steps)
                    except StopIteration as ended:
                        return ended.value, revision
        return None

    def _of_mirror(self, question: Question[T], within_s: float, sent: Sent = lambda _: None) -> tuple[T, int] | None:
        """Returns the mirror's answer; None without a mirror. Raises GivenUp."""
        if self._mirror is not None:
            try:
                with self._mirror.asking(question) as asked:
                    sent(asked)
                    found = asked.answer(within_s)
            except Absent:
                pass
            else:
                self._metrics.answers.labels("mirror").inc()
                return found
        self._metrics.answers.labels("server").inc()
        return None

    def close(self) -> None:
        if self._mirror is not None:
            self._mirror.close()


def _in_one(state: State, ask: Callable[..., Steps[T]], *args: Any) -> T:
    return drained(ask(state, *args))
