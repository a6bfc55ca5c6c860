"""Tools that change something. Each is called twice: without a key for a dry run, and with the key of its answer."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

from pydantic import Field

from runrig.client import AsyncClient, models
from runrig.domain.errors import Conflict, InvalidInput, NotFound
from runrig.mcp.answers import picked, plain
from runrig.mcp.asking import Id, Key, Priority, Work, file_of
from runrig.mcp.confirming import VALID_S, Keys

PriorityName = Literal["HIGH", "NORMAL", "LOW"]
_SHOWN = ("id", "status", "pool", "priority", "submitted_by", "times", "held_by", "array")
_NOT_STARTED = ("WAITING", "SCHEDULING")
_ALIVE = ("PENDING", "RUNNING")
_POOL = Annotated[str, Field(description="Pool to submit to. Default: your user's default pool.")]


class Changing:
    def __init__(self, client: AsyncClient, keys: Keys, caller: str) -> None:
        """*caller*: an identity to which keys are bound."""
        self._client, self._keys, self._caller = client, keys, caller

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
        text = await file_of(self._client, work, file, pool)
        wanted: PriorityName | None = priority or None

        async def would() -> dict[str, Any]:
            checked = await self._client.workflows.check(text, pool=pool or None, priority=wanted)
            return {"would": plain(checked) | {"file": text}}

        async def does(key: str) -> dict[str, Any]:
            done = await self._client.workflows.submit(text, pool=pool or None, priority=wanted, key=key)
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
            pool = (await self._client.workflows.get(id)).pool
            done = await self._client.workflows.repeat(
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
            groups = [each for each in found.groups if element is None or each.name == str(element)]
            if element is not None and found.array is None:
                raise Conflict(f"{id} is not an array: it has no elements")
            if not groups:
                raise NotFound(f"{id} has no element {element}. Its elements are listed by show_workflow")
            if element is not None and groups[0].end_time:
                raise Conflict(f"element {element} of {id} has already ended ({groups[0].status})")
            running = [task for group in groups for task in group.tasks if task.start_time and not task.end_time]
            waiting = sum(1 for group in groups if group.status in _NOT_STARTED)
            gpus = sum(len(each.gpus) for each in running)
            would = {"stop_pods": len(running), "free_gpus": gpus, "never_start_groups": waiting}
            return {"would": would, "now": picked(found, _SHOWN)}

        async def does(_: str) -> dict[str, Any]:
            await self._client.workflows.cancel(id, message, element=element)
            return await self._now(id)

        return await self._twice("cancel", {"id": id, "message": message, "element": element}, key, would, does)

    async def hold(self, id: Id, key: Key = "") -> dict[str, Any]:
        """Put a workflow on hold: groups that have not started leave the queue until you release it. It keeps its submit time."""

        async def would() -> dict[str, Any]:
            found = await self._alive(id)
            if found.held_by:
                raise Conflict(f"{id} is already on hold")
            leave = [each.name for each in found.groups if each.status in _NOT_STARTED]
            if not leave:
                raise Conflict(f"all of {id} has started, so there is nothing to put on hold. To stop it, cancel it")
            return {"would": {"leave_queue": leave}, "now": picked(found, _SHOWN)}

        async def does(_: str) -> dict[str, Any]:
            await self._client.workflows.hold(id)
            return await self._now(id)

        return await self._twice("hold", {"id": id}, key, would, does)

    async def release(self, id: Id, key: Key = "") -> dict[str, Any]:
        """Release a workflow that is on hold. It returns to the queue at its submit time."""

        async def does(_: str) -> dict[str, Any]:
            await self._client.workflows.release(id)
            return await self._now(id)

        async def would() -> dict[str, Any]:
            found = await self._alive(id)
            if not found.held_by:
                raise Conflict(f"{id} is not on hold")
            return {"now": picked(found, _SHOWN)}

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
        change: Callable[[bool], Awaitable[models.WorkflowReassigned | models.WorkflowArrayChanged]]
        if most is not None:
            if priority or pool:
                raise InvalidInput.one(
                    "most cannot be changed together with priority or pool. Call change_workflow twice"
                )
            asked: dict[str, Any] = {"most": most}
            change = lambda dry_run: self._client.workflows.set_most(id, most, dry_run=dry_run)  # noqa: E731
        elif priority or pool:
            wanted: PriorityName | None = priority or None
            asked = {"priority": priority, "pool": pool}
            change = lambda dry_run: self._client.workflows.reassign(  # noqa: E731
                id, pool=pool or None, priority=wanted, dry_run=dry_run
            )
        else:
            raise InvalidInput.one("nothing to change. Use priority, pool, or both, or most of an array")

        async def would() -> dict[str, Any]:
            return {"would": plain(await change(True)), "now": picked(await self._alive(id), _SHOWN)}

        async def does(_: str) -> dict[str, Any]:
            await change(False)
            return await self._now(id)

        return await self._twice("change_workflow", {"id": id, **asked}, key, would, does)

    async def _now(self, id: str) -> dict[str, Any]:
        return picked(await self._client.workflows.get(id), _SHOWN)

    async def _alive(self, id: str) -> "models.Workflow":
        """Raises Conflict if the workflow has ended."""
        found = await self._client.workflows.get(id)
        if found.status not in _ALIVE:
            raise Conflict(f"{id} has ended ({found.status}), so it cannot be changed")
        return found

    async def _twice(
        self,
        tool: str,
        arguments: dict[str, Any],
        key: str,
        would: Callable[[], Awaitable[dict[str, Any]]],
        does: Callable[[str], Awaitable[dict[str, Any]]],
    ) -> dict[str, Any]:
        """Calls *would* without a key, and *does* with one, which gets a UUID that belongs to the key."""
        if key:
            return {"done": tool} | await does(self._keys.check(key, self._caller, tool, arguments))
        return {
            "changed": False,
            **await would(),
            "key": self._keys.new(self._caller, tool, arguments),
            "next": f"Nothing was changed. To do it, call {tool} with the same arguments and this key within "
            f"{VALID_S // 60} minutes.",
        }
