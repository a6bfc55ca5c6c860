"""Threads that repeat a step while the server runs, such as retention. Nothing depends on when they run."""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from runrig.service.runtime import logs
from runrig.service.runtime.transactor import Listener

_log = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class Background:
    """Repeats *step* in a thread of its own. A step that raises is logged as `NAME_failed` and repeated like any other.

    *pause_s*: seconds until the next step, from the seconds that a step took and whether it has more to do.
    *idle_s*: after the pause also waits for `wake` or a commit, for at most this many seconds. *listening*: reports commits.
    *delay_s*: before the first step.
    """

    name: str
    step: Callable[[], bool | None]
    pause_s: Callable[[float, bool], float]
    idle_s: float = 0.0
    listening: Callable[[Listener], AbstractContextManager[None]] | None = None
    delay_s: float = 0.0
    stopped: threading.Event = field(default_factory=threading.Event)
    _woken: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

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
        with nullcontext() if self.listening is None else self.listening(lambda _: self.wake()):
            self.stopped.wait(self.delay_s)
            while not self.stopped.is_set():
                self._woken.clear()  # Cleared first: the step may miss what happens during it.
                began, more = time.monotonic(), False
                try:
                    more = bool(self.step())
                except Exception as error:  # noqa: BLE001 - the thread must survive all errors
                    logs.failure(_log, f"{self.name}_failed", error)
                if not self.stopped.wait(self.pause_s(time.monotonic() - began, more)):
                    self._woken.wait(self.idle_s)
