"""The route that shows a workflow as objects of Kubernetes."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query

from runrig import wire
from runrig.api.permissions import named, needs
from runrig.api.routing import Route, Serving, User, answers
from runrig.backends.kubernetes import objects
from runrig.domain.access import Permission
from runrig.domain.gangs import Priority
from runrig.service.commands.submissions import Submission
from runrig.service.runtime.rendering import DEFAULT_NAMESPACE

router = APIRouter(route_class=Route, tags=["workflows"])


@router.post(
    "/api/pool/{pool}/render",
    summary="The Kubernetes objects that a workflow becomes; nothing is stored",
    dependencies=[needs(Permission.SUBMIT, named("pool"))],
    responses=answers(wire.RenderAnswer, 404, 413),
)
def render(
    service: Serving,
    user: User,
    pool: str,
    body: wire.SubmitRequest,
    priority: Annotated[
        Literal["HIGH", "NORMAL", "LOW"] | None, Query(description="Wins over the file's; else NORMAL")
    ] = None,
    env_vars: Annotated[list[str], Query(description="NAME=VALUE for every task")] = [],  # noqa: B006
    label: Annotated[list[str], Query(description="KEY=VALUE; wins over the file's")] = [],  # noqa: B006
    namespace: Annotated[str, Query(description="That the gangs live in")] = DEFAULT_NAMESPACE,
) -> wire.RenderAnswer:
    submission = Submission(
        text=body.file,
        pool=pool,
        user=user,
        variables=tuple(body.set_variables),
        string_variables=tuple(body.set_string_variables),
        template=body.uploaded_templated_spec,
        environment=tuple(env_vars),
        labels=tuple(label),
        priority=None if priority is None else Priority(priority),
    )
    return wire.RenderAnswer(objects=list(objects.render(service.submissions.blueprint(submission, namespace))))
