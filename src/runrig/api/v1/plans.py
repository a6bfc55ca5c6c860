"""Plans: the effects of an edit, without making it."""

from fastapi import Response

from runrig.api.edits import pool_edit
from runrig.api.routes import Router
from runrig.api.v1.workflows import submission_of
from runrig.domain.access import Permission
from runrig.domain.shown.plans import Plan
from runrig.http.leaving import leaving_of
from runrig.http.permissions import Asking, Sent, needs
from runrig.http.routing import Asked, Serving, User, reply
from runrig.service.commands.submission import read
from runrig.service.foresight.questions import (
    OfDomain,
    OfDrain,
    OfEdit,
    OfFile,
    OfPause,
    OfResume,
    OfSubmission,
    Question,
)
from runrig.service.rights import Asker
from runrig.wire import v1

router = Router("server")


@router("POST /api/v1/plan", needs(Permission.CHANGE_POOL, Sent("pool")), shows=Plan, errors=(404, 409))
def make_plan(service: Serving, user: User, asker: Asking, request: Asked, body: v1.PlanRequest) -> Response:
    """Preview the effect of an edit, a loss of nodes or a submission. Nothing is stored.

    A plan needs the same permission as the edit: `change cluster` for a cluster file or a loss of nodes, that of
    the update for a quota, `submit` for a submission.
    """
    leaving, question = leaving_of(request), _question(asker, user, body)
    found = service.plans.shown(question, user=user, visibility=asker.visibility, leaving=leaving)
    return Response(status_code=499) if found is None else reply(found)


def _question(asker: Asker, user: str, body: v1.PlanRequest) -> Question:
    """Returns the edit, pause, loss of nodes or submission to plan, if the user may make it.

    Raises NotAllowed, NotFound, InvalidInput.
    """
    edit = body.edit or (None if body.quota is None else v1.PoolEdit(quota=body.quota))
    if body.pool is not None and edit is not None:
        asker.check_promise(body.pool, edit.model_fields_set)
        return OfEdit(body.pool, pool_edit(body.pool, edit, asker.service.declarations.kinds()))
    if body.pool is not None:
        return OfPause(body.pool, user, body.until) if body.act == "pause" else OfResume(body.pool)
    if body.submission is not None:
        asker.need_submit(body.submission.pool)
        return OfSubmission(read(submission_of(body.submission, body.submission, user, asker.visibility)))
    asker.need(Permission.CHANGE_CLUSTER)
    if body.file is not None:
        return OfFile(body.file, body.prune)
    return OfDomain(body.down or "") if body.drain is None else OfDrain(tuple(body.drain), body.force, user)
