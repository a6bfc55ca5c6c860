"""Forms of workflows: submit, submit again, restart, cancel.  Each asks first."""

from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from starlette.concurrency import run_in_threadpool

from runrig.api.failures import headers_of, status_of
from runrig.api.permissions import About, Asker, Asking, needs
from runrig.api.permissions import workflow as of_workflow
from runrig.api.routing import Route, Serving
from runrig.api.v1.answers import workflows as as_answers
from runrig.domain.access import Permission
from runrig.domain.errors import InvalidInput, RunrigError
from runrig.domain.gangs import Priority
from runrig.service.commands.submissions import Accepted, Submission
from runrig.service.service import Service
from runrig.web.forms import (
    Fields,
    done_of,
    is_to_be_done,
    key_of,
    new_key,
    problems_of,
    secret_of,
    sent,
    tag_of,
)
from runrig.web.pages.parts import Asked
from runrig.web.rendering import html
from runrig.wire import v1

router = APIRouter(route_class=Route, include_in_schema=False)

PRIORITIES = tuple(each.value for each in Priority)
_TYPED = ("file", "values", "strings", "environment", "label")
"""The fields of a new submission besides pool and priority."""
_CHANGE = [needs(Permission.CHANGE_WORKFLOW, of_workflow("id"))]
_ENDED_WELL = "COMPLETED"


def acts_on(shown: v1.Workflow, *, whole: bool, has_file: bool) -> list[tuple[str, str]]:
    """Lists the acts that somebody may do to a workflow, as (address, words).  *whole*: they may change it."""
    if not whole:
        return []
    address = f"/workflow/{quote(shown.id, safe='')}"
    found = [] if shown.end_time else [(f"{address}/cancel", "Cancel")]
    if has_file:
        failed = shown.end_time is not None and shown.status != _ENDED_WELL
        found += [(f"{address}/restart", "Restart")] if failed else []
        found += [(f"{address}/again", "Submit again")]
    return found


def problem_shown(
    request: Request, service: Service, template: str, fields: tuple[str, ...], error: RunrigError | None, **values: Any
) -> Response:
    """A page with a form, and what is wrong with what was typed, if anything is.

    It has a secret in it, and a new key, so that what was typed anew is another submission.
    """
    page = html(
        request,
        template,
        status=200 if error is None else status_of(error),
        secret=True,
        csrf=secret_of(request, service),
        key=new_key(),
        wrong={} if error is None else problems_of(error, fields),
        **values,
    )
    page.headers.update({} if error is None else headers_of(error))
    return page


# ---------------------------------------------------------------- submit


@router.get("/submit", dependencies=[needs(Permission.LIST_POOLS)])
def show_submission(request: Asked, service: Serving, asker: Asking) -> Response:
    return _submission(request, service, asker, {}, None)


@router.post("/submit", dependencies=[needs(Permission.LIST_POOLS)])
async def submit(request: Asked, service: Serving, asker: Asking) -> Response:
    fields = await sent(request)
    draw = partial(_submission, request, service, asker, fields, None)
    try:
        await run_in_threadpool(_check_pool, asker, fields)
        if is_to_be_done(fields):
            accepted = await service.arrivals.submit(_submission_of(fields, asker, key_of(fields)))
            return _to(accepted.id)
        check = partial(service.submissions.check, _submission_of(fields, asker))
        verdict = await run_in_threadpool(_verdict, service, asker, check)
    except RunrigError as error:
        return await run_in_threadpool(draw, error=error)
    return await run_in_threadpool(draw, verdict=verdict)


def _submission_of(fields: Fields, asker: Asker, key: str | None = None) -> Submission:
    """Raises InvalidInput."""
    text = fields.get("file", "")
    if not text.strip():
        raise InvalidInput.one("there is no file: paste one, or choose one", "file")
    return Submission(
        text,
        fields.get("pool", ""),
        asker.identity.user,
        variables=_pairs(fields, "values"),
        string_variables=_pairs(fields, "strings"),
        environment=_pairs(fields, "environment"),
        labels=_pairs(fields, "label"),
        priority=_priority(fields),
        uuid=key,
    )


def _pairs(fields: Fields, name: str) -> tuple[str, ...]:
    """The lines of a field, each NAME=VALUE.  Raises InvalidInput."""
    lines = [line.strip() for line in fields.get(name, "").splitlines()]
    for line in lines:
        if line and not line.partition("=")[1]:
            raise InvalidInput.one(f"{line!r:.80} is not NAME=VALUE: write each on a line of its own", name)
    return tuple(line for line in lines if line)


def _priority(fields: Fields) -> Priority | None:
    found = fields.get("priority", "")
    if found not in ("", *PRIORITIES):
        raise InvalidInput.one("choose a priority from the list", "priority")
    return Priority(found) if found else None


def _check_pool(asker: Asker, fields: Fields) -> None:
    """Raises NotAllowed, NotFound, InvalidInput."""
    pool = fields.get("pool", "")
    if not pool:
        raise InvalidInput.one("choose a pool", "pool")
    asker.need(Permission.SUBMIT, About(pool))
    asker.check_there(Permission.SUBMIT, pool)


Verdict = tuple[Accepted, v1.WorkflowDryRun | None]


def _verdict(service: Service, asker: Asker, check: Any) -> Verdict:
    """Answers as `runrig workflow submit --dry-run` does."""
    found: Accepted = check()
    return found, as_answers.dry_run(service.dry_runs.of(found.gangs, asker.visibility))


