"""The route that takes many workflows at once, for our own command line until it has moved to the other door."""

from typing import Annotated

from fastapi import APIRouter, Query

from runrig import wire
from runrig.api.failures import details_of
from runrig.api.osmo.answers import workflows as as_answers
from runrig.api.osmo.workflows import PriorityName
from runrig.api.permissions import asked, needs
from runrig.api.routing import Base, IdempotencyKey, Route, Serving, User, answers
from runrig.domain.access import Permission
from runrig.domain.gangs import Priority
from runrig.service.commands.batches import Outcome
from runrig.service.commands.submissions import Accepted, Submission

router = APIRouter(route_class=Route, tags=["workflows"])


@router.post(
    "/api/workflow:batch",
    summary="Submit up to 1,000 workflows, each on its own, or up to 200, all or nothing",
    description="Success says that each has its result, not that each was submitted.  With an Idempotency-Key the same batch, sent "
    "again, doubles nothing and goes on where the first one was cut off.",
    dependencies=[needs(Permission.SUBMIT, asked("pool"))],
    responses=answers(wire.BatchAnswer, 404, 409, 413),
)
async def submit_batch(
    service: Serving,
    user: User,
    base: Base,
    key: IdempotencyKey,
    body: wire.BatchRequest,
    pool: Annotated[str, Query(description="Where all of them go")],
    priority: Annotated[PriorityName | None, Query(description="Wins over those of the files; else NORMAL")] = None,
    label: Annotated[list[str], Query(description="KEY=VALUE; wins over those of the files")] = [],  # noqa: B006
    env_vars: Annotated[list[str], Query(description="NAME=VALUE for every task")] = [],  # noqa: B006
) -> wire.BatchAnswer:
    batch = [
        Submission(
            text=each.file,
            pool=pool,
            user=user,
            variables=tuple(each.set_variables),
            string_variables=tuple(each.set_string_variables),
            template=each.uploaded_templated_spec,
            environment=tuple(env_vars),
            labels=tuple(label),
            priority=None if priority is None else Priority(priority),
        )
        for each in body.workflows
    ]
    outcomes = await service.arrivals.submit_batch(batch, key=key, together=body.all_or_nothing)
    results = [_result(each, base) for each in outcomes]
    return wire.BatchAnswer(submitted=sum(each.problem is None for each in results), results=results)


def _result(outcome: Outcome, base: str) -> wire.BatchResult:
    if isinstance(outcome, Accepted):
        overview, logs = as_answers.link(base, outcome.id), as_answers.link(base, outcome.id, "/logs")
        return wire.BatchResult(name=outcome.id, overview=overview, logs=logs, warnings=list(outcome.warnings))
    problem = wire.ErrorAnswer(message=outcome.message, error_code=outcome.code, details=details_of(outcome))
    return wire.BatchResult(problem=problem)
