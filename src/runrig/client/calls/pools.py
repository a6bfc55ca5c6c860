"""Pools and cohorts."""

from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from uuid import uuid4

from runrig.client import models
from runrig.client.caller import Request
from runrig.client.paths import path
from runrig.client.paths import time as as_time
from runrig.client.ways import Awaiting, Blocking, Calls, call, matching, said, stream


class PoolCalls(Calls):
    @stream
    async def list(self, *, name: Sequence[str] = (), archived: bool = False) -> AsyncGenerator["models.Pool", None]:
        """Yields pools by name, subpools behind their parents.  *name*: only these and their subpools."""
        async for pool in self._all(models.Pool, path("pools"), {"name": name, "archived": archived or None}):
            yield pool

    @call
    async def get(self, name: str) -> "models.Pool":
        """The pool *name*, a subpool too (``team--a``).  Its `etag` makes an edit depend on what was read."""
        return await self._get(models.Pool, path("pools", name))

    @call
    async def create(self, pool: "models.PoolCreate", *, dry_run: bool = False) -> "models.Pool":
        """The pool that was made; with a *parent*, a subpool.  *dry_run*: what it would be."""
        request = Request("POST", path("pools"), _dry(dry_run), said(pool), key=str(uuid4()))
        return await self._ask(models.Pool, request)

    @call
    async def update(
        self, name: str, edit: "models.PoolEdit", *, if_match: str | None = None, dry_run: bool = False
    ) -> "models.Pool":
        """The pool *name* after *edit*: what is not set there stays.

        *if_match*: an `etag`.  Raises Changed if the pool was edited since.
        """
        request = Request("PATCH", path("pools", name), _dry(dry_run), said(edit), headers=matching(if_match))
        return await self._ask(models.Pool, request)

    @call
    async def close(self, name: str, *, reason: str = "", if_match: str | None = None) -> "models.Pool":
        """Closes the pool *name* and its subpools to submissions; what waits there still starts."""
        body = {"reason": reason}
        request = Request("POST", path("pools", name, "close"), body=body, headers=matching(if_match))
        return await self._ask(models.Pool, request)

    @call
    async def open(self, name: str, *, if_match: str | None = None) -> "models.Pool":
        """Opens the pool *name* again."""
        return await self._ask(models.Pool, Request("POST", path("pools", name, "open"), headers=matching(if_match)))

    @call
    async def delete(self, name: str, *, if_match: str | None = None, dry_run: bool = False) -> "models.PoolDeleted":
        """Deletes the pool *name*.  Returns what becomes of it, and the workflows that were cancelled because they had not started."""
        request = Request("DELETE", path("pools", name), _dry(dry_run), headers=matching(if_match))
        return await self._ask(models.PoolDeleted, request)

    @stream
    async def history(
        self,
        name: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        by: str | None = None,
        pool: str | None = None,
    ) -> AsyncGenerator["models.PoolChange", None]:
        """Yields who changed the pool *name* and its subpools, newest first.  *pool*: only this subpool."""
        query = {"since": as_time(since), "until": as_time(until), "by": by, "pool": pool}
        async for change in self._all(models.PoolChange, path("pools", name, "history"), query):
            yield change

    @call
    async def why(self, name: str) -> "models.PoolWhy":
        """Why everything waits that waits in the pool *name*, by what it waits for; subpools are asked for by their own names."""
        return await self._get(models.PoolWhy, path("pools", name, "why"))

    @call
    async def past(self, name: str, at: datetime) -> "models.PoolPast":
        """The pool *name* and its subpools as they were declared at a time."""
        return await self._get(models.PoolPast, path("pools", name, "past"), {"at": as_time(at)})


class CohortCalls(Calls):
    @stream
    async def list(self) -> AsyncGenerator["models.Cohort", None]:
        """Yields cohorts by name."""
        async for cohort in self._all(models.Cohort, path("cohorts")):
            yield cohort

    @call
    async def tree(self) -> "models.QuotaTree":
        """The whole quota tree at one moment: cohorts, pools, and the root above them."""
        return await self._get(models.QuotaTree, path("quota-tree"))

    @call
    async def get(self, name: str) -> "models.Cohort":
        """The cohort *name*.  Its `etag` makes an edit depend on what was read; None if it is only named by others."""
        return await self._get(models.Cohort, path("cohorts", name))

    @call
    async def create(self, cohort: "models.CohortCreate") -> "models.Cohort":
        """Returns the new cohort."""
        return await self._ask(models.Cohort, Request("POST", path("cohorts"), body=said(cohort), key=str(uuid4())))

    @call
    async def update(self, name: str, edit: "models.CohortEdit", *, if_match: str | None = None) -> "models.Cohort":
        """The cohort *name* after *edit*: what is not set there stays.  *if_match*: as with pools."""
        request = Request("PATCH", path("cohorts", name), body=said(edit), headers=matching(if_match))
        return await self._ask(models.Cohort, request)

    @call
    async def delete(self, name: str, *, leave_children: bool = False, if_match: str | None = None) -> None:
        """Deletes the cohort *name*.  *leave_children*: also one with children, which stay under its name."""
        query = {"leave_children": leave_children or None}
        await self._caller.answer(Request("DELETE", path("cohorts", name), query, headers=matching(if_match)))


class Pools(PoolCalls, Blocking):
    """`client.pools`."""


class AsyncPools(PoolCalls, Awaiting):
    """`client.pools` of an `AsyncClient`."""


class Cohorts(CohortCalls, Blocking):
    """`client.cohorts`."""


class AsyncCohorts(CohortCalls, Awaiting):
    """`client.cohorts` of an `AsyncClient`."""


def _dry(dry_run: bool) -> dict[str, bool | None]:
    return {"dry_run": dry_run or None}
