"""Tools that change something. Each is called twice: without a key for a dry run, and with the key of its answer."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from runrig.client import models
from runrig.domain.errors import Conflict, InvalidInput, NotFound
from runrig.mcp.access import Access
from runrig.mcp.answers import picked, plain
from runrig.mcp.asking import Id, Key, Priority, Work, file_of
from runrig.mcp.confirming import VALID_S, Keys

PriorityName = Literal["HIGH", "NORMAL", "LOW"]
_SHOWN = ("id", "status", "pool", "priority", "submitted_by", "times", "held_by", "array")
_NOT_STARTED = ("WAITING", "SCHEDULING")
_ALIVE = ("PENDING", "RUNNING")
_POOL = Annotated[str, Field(description="Pool to submit to. Default: your user's default pool.")]


class Changing:
    def __init__(self, access: Access) -> None:
        self._access = access
        self._keys = Keys()

    async def submit(
        self,
        work: Work = None,
        file: Annotated[str, Field(description="Text of a workflow file.")] = "",
        pool: _POOL = "",
        priority: Priority = "",
        key: Key = "",
    ) -> dict[str, Any]:
        """Submit a workflow: a command (work) or a workflow file. The first call shows whether it would start, and returns a key.

        Repeating the second call with the same key submits nothing twice.
        """
        async with self._access.client() as client:
            text = await file_of(client, work, file, pool)
        wanted: PriorityName | None = priority or None

        async def would() -> dict[str, Any]:
            async with self._access.client() as client:
                checked = await client.workflows.check(text, pool=pool or None, priority=wanted)
            return {"would": plain(checked) | {"file": text}}

        async def does(key: str) -> dict[str, Any]:
            async with self._access.client() as client:
                done = await client.workflows.submit(text, pool=pool or None, priority=wanted, key=key)
            return plain(done) | {"next": "use wait, why or logs with this id"}

        return await self._twice("submit", {"file": text, "pool": pool, "priority": priority}, key, would, does)

    async def restart(
        self,
        id: Id,
        failed_only: Annotated[bool, Field(description="Keep the groups that completed, and run the others.")] = False,
        key: Key = "",
    ) -> dict[str, Any]:
        """Submit the file of a workflow that failed again, as a new workflow."""

        async def would() -> dict[str, Any]:
            now = await self._now(id)
            if now["status"] in _ALIVE:
                raise Conflict(f"{id} is {now['status']}: only a workflow that ended can be restarted")
            return {"now": now}

        async def does(key: str) -> dict[str, Any]:
            async with self._access.client() as client:
                pool = (await client.workflows.get(id)).pool
                done = await client.workflows.repeat(
                    id, pool=pool, failed_only=True, keep_completed=failed_only, key=key
                )
            return plain(done)

        return await self._twice("restart", {"id": id, "failed_only": failed_only}, key, would, does)

    async def cancel(
        self,
        id: Id,
        message: Annotated[str, Field(max_length=1000, description="The reason, for its owner.")] = "",
        element: Annotated[int | None, Field(ge=0, description="Only this element of an array.")] = None,
        key: Key = "",
    ) -> dict[str, Any]:
        """Cancel a workflow. It stops, and cannot be resumed: ask your user first if it is running."""

        async def would() -> dict[str, Any]:
            found = await self._alive(id)
            groups = [each for each in await self._groups(id) if element is None or each.name == str(element)]
            if element is not None and "array" not in found["now"]:
                raise Conflict(f"{id} is not an array: it has no elements")
            if not groups:
                raise NotFound(f"{id} has no element {element}. Its elements are listed by show_workflow")
            if element is not None and groups[0].end_time:
                raise Conflict(f"element {element} of {id} has already ended ({groups[0].status})")
            running = [task for group in groups for task in group.tasks if task.start_time and not task.end_time]
            waiting = sum(1 for group in groups if group.status in _NOT_STARTED)
            gpus = sum(len(each.gpus) for each in running)
            return {"would": {"stop_pods": len(running), "free_gpus": gpus, "never_start_groups": waiting}} | found

        async def does(_: str) -> dict[str, Any]:
            async with self._access.client() as client:
                await client.workflows.cancel(id, message, element=element)
            return await self._now(id)

        return await self._twice("cancel", {"id": id, "message": message, "element": element}, key, would, does)

    async def hold(self, id: Id, key: Key = "") -> dict[str, Any]:
        """Put a workflow on hold: groups that have not started leave the queue until you release it. It keeps its submit time."""

        async def would() -> dict[str, Any]:
            found = await self._alive(id)
            if "held_by" in found["now"]:
                raise Conflict(f"{id} is already on hold")
            leave = [each.name for each in await self._groups(id) if each.status in _NOT_STARTED]
            if not leave:
                raise Conflict(f"all of {id} has started, so there is nothing to put on hold. To stop it, cancel it")
            return {"would": {"leave_queue": leave}} | found

        async def does(_: str) -> dict[str, Any]:
            async with self._access.client() as client:
                await client.workflows.hold(id)
            return await self._now(id)

        return await self._twice("hold", {"id": id}, key, would, does)

    async def release(self, id: Id, key: Key = "") -> dict[str, Any]:
        """Release a workflow that is on hold. It returns to the queue at its submit time."""

        async def does(_: str) -> dict[str, Any]:
            async with self._access.client() as client:
                await client.workflows.release(id)
            return await self._now(id)

        async def would() -> dict[str, Any]:
            found = await self._alive(id)
            if "held_by" not in found["now"]:
                raise Conflict(f"{id} is not on hold")
            return found

        return await self._twice("release", {"id": id}, key, would, does)

    async def change_workflow(
        self,
        id: Id,
        priority: Priority = "",
        pool: Annotated[str, Field(description="Move it to this pool.")] = "",
        most: Annotated[
            int | None, Field(ge=1, description="How many elements of an array run at a time, also while it runs.")
        ] = None,
        key: Key = "",
    ) -> dict[str, Any]:
        """Change the priority of a workflow, or move it to another pool before it starts. It keeps its submit time and nodes.

        To change anything else (GPUs, pods, command), cancel it and submit it again.
        """
        if most is not None:
            if priority or pool:
                raise InvalidInput.one(
                    "most cannot be changed together with priority or pool. Call change_workflow twice"
                )
            return await self._change_most(id, most, key)
        if not priority and not pool:
            raise InvalidInput.one("nothing to change. Use priority, pool, or both, or most of an array")
        wanted: PriorityName | None = priority or None

        async def would() -> dict[str, Any]:
            changed = await self._reassigned(id, pool, wanted, dry_run=True)
            return {"would": plain(changed)} | await self._alive(id)

        async def does(_: str) -> dict[str, Any]:
            await self._reassigned(id, pool, wanted, dry_run=False)
            return await self._now(id)

        return await self._twice("change_workflow", {"id": id, "priority": priority, "pool": pool}, key, would, does)

    async def _change_most(self, id: str, most: int, key: str) -> dict[str, Any]:
        async def would() -> dict[str, Any]:
            async with self._access.client() as client:
                changed = await client.workflows.set_most(id, most, dry_run=True)
            return {"would": plain(changed)} | await self._alive(id)

        async def does(_: str) -> dict[str, Any]:
            async with self._access.client() as client:
                await client.workflows.set_most(id, most)
            return await self._now(id)

        return await self._twice("change_workflow", {"id": id, "most": most}, key, would, does)

    async def _groups(self, id: str) -> "Sequence[models.TaskGroup]":
        async with self._access.client() as client:
            return (await client.workflows.get(id)).groups

    async def _reassigned(
        self, id: str, pool: str, priority: PriorityName | None, *, dry_run: bool
    ) -> "models.WorkflowReassigned":
        async with self._access.client() as client:
            return await client.workflows.reassign(id, pool=pool or None, priority=priority, dry_run=dry_run)

    async def _now(self, id: str) -> dict[str, Any]:
        async with self._access.client() as client:
            return picked(await client.workflows.get(id), _SHOWN)

    async def _alive(self, id: str) -> dict[str, Any]:
        """Raises Conflict if the workflow has ended."""
        now = await self._now(id)
        if now["status"] not in _ALIVE:
            raise Conflict(f"{id} has ended ({now['status']}), so it cannot be changed")
        return {"now": now}

    async def _twice(
        self,
        tool: str,
        arguments: dict[str, Any],
        key: str,
        would: Callable[[], Awaitable[dict[str, Any]]],
        does: Callable[[str], Awaitable[dict[str, Any]]],
    ) -> dict[str, Any]:
        """Calls *would* without a key, and *does* with one, which gets a UUID that belongs to the key."""
        caller = self._access.caller()
        if key:
            return {"done": tool} | await does(self._keys.check(key, caller, tool, arguments))
        return {
            "changed": False,
            **await would(),
            "key": self._keys.new(caller, tool, arguments),
            "next": f"Nothing was changed. To do it, call {tool} with the same arguments and this key within "
            f"{VALID_S // 60} minutes.",
        }
