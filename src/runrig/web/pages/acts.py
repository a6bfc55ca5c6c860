"""Forms of workflows: submit, submit again, restart, cancel, hold, release, move, reprioritise. Each asks for confirmation."""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from runrig.domain.access import Permission
from runrig.domain.errors import InvalidInput
from runrig.domain.gangs import Priority
from runrig.domain.shown.dry_run import WorkflowDryRun
from runrig.domain.shown.workflows import Workflow, WorkflowSubmitted
from runrig.http.permissions import Asking, needs
from runrig.http.permissions import workflow as of_workflow
from runrig.http.routing import Route, Serving
from runrig.service.commands.restarts import Changes
from runrig.service.commands.submission import Submission
from runrig.service.rights import About, Asker
from runrig.service.runtime.writing import Command
from runrig.service.service import Service
from runrig.web.asking import Look, answered, form, form_shown
from runrig.web.forms import Fields, key_of, sent
from runrig.web.pages.parts import Asked
from runrig.web.planned import Turn

router = APIRouter(route_class=Route, include_in_schema=False)

PRIORITIES = tuple(each.value for each in Priority)
_TYPED = ("file", "values", "strings", "environment", "label")
"""The fields of a new submission, except pool and priority."""
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


@form(router, "/submit", dependencies=[needs(Permission.LIST_POOLS)])
async def submit(request: Asked, service: Serving, asker: Asking) -> Response:
    fields = await sent(request)

    def typed(key: str | None = None) -> Submission:
        check_pool(asker, fields)
        return _submission_of(fields, asker, key)

    async def do() -> str:
        return workflow_address((await service.arrivals.submit(await run_in_threadpool(typed, key_of(fields)))).id)

    return await answered(
        request,
        asker,
        fields,
        draw=partial(_submission, request, service, asker, fields, None),
        do=do,
        look=verdict_of(service, asker, lambda: service.submissions.check(typed())),
    )


def _submission_of(fields: Fields, asker: Asker, key: str | None = None) -> Submission:
    """Returns what the form of `/submit` holds. Raises InvalidInput."""
    text = fields.get("file", "")
    if not text.strip():
        raise InvalidInput.one("the workflow file is missing. Paste or choose one", "file")
    return Submission(
        text,
        fields.get("pool", ""),
        asker.identity.user,
        variables=_pairs(fields, "values"),
        string_variables=_pairs(fields, "strings"),
        environment=_pairs(fields, "environment"),
        labels=_pairs(fields, "label"),
        priority=priority_of(fields),
        uuid=key,
        visibility=asker.visibility,
    )


def _pairs(fields: Fields, name: str) -> tuple[str, ...]:
    """Returns the lines of a field, each NAME=VALUE. Raises InvalidInput."""
    lines = [line.strip() for line in fields.get(name, "").splitlines()]
    for line in lines:
        if line and not line.partition("=")[1]:
            raise InvalidInput.one(f"invalid line {line!r:.80}. Use one NAME=VALUE per line", name)
    return tuple(line for line in lines if line)


def priority_of(fields: Fields) -> Priority | None:
    found = fields.get("priority", "")
    if found not in ("", *PRIORITIES):
        raise InvalidInput.one("choose a priority from the list", "priority")
    return Priority(found) if found else None


def check_pool(asker: Asker, fields: Fields) -> None:
    """Checks that the user chose a pool and may submit to it. Raises NotAllowed, NotFound, InvalidInput."""
    pool = fields.get("pool", "")
    if not pool:
        raise InvalidInput.one("choose a pool", "pool")
    asker.need(Permission.SUBMIT, About(pool))
    asker.check_there(Permission.SUBMIT, pool)


def verdict_of(service: Service, asker: Asker, check: Callable[[], WorkflowSubmitted]) -> Look:
    """Answers like `runrig workflow submit --dry-run`."""

    def found() -> Mapping[str, Any]:
        accepted = check()
        verdict = service.dry_runs.of(accepted.gangs, asker.visibility, accepted.in_array)
        return {"accepted": accepted, "verdict": verdict}

    return partial(run_in_threadpool, found)


