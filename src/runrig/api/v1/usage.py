"""GPU usage by user, pool, flavor and priority."""

from typing import Annotated

from fastapi import Query

from runrig.api.routes import Router
from runrig.api.times import At
from runrig.domain.access import Permission
from runrig.domain.shown.usage import Usage
from runrig.http.permissions import Seeing, needs
from runrig.http.routing import Serving
from runrig.service.usage.usage_queries import By, Every, UsageQuery

router = Router("usage")


@router("GET /api/v1/usage", needs(Permission.LIST_POOLS), errors=(404,))
def get_usage(
    service: Serving,
    visibility: Seeing,
    by: Annotated[list[By], Query(description="Group by this (repeatable)")] = [By.POOL],  # noqa: B006
    since: Annotated[
        At | None, Query(description="From the beginning of this hour. Default: 7 days before `until`")
    ] = None,
    until: Annotated[At | None, Query(description="Until the end of this hour. Default: now")] = None,
    every: Annotated[Every | None, Query(description="A row for each of these, in UTC; weeks begin on Monday")] = None,
    pool: Annotated[list[str], Query(description="Only these pools and their subpools")] = [],  # noqa: B006
    user: Annotated[list[str], Query(description="Only these users")] = [],  # noqa: B006
    flavor: Annotated[list[str], Query(description="Only these flavors")] = [],  # noqa: B006
    tree: Annotated[bool, Query(description="Also a row for each pool together with its subpools")] = False,
) -> Usage:
    """Show who held, waited for, borrowed, lent and lost how many GPUs.

    In GPU-seconds. You see the pools that you can read, and your own work in all pools. The rest is one row without
    names for each bucket of time and flavor. Hours are kept for 90 days, days for 2 years.
    """
    query = UsageQuery(
        tuple(dict.fromkeys(by)),
        since,
        until,
        every,
        tuple(pool),
        tuple(user),
        tuple(flavor),
        tree,
    )
    return service.usage_queries.usage(query, visibility)
