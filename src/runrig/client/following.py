"""Follows the events of the cluster over broken connections, without losing or repeating one."""

import json
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, NamedTuple

from runrig.client.caller import FIRST_PAUSE_S, Caller, Query, Request
from runrig.client.failure import NoAnswer
from runrig.domain.errors import Unavailable

SILENCE_S = 60.0
"""Seconds without data before a stream counts as broken; the server sends something every 15 s."""


class Told(NamedTuple):
    """*events*: as JSON, of one or more revisions up to *revision*, from which a stream can continue.

    *reset*: too much was missed, or the log was replaced; *events* is empty.
    """

    revision: int
    events: list[Any]
    reset: bool = False


async def followed(
    caller: Caller, route: str, query: Query, after: int, patience_s: float = 0.0
) -> AsyncGenerator[Told, None]:
    """Yields the events of *query* after revision *after* as they happen, from the stream at *route*.

    Raises NoAnswer or Unavailable if the server is away for longer than *patience_s*, and the server's other errors.
    """
    heard = time.monotonic()
    while True:
        headers = {"Last-Event-ID": str(after)}
        request = Request("GET", route, query, timeout_s=SILENCE_S, headers=headers)
        try:
            async with aclosing(_messages(caller, request)) as messages:
                async for message in messages:
                    heard = time.monotonic()
                    after = int(message.get("id", after))
                    if "data" in message:
                        reset = message["event"] == "reset"
                        yield Told(after, [] if reset else json.loads(message["data"]), reset)
        except (NoAnswer, Unavailable):
            if time.monotonic() - heard > patience_s:
                raise
        await caller.network.sleep(FIRST_PAUSE_S)


async def _messages(caller: Caller, request: Request) -> AsyncGenerator[dict[str, str], None]:
    """Yields server-sent events with one line of data each; without data, the server's sign of life."""
    message: dict[str, str] = {}
    async with aclosing(caller.lines(request)) as lines:
        async for line in lines:
            name, _, value = line.partition(": ")
            if line:
                message[name] = value
            else:
                yield message
                message = {}
