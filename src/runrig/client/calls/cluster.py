"""Nodes and cluster events."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from runrig.client import models
from runrig.client.caller import FIRST_PAUSE_S, Request
from runrig.client.failure import NoAnswer
from runrig.client.paths import path
from runrig.client.ways import Awaiting, Blocking, Calls, call, stream

SILENCE_S = 60.0
"""Seconds without data before a stream counts as broken; the server sends something every 15 s."""


class NodeCalls(Calls):
    @stream
    async def list(
        self, *, pool: Sequence[str] = (), flavor: Sequence[str] = ()
    ) -> AsyncGenerator["models.Node", None]:
        """Yields nodes by name, with their resources and usage. *pool*: only nodes that these pools can use."""
        async for node in self._all(models.Node, path("nodes"), {"pool": pool, "flavor": flavor}):
            yield node

    @call
    async def get(self, name: str) -> "models.Node":
        """Returns the node *name*."""
        return await self._get(models.Node, path("nodes", name))

    @call
    async def cordon(self, nodes: Sequence[str]) -> "models.NodesMarked":
        """Cordons *nodes*: no new pods; running pods stay. Raises NotFound."""
        return await self._mark(path("nodes") + ":cordon", nodes)

    @call
    async def uncordon(self, nodes: Sequence[str]) -> "models.NodesMarked":
        """Uncordons *nodes* that runrig cordoned. Raises NotFound."""
        return await self._mark(path("nodes") + ":uncordon", nodes)

    @call
    async def drain(self, nodes: Sequence[str], *, force: bool = False) -> "models.NodesDrained":
        """Cordons *nodes* and requeues the LOW workflows there. *force*: also HIGH and NORMAL workflows. Raises NotFound."""
        body = {"nodes": list(nodes), "force": force}
        return await self._ask(models.NodesDrained, Request("POST", path("nodes") + ":drain", body=body))

    async def _mark(self, address: str, nodes: Sequence[str]) -> "models.NodesMarked":
        return await self._ask(models.NodesMarked, Request("POST", address, body={"nodes": list(nodes)}))

    @stream
    async def flavors(self) -> AsyncGenerator["models.Flavor", None]:
        """Yields flavors, in the order of the cluster file."""
        async for flavor in self._all(models.Flavor, path("flavors")):
            yield flavor

    @call
    async def topology(self, *, pool: str | None = None, size: int | None = None) -> "models.TopologyAnswer":
        """Returns zones, spines and racks: what is free, who uses the rest, and how many gangs of *size* fit."""
        return await self._get(models.TopologyAnswer, path("topology"), {"pool": pool, "size": size})


@dataclass(frozen=True, slots=True)
class Commit:
    """The visible events of one or more revisions, in order. *revision*: the last one, from which a stream can
    continue.

    *reset*: too much was missed, or the log was replaced; reload everything, then continue.
    """

    revision: int
    events: Sequence["models.ClusterEvent"]
    reset: bool = False


class EventCalls(Calls):
    @stream
    async def list(self, *, after: int | None = None) -> AsyncGenerator["models.ClusterEvent", None]:
        """Yields past cluster events that you may see, in order. *after*: a revision."""
        async for event in self._all(models.ClusterEvent, path("events"), {"after": after}):
            yield event

    @stream
    async def stream(self, *, after: int | None = None) -> AsyncGenerator[Commit, None]:
        """Yields cluster events as they happen, after revision *after*; None: from now on.

        Reconnects without losing or repeating events. Raises NoAnswer if the server stays unreachable for longer than
        the client's patience, NotLoggedIn when the token has expired.
        """
        if after is None:
            after = (await self._get(models.ClusterEventPage, path("events"), {"limit": 1})).revision
        while True:
            request = Request(
                "GET", path("events", "stream"), timeout_s=SILENCE_S, headers={"Last-Event-ID": str(after)}
            )
            begun = False
            try:
                async with aclosing(self._messages(request)) as messages:
                    async for message in messages:
                        begun = True
                        if message is not None:
                            after = message.revision
                            yield message
            except NoAnswer:
                if not begun:  # Unreachable for as long as a call waits.
                    raise
            await self._caller.network.sleep(FIRST_PAUSE_S)

    async def _messages(self, request: Request) -> AsyncGenerator[Commit | None, None]:
        """Yields server-sent events with one line of data each; None for a comment, the server's sign of life."""
        message: dict[str, str] = {}
        async with aclosing(self._caller.lines(request)) as lines:
            async for line in lines:
                name, _, value = line.partition(": ")
                if line:
                    message[name] = value
                else:
                    yield self._commit(message) if "data" in message else None
                    message = {}

    def _commit(self, message: Mapping[str, str]) -> Commit:
        revision, data = int(message["id"]), json.loads(message["data"])
        if message["event"] == "reset":
            return Commit(revision, (), reset=True)
        return Commit(revision, [self._read(models.ClusterEvent, each) for each in data])


class Nodes(NodeCalls, Blocking):
    """`client.nodes`."""


class AsyncNodes(NodeCalls, Awaiting):
    """`client.nodes` of an `AsyncClient`."""


class Events(EventCalls, Blocking):
    """`client.events`."""


class AsyncEvents(EventCalls, Awaiting):
    """`client.events` of an `AsyncClient`."""
