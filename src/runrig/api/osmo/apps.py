"""Apps of the osmo API, which runrig does not have: workflow files are submitted directly."""

from typing import Annotated

from fastapi import APIRouter, Query

from runrig import wire
from runrig.domain.access import Permission
from runrig.http.permissions import needs
from runrig.http.routing import Route, answers

router = APIRouter(route_class=Route, tags=["workflows"])


@router.get(
    "/api/app",
    summary="List apps (always empty)",
    dependencies=[needs(Permission.LIST_POOLS)],
    responses=answers(wire.AppsAnswer),
)
def list_apps(
    name: str | None = None,  # noqa: ARG001 - this and the others choose among none
    users: Annotated[list[str], Query()] = [],  # noqa: B006, ARG001
    all_users: bool = False,  # noqa: ARG001
    order: str = "ASC",  # noqa: ARG001
    limit: int = 20,  # noqa: ARG001
    offset: int = 0,  # noqa: ARG001
) -> wire.AppsAnswer:
    return wire.AppsAnswer(apps=[], more_entries=False)
