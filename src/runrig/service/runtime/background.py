"""Threads that repeat a step while the server runs, such as retention. Nothing depends on when they run."""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from runrig.service.runtime import logs
from runrig.service.runtime.transactor import Listener

_log = logging.getLogger(__name__)


class Background:
    """Repeats *step* in a thread of its own. A step that raises is logged as `NAME_failed` and repeated like any other.

    *pause_s*: seconds until the next step, from the seconds that a step took and whether it has more to do.
    *idle_s*: after the pause also waits for `wake` or a commit, for at most this many seconds. *listening*: reports commits.
    *delay_s*: before the first step.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[], bool | None],
        pause_s: Callable[[float, bool], float],
        *,
        idle_s: float = 0.0,
        listening: Callable[[Listener], AbstractContextManager[None]] | None = None,
        delay_s: float = 0.0,
    ) -> None:
        self._name = name
        self._step = step
        self._pause_s = pause_s
        self._idle_s = idle_s
        self._listening = listening
        self._delay_s = delay_s
        self._woken = threading.Event()
        self.stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        self._woken.set()

    def stop(self) -> None:
        """Returns when the current step has ended. Does nothing before `start`."""
        self.stopped.set()
        self._woken.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        with nullcontext() if self._listening is None else self._listening(lambda _: self.wake()):
            self.stopped.wait(self._delay_s)
            while not self.stopped.is_set():
                self._woken.clear()  # Cleared first: the step may miss what happens during it.
                began, more = time.monotonic(), False
                try:
                    more = bool(self._step())
                except Exception as error:  # noqa: BLE001 - the thread must survive all errors
                    logs.failure(_log, f"{self._name}_failed", error)
                if not self.stopped.wait(self._pause_s(time.monotonic() - began, more)):
                    self._woken.wait(self._idle_s)
