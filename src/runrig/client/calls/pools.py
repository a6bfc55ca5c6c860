"""Pools and cohorts."""

from collections.abc import AsyncGenerator, Sequence
from datetime import datetime

from runrig.client import models
from runrig.client.paths import path
from runrig.client.paths import time as as_time
from runrig.client.ways import Calls, W, call, said, stream


class PoolCalls(Calls[W]):
    @stream
    def list(self, *, name: Sequence[str] = (), archived: bool = False) -> AsyncGenerator["models.Pool", None]:
        """Yields pools by name, parents before their subpools. *name*: only these pools and their subpools."""
        return self._all(models.Pool, path("pools"), {"name": name, "archived": archived or None})

    @call
    async def get(self, name: str) -> "models.Pool":
        """Returns a pool or subpool (``team--a``). Pass its `etag` to an edit to detect changes."""
        return await self._get(models.Pool, path("pools", name))

    @call
    async def create(self, pool: "models.PoolCreate", *, dry_run: bool = False) -> "models.Pool":
        """Creates a pool, or with *parent* a subpool. *dry_run*: only returns what would be created."""
        return await self._create(models.Pool, path("pools"), said(pool), query=_dry(dry_run))

    @call
    async def update(
        self, name: str, edit: "models.PoolEdit", *, if_match: str | None = None, dry_run: bool = False
    ) -> "models.Pool":
        """Updates the fields set in *edit* and returns the pool.

        *if_match*: an `etag`. Raises Changed if the pool was edited since.
        """
        return await self._ask(
            models.Pool, "PATCH", path("pools", name), said(edit), query=_dry(dry_run), if_match=if_match
        )

    @call
    async def close(self, name: str, *, reason: str = "", if_match: str | None = None) -> "models.Pool":
        """Closes a pool and its subpools to submissions. Queued workflows still start."""
        body = {"reason": reason}
        return await self._ask(models.Pool, "POST", path("pools", name, "close"), body, if_match=if_match)

    @call
    async def open(self, name: str, *, if_match: str | None = None) -> "models.Pool":
        """Reopens a pool for submissions."""
        return await self._ask(models.Pool, "POST", path("pools", name, "open"), if_match=if_match)

    @call
    async def pause(
        self, name: str, *, reason: str = "", until: datetime | str | None = None, if_match: str | None = None
    ) -> "models.PoolPaused":
        """Starts nothing new in a pool and its subpools. Running workflows continue. *until*: when the pause ends by
        itself, or a duration from now such as ``2h``; None: until the pool is resumed."""
        body = {"reason": reason, "until": as_time(until) if isinstance(until, datetime) else until}
        return await self._ask(models.PoolPaused, "POST", path("pools", name, "pause"), body, if_match=if_match)

    @call
    async def resume(self, name: str, *, if_match: str | None = None) -> "models.Pool":
        """Resumes a paused pool; its workflows keep their queue positions."""
        return await self._ask(models.Pool, "POST", path("pools", name, "resume"), if_match=if_match)

    @call
    async def delete(self, name: str, *, if_match: str | None = None, dry_run: bool = False) -> "models.PoolDeleted":
        """Deletes a pool. Returns its new state and the pending workflows that were cancelled."""
        return await self._ask(
            models.PoolDeleted, "DELETE", path("pools", name), query=_dry(dry_run), if_match=if_match
        )

    @stream
    def history(
        self,
        name: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        by: str | None = None,
        pool: str | None = None,
    ) -> AsyncGenerator["models.PoolChange", None]:
        """Yields changes of a pool and its subpools, newest first. *pool*: only this subpool."""
        query = {"since": as_time(since), "until": as_time(until), "by": by, "pool": pool}
        return self._all(models.PoolChange, path("pools", name, "history"), query)

    @call
    async def why(self, name: str) -> "models.PoolWhy":
        """Returns why workflows in the pool are waiting, grouped by reason. Subpools have answers of their own."""
        return await self._get(models.PoolWhy, path("pools", name, "why"))

    @call
    async def past(self, name: str, at: datetime) -> "models.PoolPast":
        """Returns a pool and its subpools as they were declared at a time."""
        return await self._get(models.PoolPast, path("pools", name, "past"), {"at": as_time(at)})


class CohortCalls(Calls[W]):
    @stream
    def list(self) -> AsyncGenerator["models.Cohort", None]:
        """Yields cohorts, sorted by name."""
        return self._all(models.Cohort, path("cohorts"))

    @call
    async def tree(self) -> "models.QuotaTree":
        """Returns the whole quota tree at one moment: the root, cohorts and pools."""
        return await self._get(models.QuotaTree, path("quota-tree"))

    @call
    async def get(self, name: str) -> "models.Cohort":
        """Returns a cohort. Pass its `etag` to an edit to detect changes; None if it exists only as the parent of others."""
        return await self._get(models.Cohort, path("cohorts", name))

    @call
    async def create(self, cohort: "models.CohortCreate") -> "models.Cohort":
        """Creates a cohort."""
        return await self._create(models.Cohort, path("cohorts"), said(cohort))

    @call
    async def update(self, name: str, edit: "models.CohortEdit", *, if_match: str | None = None) -> "models.Cohort":
        """Updates the fields set in *edit* and returns the cohort. *if_match*: as for pools."""
        return await self._ask(models.Cohort, "PATCH", path("cohorts", name), said(edit), if_match=if_match)

    @call
    async def delete(self, name: str, *, leave_children: bool = False, if_match: str | None = None) -> None:
        """Deletes a cohort. *leave_children*: even if it has children, which stay under its name."""
        query = {"leave_children": leave_children or None}
        await self._send("DELETE", path("cohorts", name), query=query, if_match=if_match)


class LimitCalls(Calls[W]):
    @stream
    def list(self, *, users: Sequence[str] = (), pools: Sequence[str] = ()) -> AsyncGenerator["models.Limit", None]:
        """Yields limits of users, with what counts towards them. *users*, *pools*: only theirs."""
        return self._all(models.Limit, path("limits"), {"user": users, "pool": pools})

    @call
    async def set_for_user(
        self, user: str, edit: "models.LimitsEdit", *, dry_run: bool = False
    ) -> "models.LimitsChange":
        """Limits *user* over all pools, and returns what changes. *dry_run*: change nothing."""
        return await self._set(path("limits", "users", user), edit, dry_run)

    @call
    async def set_for_pool(
        self, pool: str, edit: "models.LimitsEdit", *, dry_run: bool = False
    ) -> "models.LimitsChange":
        """Limits each user of *pool* and its subpools, and returns what changes. *dry_run*: change nothing."""
        return await self._set(path("limits", "pools", pool), edit, dry_run)

    async def _set(self, where: str, edit: "models.LimitsEdit", dry_run: bool) -> "models.LimitsChange":
        return await self._ask(models.LimitsChange, "PATCH", where, said(edit), query=_dry(dry_run))


def _dry(dry_run: bool) -> dict[str, bool | None]:
    return {"dry_run": dry_run or None}
