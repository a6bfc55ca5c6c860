"""Nodes and cluster events."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runrig.client import models
from runrig.client.caller import Value
from runrig.client.following import followed
from runrig.client.paths import path
from runrig.client.paths import time as as_time
from runrig.client.ways import Calls, W, call, stream

if TYPE_CHECKING:
    from datetime import datetime


class NodeCalls(Calls[W]):
    @stream
    def list(self, *, pool: Sequence[str] = (), flavor: Sequence[str] = ()) -> AsyncGenerator["models.Node", None]:
        """Yields nodes by name, with their resources and usage. *pool*: only nodes that these pools can use."""
        return self._all(models.Node, path("nodes"), {"pool": pool, "flavor": flavor})

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
        return await self._ask(models.NodesDrained, "POST", path("nodes") + ":drain", body)

    async def _mark(self, address: str, nodes: Sequence[str]) -> "models.NodesMarked":
        return await self._ask(models.NodesMarked, "POST", address, {"nodes": list(nodes)})

    @stream
    def flavors(self) -> AsyncGenerator["models.Flavor", None]:
        """Yields flavors, in the order of the cluster file."""
        return self._all(models.Flavor, path("flavors"))

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


class EventCalls(Calls[W]):
    @stream
    def list(
        self,
        *,
        after: int | None = None,
        since: "datetime | None" = None,
        until: "datetime | None" = None,
        pool: str | None = None,
        kind: Sequence[str] = (),
        user: str | None = None,
        node: str | None = None,
        workflow: str | None = None,
    ) -> AsyncGenerator["models.ClusterEvent", None]:
        """Yields past cluster events that you may see, in order. *after*: a revision.

        *pool*: with its subpools and their workflows. *kind*: such as ``preempted``. *user*: what they did, and what
        happened to their workflows. *node*: with workflows that run or last ran on it. Raises NotFound.
        """
        query: dict[str, Value] = {
            "after": after,
            "since": as_time(since),
            "until": as_time(until),
            **_filter(pool, kind, user, node, workflow),
        }
        return self._all(models.ClusterEvent, path("events"), query)

    @stream
    async def stream(
        self,
        *,
        after: int | None = None,
        pool: str | None = None,
        kind: Sequence[str] = (),
        user: str | None = None,
        node: str | None = None,
        workflow: str | None = None,
    ) -> AsyncGenerator[Commit, None]:
        """Yields cluster events as they happen, after revision *after*; None: from now on. Filters as of `list`.

        Reconnects without losing or repeating events. Raises NoAnswer if the server stays unreachable for longer than
        the client's patience, NotLoggedIn when the token has expired.
        """
        if after is None:
            after = (await self._get(models.ClusterEventPage, path("events"), {"limit": 1})).revision
        query = _filter(pool, kind, user, node, workflow)
        told = followed(self._caller, path("events", "stream"), query, after, self._caller.patience_s)
        async with aclosing(told):
            async for each in told:
                events = [self._read(models.ClusterEvent, event) for event in each.events]
                yield Commit(each.revision, events, each.reset)


def _filter(
    pool: str | None, kind: Sequence[str], user: str | None, node: str | None, workflow: str | None
) -> dict[str, Value]:
    return {"pool": pool, "kind": kind, "user": user, "node": node, "workflow": workflow}
