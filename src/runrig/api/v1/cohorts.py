"""Cohorts, and the quota tree of cohorts and pools."""

from typing import Annotated

from fastapi import Query, Response

from runrig.api.edits import cohort_edit
from runrig.api.routes import Router
from runrig.api.v1.paging import USUAL_PAGE, Cursor, Limit, cut
from runrig.domain.access import Permission
from runrig.domain.shown.pools import Cohort, CohortPage, QuotaTree
from runrig.http.permissions import Seeing, needs
from runrig.http.routing import IdempotencyKey, IfMatch, Serving, User, reply
from runrig.wire import v1

router = Router("cohorts")

_READ = needs(Permission.READ_CLUSTER)
_CHANGE = needs(Permission.CHANGE_CLUSTER)


def _place(cohort: Cohort) -> tuple[str]:
    return (cohort.name,)


@router("GET /api/v1/cohorts", _READ)
def list_cohorts(service: Serving, visibility: Seeing, limit: Limit = USUAL_PAGE, cursor: Cursor = None) -> CohortPage:
    """List cohorts with their balances."""
    page, following = cut(service.queries.cohorts(visibility), _place, limit, cursor, str)
    return CohortPage(following, tuple(page))


@router("GET /api/v1/quota-tree", _READ)
def get_quota_tree(service: Serving, visibility: Seeing) -> QuotaTree:
    """Show the whole quota tree: the root, cohorts and pools."""
    return service.queries.quota_tree(visibility)


@router("GET /api/v1/cohorts/{name}", _READ, tag=True)
def get_cohort(service: Serving, visibility: Seeing, name: str) -> Cohort:
    """Show a cohort with its balances."""
    return service.queries.cohort(name, visibility)


@router("POST /api/v1/cohorts", _CHANGE, creates=Cohort, tag=True, errors=(404, 409))
def create_cohort(service: Serving, user: User, key: IdempotencyKey, body: v1.CohortCreate) -> Response:
    """Create a cohort.

    With an Idempotency-Key, an identical existing cohort is returned as if it had just been created.
    """
    service.declarations.create_cohort(
        body.name, cohort_edit(body, service.declarations.kinds()), user=user, again=key is not None
    )
    return reply(service.queries.cohort(body.name), 201, location=f"/api/v1/cohorts/{body.name}")


@router("PATCH /api/v1/cohorts/{name}", _CHANGE, tag=True, errors=(409,))
def update_cohort(service: Serving, user: User, expected: IfMatch, name: str, body: v1.CohortEdit) -> Cohort:
    """Update a cohort."""
    service.declarations.update_cohort(
        name, cohort_edit(body, service.declarations.kinds()), user=user, expected=expected
    )
    return service.queries.cohort(name)


@router("DELETE /api/v1/cohorts/{name}", _CHANGE, errors=(409,))
def delete_cohort(
    service: Serving,
    user: User,
    expected: IfMatch,
    name: str,
    leave_children: Annotated[
        bool,
        Query(
            description="Delete the cohort even if it has children. They stay under its name, at the top of the tree"
        ),
    ] = False,
) -> None:
    """Delete a cohort."""
    service.declarations.delete_cohort(name, user=user, leave_children=leave_children, expected=expected)
