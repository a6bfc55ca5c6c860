"""Whether the one who asks is still there: whoever leaves ends the work, and the wait for it."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from runrig.service.mirror.mirror import Asked


class Leaving:
    """In another process nobody leaves: it is ended.  Thread-safe."""

    def __init__(self) -> None:
        self.left = False
        self._then: Callable[[], None] | None = None

    def __reduce__(self) -> tuple[type["Leaving"], tuple[()]]:
        return Leaving, ()

    def then(self, do: Callable[[], None]) -> None:
        """*do*, and nothing else that was said before, is called when the one who asks leaves; at once if that was so already."""
        self._then = do
        if self.left:
            do()

    def sent(self, asked: Asked[Any]) -> None:
        def hang_up() -> None:
            with suppress(OSError):  # it has been answered
                asked.hang_up()

        self.then(hang_up)

    def leave(self) -> None:
        self.left = True
        if self._then is not None:
            self._then()
