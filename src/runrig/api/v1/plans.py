"""What an edit would do, before anybody makes it."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from runrig.api.edits import check_promise
from runrig.api.http.leaving import watch
from runrig.api.permissions import About, Asker, Asking, Sent, needs
from runrig.api.routing import Asked, Route, Serving
from runrig.api.v1.answers.declared import change
from runrig.api.v1.frame import User, reply, shows
from runrig.api.v1.workflows import submission_of
from runrig.domain.access import Permission
from runrig.domain.errors import Unavailable
from runrig.domain.shown.plans import Plan
from runrig.service.commands.edits import PoolEdit
from runrig.service.commands.submissions import read
from runrig.service.foresight.questions import OfDomain, OfDrain, OfEdit, OfFile, OfSubmission, Question
from runrig.service.mirror.leaving import Leaving
from runrig.service.mirror.mirror import GivenUp
from runrig.service.service import Service
from runrig.wire import v1

router = APIRouter(route_class=Route, tags=["server"])


@router.post(
    "/api/v1/plan",
    summary="Preview the effect of an edit, a loss of nodes or a submission. Nothing is stored",
    description="Whoever may make an edit may plan it: a cluster file and the loss of nodes need `change cluster`, a quota what "
    "changing the pool needs, a submission `submit`.",
    dependencies=[needs(Permission.CHANGE_POOL, Sent("pool"))],
    response_model=Plan,
    responses=shows(Plan, 404, 409, 413),
)
async def make_plan(service: Serving, user: User, asker: Asking, request: Asked, body: v1.PlanRequest) -> Response:
    found = await planned(request, service, asker, user, lambda: _question(asker, user, body))
    return Response(status_code=499) if found is None else reply(found)


async def planned(
    request: Request, service: Service, asker: Asker, user: str, question: Callable[[], Question]
) -> Plan | None:
    """The plan for *question*, which is made in another thread; None if whoever sent *request* has left meanwhile.

    Raises what *question* raises, and what `Plans.plan` raises.
    """
    leaving = Leaving()
    watching = asyncio.create_task(watch(request, leaving))

    def answer() -> Plan:
        found = service.plans.plan(question(), user=user, visibility=asker.visibility, leaving=leaving)
        verdict = service.dry_runs.of(found.queued, asker.visibility) if found.queued else None
        return replace(found.plan, changes=tuple(map(change, found.changes)), verdict=verdict)

    try:
        return await run_in_threadpool(answer)
    except GivenUp:
        if not leaving.left:
            raise Unavailable("the plan took too long. Ask for a smaller change") from None
        return None
    finally:
        watching.cancel()


def _question(asker: Asker, user: str, body: v1.PlanRequest) -> Question:
    """Raises NotAllowed, NotFound, InvalidInput."""
    if body.pool is not None and body.quota is not None:
        check_promise(asker, body.pool, {"quota"})
        return OfEdit(body.pool, PoolEdit(quota=body.quota))
    if body.submission is not None:
        pool = body.submission.pool
        asker.need(Permission.SUBMIT, About(pool))
        asker.check_there(Permission.SUBMIT, pool)
        return OfSubmission(read(submission_of(body.submission, body.submission, user)))
    asker.need(Permission.CHANGE_CLUSTER)
    if body.file is not None:
        return OfFile(body.file, body.prune)
    return OfDomain(body.down or "") if body.drain is None else OfDrain(tuple(body.drain), body.force, user)
