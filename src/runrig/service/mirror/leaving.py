"""Whether a client is still connected: its disconnect ends the work for it."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from runrig.service.mirror.mirror import Asked


class Leaving:
    """In another process there is no disconnect: the process is killed. Thread-safe."""

    def __init__(self) -> None:
        self.left = False
        self._then: Callable[[], None] | None = None

    def __reduce__(self) -> tuple[type["Leaving"], tuple[()]]:
        return Leaving, ()

    def then(self, do: Callable[[], None]) -> None:
        """Calls *do* when the client disconnects, instead of earlier callbacks; immediately if it already has."""
        self._then = do
        if self.left:
            do()

    def sent(self, asked: Asked[Any]) -> None:
        def hang_up() -> None:
            with suppress(OSError):  # The answer has arrived, so the connection is closed.
                asked.hang_up()

        self.then(hang_up)

    def leave(self) -> None:
        self.left = True
        if self._then is not None:
            self._then()
