"""Who answers a question about the state: the mirror, or while there is none the server itself."""

from collections.abc import Callable
from typing import Any, TypeVar

from runrig.service.mirror.answering import Call, Question, in_branches
from runrig.service.mirror.mirror import ANSWER_S, Absent, Asked, GivenUp, Mirror
from runrig.service.runtime.metrics import Metrics
from runrig.service.runtime.transactor import Transactor

T = TypeVar("T")
Sent = Callable[[Asked[Any]], None]
"""Is told a question when it is on its way, so that somebody else can hang up."""


def _nobody(_: Asked[Any]) -> None:
    """Nobody hangs up."""


class Asker:
    """*mirror* None: the server always answers itself.

    What is asked is a pure function of the state, named in a module.  An answer comes with the revision of the state that it is
    about; that knows all that was stored before.
    """

    def __init__(self, transactor: Transactor, mirror: Mirror | None, metrics: Metrics) -> None:
        self._transactor = transactor
        self._mirror = mirror
        self._metrics = metrics

    def ask(self, ask: Callable[..., T], *args: Any) -> tuple[T, int]:
        """What *ask*, which leaves the state as it is, finds there."""
        try:
            found = self._of_mirror(Question(ask, args, self._transactor.stored), ANSWER_S)
        except GivenUp:
            found = None
        if found is not None:
            return found
        with self._transactor.reading() as state:
            return ask(state, *args), state.revision

    def ask_branches(self, *calls: Call[T], within_s: float, sent: Sent = _nobody) -> tuple[list[T], int]:
        """What each of *calls* finds, which changes the state as it likes: it has one of its own.

        Raises GivenUp where the mirror takes longer than *within_s*, or where it was told to stop.
        """
        found = self._of_mirror(Question(in_branches, (calls,), self._transactor.stored, branch=True), within_s, sent)
        if found is not None:
            return found
        copy, revision = self._transactor.copies()
        return [ask(copy(), *args) for ask, args in calls], revision

    def _of_mirror(self, question: Question[T], within_s: float, sent: Sent = _nobody) -> tuple[T, int] | None:
        """The mirror's answer; None: there is no mirror, and the server answers.  Raises GivenUp."""
        if self._mirror is not None:
            try:
                with self._mirror.asking(question) as asked:
                    sent(asked)
                    found = asked.answer(within_s)
            except Absent:
                pass
            else:
                self._metrics.explained("mirror")
                return found
        self._metrics.explained("server")
        return None

    def close(self) -> None:
        if self._mirror is not None:
            self._mirror.close()
