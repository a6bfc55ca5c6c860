"""Forms of workflows: submit, submit again, restart, cancel, hold, release, move, reprioritise. Each asks for confirmation."""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any

from fastapi import Response

from runrig.domain.access import Permission
from runrig.domain.errors import InvalidInput
from runrig.domain.gangs import Priority
from runrig.domain.shown.workflows import Workflow, WorkflowSubmitted
from runrig.http.permissions import needs
from runrig.http.permissions import workflow as of_workflow
from runrig.osmo.shape import page
from runrig.service.commands.restarts import Changes
from runrig.service.commands.submission import Submission, read
from runrig.service.runtime.writing import Command
from runrig.web.asking import Filled, Form, Look
from runrig.web.forms import Fields
from runrig.web.routes import form

PRIORITIES = tuple(each.value for each in Priority)
_TYPED = ("file", "values", "strings", "environment", "label")
"""The fields of a new submission, except pool and priority."""
workflow_address = partial(page, "workflow")
CHANGE = [needs(Permission.CHANGE_WORKFLOW, of_workflow("id"))]
_ENDED_WELL = "COMPLETED"
_NOT_STARTED = ("WAITING", "SCHEDULING")
_ON_NODES = ("INITIALIZING", "RUNNING")


def acts_on(shown: Workflow, *, whole: bool, has_file: bool) -> list[tuple[str, str]]:
    """Returns the allowed actions on a workflow as (address, label). *whole*: the user can change it."""
    if not whole:
        return []
    address = workflow_address(shown.id)
    found = [(f"{address}/{name}", words) for name, words in _while_it_lives(shown)]
    if has_file:
        failed = shown.end_time is not None and shown.status != _ENDED_WELL
        some = any(each.status == _ENDED_WELL for each in shown.groups)
        found += [(f"{address}/restart", "Restart what failed" if some else "Restart")] if failed else []
        found += [(f"{address}/again", "Submit again")]
    return found


def _while_it_lives(shown: Workflow) -> Iterator[tuple[str, str]]:
    if shown.end_time is not None:
        return
    if shown.held_by is not None:
        yield "release", "Release"
    yield "cancel", "Cancel"
    if shown.array is not None:
        yield "elements", "Cancel elements"
        yield "array", "Elements at a time"
    if shown.held_by is None and any(each.status in _NOT_STARTED for each in shown.groups):
        yield "hold", "Hold"
    started = any(each.status in _ON_NODES for each in shown.groups)
    yield "reassign", "Reprioritise" if started else "Move or reprioritise"


# ---------------------------------------------------------------- submit


@form("/submit", dependencies=[needs(Permission.LIST_POOLS)])
async def submit(it: Filled) -> Response:
    look = verdict_of(it, lambda: it.service.submissions.check(_typed(it)))
    draw = partial(_submission, it, None)
    return await it.answered(draw, lambda: submitted(it, _typed(it, it.key)), workflow_address, look)


def submitted(it: Form, wanted: Submission) -> str:
    """Submits *wanted*, in the thread of an act, and returns the ID."""
    return it.runs(it.service.submissions.submitting(read(wanted)), wanted.uuid).id


def _typed(it: Form, key: str | None = None) -> Submission:
    """Returns what the form of `/submit` holds. Raises InvalidInput, NotAllowed, NotFound."""
    check_pool(it)
    text = it.fields.get("file", "")
    if not text.strip():
        raise InvalidInput.one("the workflow file is missing. Paste or choose one", "file")
    return Submission(
        text,
        it.fields["pool"],
        it.user,
        variables=_pairs(it.fields, "values"),
        string_variables=_pairs(it.fields, "strings"),
        environment=_pairs(it.fields, "environment"),
        labels=_pairs(it.fields, "label"),
        priority=priority_of(it),
        uuid=key,
        visibility=it.asker.visibility,
    )


def _pairs(fields: Fields, name: str) -> tuple[str, ...]:
    """Returns the lines of a field, each NAME=VALUE. Raises InvalidInput."""
    lines = [line.strip() for line in fields.get(name, "").splitlines()]
    for line in lines:
        if line and not line.partition("=")[1]:
            raise InvalidInput.one(f"invalid line {line!r:.80}. Use one NAME=VALUE per line", name)
    return tuple(line for line in lines if line)


def priority_of(it: Form) -> Priority | None:
    found = it.fields.get("priority", "")
    if found not in ("", *PRIORITIES):
        raise InvalidInput.one("choose a priority from the list", "priority")
    return Priority(found) if found else None


def check_pool(it: Form) -> None:
    """Checks that the user chose a pool and may submit to it. Raises NotAllowed, NotFound, InvalidInput."""
    pool = it.fields.get("pool", "")
    if not pool:
        raise InvalidInput.one("choose a pool", "pool")
    it.asker.need_submit(pool)


def verdict_of(it: Form, check: Callable[[], WorkflowSubmitted]) -> Look:
    """Answers like `runrig workflow submit --dry-run`."""

    def found() -> Mapping[str, Any]:
        accepted = check()
        verdict = it.service.dry_runs.of(accepted.gangs, it.asker.visibility, accepted.in_array)
        return {"accepted": accepted, "verdict": verdict}

    return found