def _submission(
    request: Request,
    service: Service,
    asker: Asker,
    fields: Fields,
    of: v1.Workflow | None,
    *,
    error: RunrigError | None = None,
    verdict: Verdict | None = None,
    file: str = "",
) -> Response:
    """*of*: the workflow that is submitted again, with *file*; None: what is typed is."""
    pools = asker.submits_to()
    default = of.pool if of is not None else service.access.profile(asker.identity.user).default_of(pools)
    typed = {"pool": default or "", "priority": of.priority if of else ""} | dict.fromkeys(_TYPED, "") | dict(fields)
    known = ("pool", "priority", *(_TYPED if of is None else ()))
    return problem_shown(
        request,
        service,
        "submit.html",
        known,
        error,
        of=of,
        file=file,
        typed=typed,
        pools=pools,
        priorities=PRIORITIES,
        verdict=verdict[1] if verdict else None,
        accepted=verdict[0] if verdict else None,
        shown=tag_of(fields) if verdict else "",
    )


# ---------------------------------------------------------------- again


@router.get("/workflow/{id}/again", dependencies=_CHANGE)
def show_again(request: Asked, service: Serving, asker: Asking, id: str) -> Response:
    return _again(request, service, asker, id, {})


@router.post("/workflow/{id}/again", dependencies=_CHANGE)
async def again(request: Asked, service: Serving, asker: Asking, id: str) -> Response:
    fields = await sent(request)
    draw = partial(_again, request, service, asker, id, fields)
    pool, user = fields.get("pool", ""), asker.identity.user
    try:
        await run_in_threadpool(_check_pool, asker, fields)
        priority = _priority(fields)
        if is_to_be_done(fields):
            command = service.arrivals.submit_again
            accepted = await command(id, pool=pool, user=user, priority=priority, uuid=key_of(fields))
            return _to(accepted.id)
        check = partial(service.submissions.check_again, id, pool=pool, user=user, priority=priority)
        verdict = await run_in_threadpool(_verdict, service, asker, check)
    except RunrigError as error:
        return await run_in_threadpool(draw, error=error)
    return await run_in_threadpool(draw, verdict=verdict)


def _again(request: Request, service: Service, asker: Asker, id: str, fields: Fields, **more: Any) -> Response:
    of, file = _shown(service, asker, id), service.workflow_queries.spec(id).text
    return _submission(request, service, asker, fields, of, file=file, **more)


def _shown(service: Service, asker: Asker, id: str) -> v1.Workflow:
    return as_answers.workflow(service.workflow_queries.workflow(id, asker.visibility), service.backend_name)


# ---------------------------------------------------------------- restart, cancel


@router.get("/workflow/{id}/restart", dependencies=_CHANGE)
def show_restart(request: Asked, service: Serving, asker: Asking, id: str) -> Response:
    return _restart(request, service, asker, id, {})


@router.post("/workflow/{id}/restart", dependencies=_CHANGE)
async def restart(request: Asked, service: Serving, asker: Asking, id: str) -> Response:
    fields = await sent(request)
    try:
        await run_in_threadpool(_check_pool, asker, fields)
        made = await service.arrivals.restart(id, pool=fields["pool"], user=asker.identity.user, uuid=key_of(fields))
    except RunrigError as error:
        return await run_in_threadpool(_restart, request, service, asker, id, fields, error)
    return _to(made.id)


def _restart(
    request: Request, service: Service, asker: Asker, id: str, fields: Fields, error: RunrigError | None = None
) -> Response:
    of = _shown(service, asker, id)
    typed = {"pool": of.pool} | dict(fields)
    return problem_shown(
        request, service, "restart.html", ("pool",), error, it=of, typed=typed, pools=asker.submits_to()
    )


@router.get("/workflow/{id}/cancel", dependencies=_CHANGE)
def show_cancel(request: Asked, service: Serving, asker: Asking, id: str) -> Response:
    return _cancel(request, service, asker, id, {})


@router.post("/workflow/{id}/cancel", dependencies=_CHANGE)
async def cancel(request: Asked, service: Serving, asker: Asking, id: str) -> Response:
    fields = await sent(request)
    user, message = asker.identity.user, fields.get("message", "")
    do = partial(service.arrivals.cancel, id, user=user, message=message)
    try:
        return await done_of(request).once(user, key_of(fields), do, _address(id))
    except RunrigError as error:
        return await run_in_threadpool(_cancel, request, service, asker, id, fields, error)


def _cancel(
    request: Request, service: Service, asker: Asker, id: str, fields: Fields, error: RunrigError | None = None
) -> Response:
    of = _shown(service, asker, id)
    typed = {"message": ""} | dict(fields)
    return problem_shown(request, service, "cancel.html", ("message",), error, it=of, typed=typed, stops=stops(of))


def stops(of: v1.Workflow) -> Mapping[str, int]:
    """Counts what ends if it is cancelled now: *pods* that hold *gpus* on *nodes*, and *groups* that have not started."""
    tasks = [each for group in of.groups for each in group.tasks if each.start_time and not each.end_time]
    return {
        "pods": len(tasks),
        "gpus": sum(len(each.gpus) for each in tasks),
        "nodes": len({each.node for each in tasks if each.node}),
        "groups": sum(1 for group in of.groups if not group.end_time and not group.start_time),
    }


def _address(id: str) -> str:
    return f"/workflow/{quote(id, safe='')}"


def _to(id: str) -> Response:
    return RedirectResponse(_address(id), 303)
