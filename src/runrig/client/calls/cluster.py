"""Nodes, and what happens in the cluster."""

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
"""The server says something every 15 s."""


class NodeCalls(Calls):
    @stream
    async def list(
        self, *, pool: Sequence[str] = (), flavor: Sequence[str] = ()
    ) -> AsyncGenerator["models.Node", None]:
        """Yields nodes by name, with what they have and who holds it.  *pool*: only those that these pools may use."""
        async for node in self._all(models.Node, path("nodes"), {"pool": pool, "flavor": flavor}):
            yield node

    @call
    async def get(self, name: str) -> "models.Node":
        """The node *name*."""
        return await self._get(models.Node, path("nodes", name))

    @call
    async def cordon(self, nodes: Sequence[str]) -> "models.NodesMarked":
        """Closes *nodes*: they take no new pods, and keep those that they have.  Raises NotFound."""
        return await self._mark(path("nodes") + ":cordon", nodes)

    @call
    async def uncordon(self, nodes: Sequence[str]) -> "models.NodesMarked":
        """Opens *nodes* that were cordoned here.  Raises NotFound."""
        return await self._mark(path("nodes") + ":uncordon", nodes)

    @call
    async def drain(self, nodes: Sequence[str], *, force: bool = False) -> "models.NodesDrained":
        """Cordons *nodes* and stops the LOW work there, which is queued again.  *force*: HIGH and NORMAL work too.  Raises NotFound."""
        body = {"nodes": list(nodes), "force": force}
        return await self._ask(models.NodesDrained, Request("POST", path("nodes") + ":drain", body=body))

    async def _mark(self, address: str, nodes: Sequence[str]) -> "models.NodesMarked":
        return await self._ask(models.NodesMarked, Request("POST", address, body={"nodes": list(nodes)}))

    @stream
    async def flavors(self) -> AsyncGenerator["models.Flavor", None]:
        """Yields kinds of nodes, in the order of the cluster file."""
        async for flavor in self._all(models.Flavor, path("flavors")):
            yield flavor

    @call
    async def topology(self, *, pool: str | None = None, size: int | None = None) -> "models.TopologyAnswer":
        """Zones, spines and racks: what is free there, who holds the rest, how many gangs of *size* GPUs fit."""
        return await self._get(models.TopologyAnswer, path("topology"), {"pool": pool, "size": size})


@dataclass(frozen=True, slots=True)
class Commit:
    """What you see of one or more revisions, in order; *revision*: the last of them, with which a stream can go on.

    *reset*: too much was missed, or the log is another one: read everything anew, then go on.
    """

    revision: int
    events: Sequence["models.ClusterEvent"]
    reset: bool = False


class EventCalls(Calls):
    @stream
    async def list(self, *, after: int | None = None) -> AsyncGenerator["models.ClusterEvent", None]:
        """Yields what happened in the cluster, in order, as far as you see it.  *after*: a revision."""
        async for event in self._all(models.ClusterEvent, path("events"), {"after": after}):
            yield event

    @stream
    async def stream(self, *, after: int | None = None) -> AsyncGenerator[Commit, None]:
        """Yields what happens in the cluster, as it happens; *after* a revision, else from now on.

        Goes on when the connection breaks: nothing comes twice and nothing is left out.  Raises NoAnswer if no server is there
        for as long as the client is patient, NotLoggedIn when the token has ended.
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
                if not begun:  # and nobody came for as long as a call waits
                    raise
            await self._caller.network.sleep(FIRST_PAUSE_S)

    async def _messages(self, request: Request) -> AsyncGenerator[Commit | None, None]:
        """Yields server-sent events, each with data on one line; None for a comment, which says that the server is there."""
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