def _submission(
    request: Request,
    service: Service,
    asker: Asker,
    fields: Fields,
    of: Workflow | None,
    *,
    accepted: WorkflowSubmitted | None = None,
    verdict: WorkflowDryRun | None = None,
    file: str = "",
    **more: Any,
) -> Response:
    """*of*: the workflow to submit again with *file*; None: a new one. *accepted*, *verdict*: from the preview."""
    pools = asker.submits_to()
    default = of.pool if of is not None else service.access.profile(asker.identity.user).default_of(pools)
    typed = {"pool": default or "", "priority": of.priority if of else ""} | dict.fromkeys(_TYPED, "") | dict(fields)
    return form_shown(
        request,
        service,
        "submit.html",
        ("pool", "priority", *(_TYPED if of is None else ())),
        of=of,
        file=file,
        typed=typed,
        pools=pools,
        priorities=PRIORITIES,
        accepted=accepted,
        verdict=verdict,
        **more,
    )


# ---------------------------------------------------------------- again


@form(router, "/workflow/{id}/again", dependencies=CHANGE)
async def again(request: Asked, service: Serving, asker: Asking, id: str) -> Response:
    fields = await sent(request)
    user = asker.identity.user

    def wanted() -> dict[str, Any]:
        check_pool(asker, fields)
        return {"pool": fields["pool"], "user": user, "priority": priority_of(fields)}

    async def do() -> str:
        key = key_of(fields)
        command = service.submissions.submitting_again(id, **await run_in_threadpool(wanted), uuid=key)
        return workflow_address((await service.arrivals.do(command, key)).id)

    return await answered(
        request,
        asker,
        fields,
        draw=partial(_again, request, service, asker, id, fields),
        do=do,
        look=verdict_of(service, asker, lambda: service.submissions.check_again(id, **wanted())),
    )


def _again(request: Request, service: Service, asker: Asker, id: str, fields: Fields, **more: Any) -> Response:
    of, file = shown_workflow(service, asker, id), service.workflow_queries.spec(id).text
    return _submission(request, service, asker, fields, of, file=file, **more)


def shown_workflow(service: Service, asker: Asker, id: str) -> Workflow:
    return service.workflow_queries.workflow(id, asker.visibility)


# ---------------------------------------------------------------- restart, cancel


@form(router, "/workflow/{id}/restart", dependencies=CHANGE)
async def restart(request: Asked, service: Serving, asker: Asking, id: str) -> Response:
    fields = await sent(request)

    async def do() -> str:
        await run_in_threadpool(check_pool, asker, fields)
        key = key_of(fields)
        changes = Changes(keep_completed="keep" in fields)
        command = service.submissions.restarting(
            id, pool=fields["pool"], user=asker.identity.user, uuid=key, changes=changes
        )
        return workflow_address((await service.arrivals.do(command, key)).id)

    return await answered(request, asker, fields, draw=partial(_restart, request, service, asker, id, fields), do=do)


def _restart(request: Request, service: Service, asker: Asker, id: str, fields: Fields, **more: Any) -> Response:
    of = shown_workflow(service, asker, id)
    typed, pools = ({"pool": of.pool} | dict(fields) if fields else {"pool": of.pool, "keep": "on"}), asker.submits_to()
    some = any(each.status == _ENDED_WELL for each in of.groups)
    return form_shown(request, service, "restart.html", ("pool",), it=of, typed=typed, pools=pools, some=some, **more)


@form(router, "/workflow/{id}/cancel", dependencies=CHANGE)
async def cancel(request: Asked, service: Serving, asker: Asking, id: str) -> Response:
    fields = await sent(request)

    async def do() -> str:
        message = fields.get("message", "")
        command = service.submissions.cancelling(id, user=asker.identity.user, message=message)
        return workflow_address(await service.arrivals.do(command))

    return await answered(request, asker, fields, draw=partial(_cancel, request, service, asker, id, fields), do=do)


