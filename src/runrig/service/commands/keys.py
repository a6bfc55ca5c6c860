"""Requests with the same Idempotency-Key take turns, so that the second one finds the result of the first."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Keys:
    """For one event loop."""

    def __init__(self) -> None:
        self._taken: dict[str, asyncio.Event] = {}

    @asynccontextmanager
    async def turn(self, key: str | None) -> AsyncIterator[None]:
        """Waits until no other request uses *key*. None: there is no key, so it does not wait."""
        if key is None:
            yield
            return
        while (others := self._taken.get(key)) is not None:
            await others.wait()
        mine = self._taken[key] = asyncio.Event()
        try:
            yield
        finally:
            del self._taken[key]
            mine.set()
