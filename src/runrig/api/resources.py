"""Routes of nodes."""

from typing import Annotated

from fastapi import APIRouter, Query

from runrig import wire
from runrig.api.answers.resources import resource
from runrig.api.shape import Serving, answers

router = APIRouter(tags=["resources"])


@router.get(
    "/api/resources", summary="Nodes, what they have and who holds it", responses=answers(wire.ResourcesAnswer, 404)
)
def list_resources(
    service: Serving,
    pools: Annotated[list[str], Query(description="Only nodes that these pools may use")] = [],  # noqa: B006
    platforms: Annotated[list[str], Query(description="Only nodes of these flavors")] = [],  # noqa: B006
    all_pools: bool = False,  # noqa: ARG001 - of the reference client, which sends it beside `pools`
) -> wire.ResourcesAnswer:
    views = service.queries.nodes(pools=pools, platforms=platforms)
    return wire.ResourcesAnswer(resources=[resource(view, service.backend_name) for view in views])


@router.get("/api/resources/{name}", summary="One node", responses=answers(wire.ResourcesAnswer, 404))
def show_resource(service: Serving, name: str) -> wire.ResourcesAnswer:
    return wire.ResourcesAnswer(resources=[resource(service.queries.node(name), service.backend_name)])
