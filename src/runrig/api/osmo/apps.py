"""Apps of the osmo API, which runrig does not have: workflow files are submitted directly."""

from typing import Annotated

from fastapi import Query

from runrig.api.osmo import models
from runrig.api.routes import Router
from runrig.domain.access import Permission
from runrig.http.permissions import needs

router = Router("workflows")


@router("GET /api/app", needs(Permission.LIST_POOLS))
def list_apps(
    name: str | None = None,  # noqa: ARG001 - this and the others choose among none
    users: Annotated[list[str], Query()] = [],  # noqa: B006, ARG001
    all_users: bool = False,  # noqa: ARG001
    order: str = "ASC",  # noqa: ARG001
    limit: int = 20,  # noqa: ARG001
    offset: int = 0,  # noqa: ARG001
) -> models.AppsAnswer:
    """List apps (always empty)."""
    return models.AppsAnswer(apps=[], more_entries=False)