def _cancel(request: Request, service: Service, asker: Asker, id: str, fields: Fields, **more: Any) -> Response:
    of = shown_workflow(service, asker, id)
    typed = {"message": ""} | dict(fields)
    return form_shown(request, service, "cancel.html", ("message",), it=of, typed=typed, stops=stops(of), **more)


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


def workflow_address(id: str) -> str:
    return f"/workflow/{quote(id, safe='')}"


# ---------------------------------------------------------------- hold, release, move, reprioritise


@form(router, "/workflow/{id}/hold", dependencies=CHANGE)
async def hold(request: Asked, service: Serving, asker: Asking, id: str) -> Response:
    says = "Groups that have not started leave the queue until you release it, and keep their submit time. Running groups continue."
    return await _sure(request, service, asker, id, service.submissions.holding, "hold", says)


@form(router, "/workflow/{id}/release", dependencies=CHANGE)
async def release(request: Asked, service: Serving, asker: Asking, id: str) -> Response:
    says = "It returns to the queue at its original position."
    return await _sure(request, service, asker, id, service.submissions.releasing, "release", says)


async def _sure(
    request: Request, service: Service, asker: Asker, id: str, act: Callable[..., Command[str]], name: str, says: str
) -> Response:
    def draw(**more: Any) -> Response:
        address = workflow_address(shown_workflow(service, asker, id).id)
        does = f"{name.capitalize()} {id}"
        return form_shown(request, service, "sure.html", does=does, says=says, address=address, act=name, **more)

    async def do() -> str:
        return workflow_address(await service.arrivals.do(act(id, user=asker.identity.user)))

    return await answered(request, asker, await sent(request), draw=draw, do=do)


@form(router, "/workflow/{id}/reassign", dependencies=CHANGE)
async def reassign(request: Asked, service: Serving, asker: Asking, id: str) -> Response:
    """Changes the priority of a workflow, and its pool if it has not started."""
    fields = await sent(request)
    user = asker.identity.user

    def wanted() -> dict[str, Any]:
        """Includes the pool only if it changes, because the owner may no longer have access to the current one."""
        pool = fields.get("pool")
        if pool == shown_workflow(service, asker, id).pool:
            pool = None
        else:
            check_pool(asker, fields)
        return {"user": user, "pool": pool, "priority": priority_of(fields)}

    def verdict() -> Mapping[str, Any]:
        gangs, on_nodes = service.submissions.check_reassignment(id, **wanted())
        found = service.dry_runs.of(gangs, asker.visibility) if gangs else None
        return {"verdict": found, "on_nodes": on_nodes}

    async def do() -> str:
        command = service.submissions.reassigning(id, **await run_in_threadpool(wanted))
        return workflow_address(await service.arrivals.do(command))

    draw = partial(_reassign, request, service, asker, id, fields)
    return await answered(request, asker, fields, draw=draw, do=do, look=partial(run_in_threadpool, verdict))


def _reassign(
    request: Request,
    service: Service,
    asker: Asker,
    id: str,
    fields: Fields,
    *,
    verdict: WorkflowDryRun | None = None,
    **more: Any,
) -> Response:
    of = shown_workflow(service, asker, id)
    typed = {"pool": of.pool, "priority": of.priority} | dict(fields)
    return form_shown(
        request,
        service,
        "reassign.html",
        ("pool", "priority"),
        it=of,
        typed=typed,
        pools=sorted({of.pool, *asker.submits_to()}),
        priorities=PRIORITIES,
        turns=(("Pool", Turn(of.pool, typed["pool"])), ("Priority", Turn(of.priority, typed["priority"]))),
        verdict=verdict,
        **more,
    )
