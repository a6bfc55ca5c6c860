"""Routes of nodes."""

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from runrig import wire
from runrig.api.osmo.answers.resources import resource, resources
from runrig.api.permissions import Seeing, needs
from runrig.api.routing import Route, Serving, answers
from runrig.domain.access import Permission

LONGEST_PAGE = 1000

router = APIRouter(route_class=Route, tags=["resources"])


@router.get(
    "/api/resources",
    summary="Nodes, what they have and who holds it",
    dependencies=[needs(Permission.READ_CLUSTER)],
    response_model=wire.ResourcesAnswer,
    responses=answers(wire.ResourcesAnswer, 404),
)
def list_resources(
    service: Serving,
    visibility: Seeing,
    pools: Annotated[
        list[str], Query(description="Only nodes that these pools may use, and only these rows of them")
    ] = [],  # noqa: B006
    platforms: Annotated[list[str], Query(description="Only nodes of these flavors")] = [],  # noqa: B006
    all_pools: Annotated[bool, Query(description="Nodes of all pools, whatever `pools` says")] = False,
    limit: Annotated[int | None, Query(ge=1, le=LONGEST_PAGE, description="None: all, as a stream")] = None,
    offset: Annotated[int, Query(ge=0)] = 0,
) -> StreamingResponse:
    views, more = service.queries.nodes(
        pools=() if all_pools else pools, platforms=platforms, visibility=visibility, limit=limit, offset=offset
    )
    return StreamingResponse(resources(views, more=more), media_type="application/json")


@router.get(
    "/api/resources/{name}",
    summary="One node",
    dependencies=[needs(Permission.READ_CLUSTER)],
    responses=answers(wire.ResourcesAnswer, 404),
)
def show_resource(service: Serving, visibility: Seeing, name: str) -> wire.ResourcesAnswer:
    return wire.ResourcesAnswer(resources=[resource(service.queries.node(name, visibility))])
