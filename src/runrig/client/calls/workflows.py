"""Workflows: submit, follow, explain, cancel."""

import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from runrig.client import models
from runrig.client.caller import ANSWER_S, Request
from runrig.client.calls.submission import file_fields, settings
from runrig.client.paths import path
from runrig.client.paths import time as as_time
from runrig.client.ways import Calls, W, call, stream
from runrig.domain.errors import InvalidInput
from runrig.domain.workflow_status import WorkflowStatus

LONGEST_QUESTION_S = 20.0
SHORTEST_QUESTION_S = 0.2
PriorityName = Literal["HIGH", "NORMAL", "LOW"]
_ALIVE = (WorkflowStatus.PENDING.value, WorkflowStatus.RUNNING.value)


class WorkflowCalls(Calls[W]):
    @call
    async def submit(
        self,
        file: str | Path,
        *,
        pool: str | None = None,
        priority: PriorityName | None = None,
        variables: Mapping[str, object] | None = None,
        environment: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        retry: str | None = None,
        after: Sequence[str] = (),
        array: str | None = None,
        sweep: Sequence[str] = (),
        most: int | None = None,
        key: str | None = None,
    ) -> "models.WorkflowSubmitted":
        """Submits a workflow. Returns its id, and warnings about parts of its file that have no effect.

        *file*: a Path to a workflow file, or its text. *pool* None: your default pool, or the only top-level pool to which you can submit.
        *variables*: of the template. *retry*: ``N[:CODES]``; restart every task after these exit codes, at most N times.
        *after*: ``ID[:ok|any|fail]``, or ``ID/INDEX`` for an element of an array; what has to end first.
        *array*: ``INDICES[%N]``, such as ``0-9%3``, or *sweep*: ``NAME=V,V``; runs it for each index or set of values,
        *most* at a time.
        *key*: a UUID; repeating a submission with the same key returns the first answer.
        By default each call has a new one, so that it can be retried while a server is replaced.

        Raises Refused if a rule forbids it, InvalidInput with all errors of the file.
        """
        body = file_fields(file, variables) | settings(priority, environment, labels, retry, after, array, sweep, most)
        body["pool"] = pool or await self._default_pool()
        return await self._create(models.WorkflowSubmitted, path("workflows"), body, key)

    @call
    async def submit_many(
        self,
        files: Sequence[str | Path],
        *,
        pool: str | None = None,
        priority: PriorityName | None = None,
        variables: Mapping[str, object] | None = None,
        environment: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        retry: str | None = None,
        after: Sequence[str] = (),
        all_or_nothing: bool = False,
        key: str | None = None,
    ) -> "models.WorkflowOutcomes":
        """Submits *files*. Returns one result per file, in order: its id, or why it was not submitted.

        Up to 1,000 files; with *all_or_nothing* up to 200, and none is submitted if one is refused.
        """
        body = settings(priority, environment, labels, retry, after) | {
            "workflows": [file_fields(file, variables) for file in files],
            "all_or_nothing": all_or_nothing,
            "pool": pool or await self._default_pool(),
        }
        return await self._create(models.WorkflowOutcomes, path("workflows") + ":batch", body, key)

    @call
    async def check(
        self,
        file: str | Path,
        *,
        pool: str | None = None,
        priority: PriorityName | None = None,
        variables: Mapping[str, object] | None = None,
    ) -> "models.WorkflowChecked":
        """Returns what a submission would return, with the rendered file. Stores nothing. Raises as `submit`."""
        body = file_fields(file, variables) | settings(priority)
        body["pool"] = pool or await self._default_pool()
        return await self._ask(models.WorkflowChecked, "POST", path("workflows") + ":check", body)

    @call
    async def render(
        self,
        file: str | Path,
        *,
        pool: str | None = None,
        priority: PriorityName | None = None,
        variables: Mapping[str, object] | None = None,
        namespace: str | None = None,
    ) -> Sequence[Mapping[str, Any]]:
        """Returns the workflow's Kubernetes objects. Stores nothing. *namespace* None: that of the server."""
        body = file_fields(file, variables) | settings(priority)
        body |= {"pool": pool or await self._default_pool()} | ({"namespace": namespace} if namespace else {})
        return (await self._ask(models.RenderAnswer, "POST", path("workflows") + ":render", body)).objects

    async def _default_pool(self) -> str:
        me = await self._get(models.Me, path("me"))
        if me.default_pool is not None:
            return me.default_pool
        names = me.pools
        raise InvalidInput.one(
            f"you can submit to {len(names)} pools ({', '.join(sorted(names))}). Choose one with pool=..."
            if names
            else "you cannot submit to any pool. Ask an administrator for a pool or a role"
        )

    @call
    async def repeat(
        self,
        id: str,
        *,
        pool: str,
        priority: PriorityName | None = None,
        failed_only: bool = False,
        keep_completed: bool = False,
        code: str | None = None,
        key: str | None = None,
    ) -> "models.WorkflowSubmitted":
        """Submits the file of a workflow again and returns the new id. *failed_only*: refuse unless the workflow failed.

        *keep_completed*: also run only groups that are not COMPLETED; they read the outputs of those that are. Raises
        Conflict if these outputs were removed. *code*: the id of code to run instead of its own, if it failed.
        """
        body = {"pool": pool, "priority": priority, "failed_only": failed_only}
        body |= {"keep_completed": keep_completed, "code": code}
        return await self._create(models.WorkflowSubmitted, path("workflows", id, "repeat"), body, key)

    @call
    async def cancel(self, id: str, message: str = "", *, element: int | None = None) -> None:
        """Cancels a workflow, or one *element* of an array. *message*: tells its owner why. Raises Conflict if it has
        finished.
        """
        where = path("workflows", id, "cancel")
        if element is not None:
            where = path("workflows", id, "elements", str(element), "cancel")
        await self._ask(models.WorkflowCancelled, "POST", where, {"message": message})

    @call
    async def set_most(self, id: str, most: int, *, dry_run: bool = False) -> "models.WorkflowArrayChanged":
        """Lets *most* elements of an array run at a time. *dry_run*: only returns how many would enter or leave the queue."""
        body = {"most": most, "dry_run": dry_run}
        return await self._ask(models.WorkflowArrayChanged, "POST", path("workflows", id, "array"), body)

    @call
    async def hold(self, id: str) -> None:
        """Puts a workflow on hold: groups that have not started leave the queue. Raises Conflict if all have started or
        it is on hold.
        """
        await self._ask(models.WorkflowNamed, "POST", path("workflows", id, "hold"))

    @call
    async def release(self, id: str) -> None:
        """Releases a workflow that is on hold; it keeps its submit time. Raises Conflict if it is not on hold."""
        await self._ask(models.WorkflowNamed, "POST", path("workflows", id, "release"))

    @call
    async def reassign(
        self, id: str, *, pool: str | None = None, priority: PriorityName | None = None, dry_run: bool = False
    ) -> "models.WorkflowReassigned":
        """Moves a workflow to *pool*, if it has not started, or another *priority*; None: unchanged.

        *dry_run*: only returns the result. Raises Refused if the gate rejects it or the pool has no quota left for running
        work, and Conflict if it is stopping, or has started in another pool.
        """
        body = {"pool": pool, "priority": priority, "dry_run": dry_run}
        return await self._ask(models.WorkflowReassigned, "POST", path("workflows", id, "reassign"), body)

    @stream
    def list(
        self,
        *,
        user: Sequence[str] = (),
        status: Sequence[str] = (),
        pool: Sequence[str] = (),
        priority: Sequence[PriorityName] = (),
        label: Sequence[str] = (),
        no_label: Sequence[str] = (),
        tag: Sequence[str] = (),
        name: str | None = None,
        submitted_after: datetime | None = None,
        submitted_before: datetime | None = None,
    ) -> AsyncGenerator["models.WorkflowEntry", None]:
        """Yields workflows, newest first. Several values of one filter are alternatives.

        *pool*: without its subpools. *label*: ``KEY=VALUE``, with ``*`` and ``(a|b)`` in the value. *name*: a part of
        the id. Raises NotFound for an unknown pool or user.
        """
        query = {
            "user": user,
            "status": status,
            "pool": pool,
            "priority": priority,
            "label": label,
            "no_label": no_label,
            "tag": tag,
            "name": name,
            "submitted_after": as_time(submitted_after),
            "submitted_before": as_time(submitted_before),
        }
        return self._all(models.WorkflowEntry, path("workflows"), query)

    @call
    async def get(self, id: str) -> "models.Workflow":
        """Returns a workflow with its groups and tasks. Raises NotFound."""
        return await self._get(models.Workflow, path("workflows", id))

    @call
    async def why(
        self, id: str, *, changes: "Literal['none', 'own', 'all']" = "none", depth: int = 1
    ) -> "models.WorkflowWhy":
        """Returns why a workflow is waiting, as a sentence and as reasons with numbers, and what preempted it.

        *changes*: also suggest the owner's changes, or all, that would start it in the next cycle. *depth* 2: also
        pairs of the owner's changes. Raises Unavailable if suggestions are not available now; without *changes* it
        always answers.
        """
        asked = {} if changes == "none" else {"changes": changes, "depth": str(depth)}
        return await self._get(models.WorkflowWhy, path("workflows", id, "why"), asked)

    @call
    async def gpu_use(self, id: str) -> "models.WorkflowGpuUse":
        """Returns how busy the GPUs of the running tasks are, or why that is unknown."""
        return await self._get(models.WorkflowGpuUse, path("workflows", id, "gpu-use"))

    @call
    async def gpu_history(self, id: str) -> "models.WorkflowGpuHistory":
        """Returns how busy the GPUs of its tasks were, for each minute of the last 24 hours that was measured."""
        return await self._get(models.WorkflowGpuHistory, path("workflows", id, "gpu-history"))

    @call
    async def changes(
        self, id: str, *, by: "Literal['own', 'all']" = "own", depth: int = 1
    ) -> "models.WorkflowChanges":
        """Returns changes that would start a workflow in the next cycle: its owner's, or also those of others.

        *depth* 2: also pairs of the owner's changes. Raises Unavailable if suggestions are not available now.
        """
        query = {"by": by, "depth": str(depth)}
        return await self._get(models.WorkflowChanges, path("workflows", id, "changes"), query)

    @call
    async def wait(self, id: str, *, status: str | None = None, timeout_s: float | None = None) -> "models.Workflow":
        """Returns a workflow once it has *status* or has finished; *status* None: once it has finished.

        Raises TimeoutError after *timeout_s* seconds; None: no timeout.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            begun = time.monotonic()
            left = LONGEST_QUESTION_S if until is None else max(0.0, min(LONGEST_QUESTION_S, until - begun))
            query = {"for": status, "timeout": f"{left:.3f}"}
            asked = path("workflows", id, "wait")
            found = await self._ask(models.Workflow, "GET", asked, query=query, timeout_s=left + ANSWER_S)
            if found.status == status or found.status not in _ALIVE:
                return found
            now = time.monotonic()
            if until is not None and now >= until:
                raise TimeoutError(f"{id} is {found.status} after {timeout_s:g} s")
            # A server that is stopping answers immediately.
            await self._caller.network.sleep(max(0.0, begun + SHORTEST_QUESTION_S - now))

    @stream
    def events(
        self, id: str, *, task: str | None = None, attempt: int | None = None
    ) -> AsyncGenerator["models.WorkflowEvent", None]:
        """Yields the events of a workflow in order. *attempt* None: of all attempts."""
        query = {"task": task, "attempt": attempt}
        return self._all(models.WorkflowEvent, path("workflows", id, "events"), query)

    @call
    async def spec(self, id: str, *, template: bool = False) -> str:
        """Returns the file of a workflow as rendered; *template*: as submitted. Secrets are hidden from users who
        cannot change it.
        """
        request = Request("GET", path("workflows", id, "spec"), {"template": template or None})
        return "".join([piece async for piece in self._caller.pieces(request)])

    @stream
    async def logs(
        self,
        id: str,
        *,
        task: str | None = None,
        attempt: int | None = None,
        stream: Literal["stdout", "stderr", "both"] = "both",
        last_lines: int | None = None,
        follow: bool = False,
    ) -> AsyncGenerator[str, None]:
        """Yields the output of the tasks line by line, ordered by time. Each line starts with its task unless only one
        is possible.

        *attempt* None: the latest. *follow*: continue until they finish.

        Raises NotLoggedIn or NotFound if permission to read ends first.
        """
        query = {
            "task": task,
            "attempt": attempt,
            "stream": stream,
            "last_lines": last_lines,
            "follow": follow or None,
        }
        timeout_s = None if follow else ANSWER_S
        request = Request("GET", path("workflows", id, "logs"), query, timeout_s=timeout_s)
        async with aclosing(self._caller.lines(request)) as lines:
            async for line in lines:
                yield line
        if follow:
            await self._get(models.Workflow, path("workflows", id))

    @call
    async def tag(
        self, id: str, *, add: Sequence[str] = (), remove: Sequence[str] = (), if_match: str | None = None
    ) -> "models.WorkflowTags":
        """Adds and removes tags of a workflow, and returns its new tags.

        *if_match*: the `etag` of the workflow or of its tags. Raises Changed if its tags were changed since.
        """
        body = {"add": [*add], "remove": [*remove]}
        return await self._ask(models.WorkflowTags, "PATCH", path("workflows", id, "tags"), body, if_match=if_match)

    @call
    async def tags(self) -> Sequence[str]:
        """Returns the tags of all workflows that you can see."""
        return (await self._get(models.WorkflowTags, path("workflow-tags"))).tags