def _submission(it: Form, of: Workflow | None, *, text: str = "", **more: Any) -> Response:
    """*of*: the workflow to submit again, with the file *text*; None: a new one."""
    pools = it.asker.submits_to()
    default = of.pool if of is not None else it.service.access.profile(it.user).default_of(pools)
    typed = it.typed(pool=default or "", priority=of.priority if of else "", **dict.fromkeys(_TYPED, ""))
    known = ("pool", "priority", *(_TYPED if of is None else ()))
    return it.shown("submit.html", typed, known, of=of, text=text, pools=pools, priorities=PRIORITIES, **more)


# ---------------------------------------------------------------- again


@form("/workflow/{id}/again", dependencies=CHANGE)
async def again(it: Filled, id: str) -> Response:
    submissions = it.service.submissions

    def wanted() -> dict[str, Any]:
        check_pool(it)
        return {"pool": it.fields["pool"], "user": it.user, "priority": priority_of(it)}

    def do() -> str:
        return it.runs(submissions.submitting_again(id, **wanted(), uuid=it.key), it.key).id

    look = verdict_of(it, lambda: submissions.check_again(id, **wanted()))
    return await it.answered(partial(_again, it, id), do, workflow_address, look)


def _again(it: Form, id: str, **more: Any) -> Response:
    return _submission(it, shown_workflow(it, id), text=it.service.workflow_queries.spec(id).text, **more)


def shown_workflow(it: Form, id: str) -> Workflow:
    return it.service.workflow_queries.workflow(id, it.asker.visibility)


# ---------------------------------------------------------------- restart, cancel


@form("/workflow/{id}/restart", dependencies=CHANGE)
async def restart(it: Filled, id: str) -> Response:
    def do() -> str:
        check_pool(it)
        pool, changes = it.fields["pool"], Changes(keep_completed="keep" in it.fields)
        command = it.service.submissions.restarting(id, pool=pool, user=it.user, uuid=it.key, changes=changes)
        return it.runs(command, it.key).id

    return await it.answered(partial(_restart, it, id), do, workflow_address)


def _restart(it: Form, id: str, **more: Any) -> Response:
    of, pools = shown_workflow(it, id), it.asker.submits_to()
    typed = it.typed(pool=of.pool, **({} if it.fields else {"keep": "on"}))
    some = any(each.status == _ENDED_WELL for each in of.groups)
    return it.shown("restart.html", typed, it=of, pools=pools, some=some, **more)


@form("/workflow/{id}/cancel", dependencies=CHANGE)
async def cancel(it: Filled, id: str) -> Response:
    def draw(**more: Any) -> Response:
        of = shown_workflow(it, id)
        return it.shown("cancel.html", it.typed(message=""), it=of, stops=stops(of), **more)

    def do() -> str:
        message = it.fields.get("message", "")
        return it.runs(it.service.submissions.cancelling(id, user=it.user, message=message))

    return await it.answered(draw, do, workflow_address)


def stops(of: Workflow, only: Collection[str] = ()) -> Mapping[str, int]:
    """Counts what cancelling would end now: *pods* using *gpus* on *nodes*, and *groups* that have not started. *only*: of
    these groups; empty: of all.
    """
    tasks = [
        each
        for group in of.groups
        if not only or group.name in only
        for each in group.tasks
        if each.start_time and not each.end_time
    ]
    return {
        "pods": len(tasks),
        "gpus": sum(len(each.gpus) for each in tasks),
        "nodes": len({each.node for each in tasks if each.node}),
        "groups": sum(1 for group in of.groups if not group.end_time and not group.start_time),
    }


# ---------------------------------------------------------------- hold, release, move, reprioritise


@form("/workflow/{id}/hold", dependencies=CHANGE)
async def hold(it: Filled, id: str) -> Response:
    says = "Groups that have not started leave the queue until you release it, and keep their submit time. Running groups continue."
    return await _sure(it, id, it.service.submissions.holding, "hold", says)


@form("/workflow/{id}/release", dependencies=CHANGE)
async def release(it: Filled, id: str) -> Response:
    says = "It returns to the queue at its original position."
    return await _sure(it, id, it.service.submissions.releasing, "release", says)


async def _sure(it: Form, id: str, act: Callable[..., Command[str]], name: str, says: str) -> Response:
    def do() -> str:
        return it.runs(act(id, user=it.user))

    check = partial(shown_workflow, it, id)
    return await it.sure(f"{name.capitalize()} {id}", says, do, workflow_address(id), check)


@form("/workflow/{id}/reassign", dependencies=CHANGE)
async def reassign(it: Filled, id: str) -> Response:
    """Changes the priority of a workflow, and its pool if it has not started."""

    def wanted() -> dict[str, Any]:
        """Includes the pool only if it changes, because the owner may no longer have access to the current one."""
        pool = it.fields.get("pool")
        if pool == shown_workflow(it, id).pool:
            pool = None
        else:
            check_pool(it)
        return {"user": it.user, "pool": pool, "priority": priority_of(it)}

    def verdict() -> Mapping[str, Any]:
        gangs, on_nodes = it.service.submissions.check_reassignment(id, **wanted())
        found = it.service.dry_runs.of(gangs, it.asker.visibility) if gangs else None
        return {"verdict": found, "on_nodes": on_nodes}

    def do() -> str:
        return it.runs(it.service.submissions.reassigning(id, **wanted()))

    return await it.answered(partial(_reassign, it, id), do, workflow_address, verdict)


def _reassign(it: Form, id: str, **more: Any) -> Response:
    of = shown_workflow(it, id)
    pools, typed = sorted({of.pool, *it.asker.submits_to()}), it.typed(pool=of.pool, priority=of.priority)
    return it.shown("reassign.html", typed, it=of, pools=pools, priorities=PRIORITIES, **more)
