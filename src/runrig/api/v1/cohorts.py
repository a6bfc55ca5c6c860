"""Cohorts, and the quota tree of cohorts and pools."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from runrig.api.edits import cohort_edit
from runrig.api.v1.frame import IfMatch, User, creates, empties, reply, shows
from runrig.api.v1.paging import USUAL_PAGE, Cursor, Limit, cut
from runrig.domain.access import Permission
from runrig.domain.shown.pools import Cohort, CohortPage, QuotaTree
from runrig.http.permissions import Seeing, needs
from runrig.http.routing import IdempotencyKey, Route, Serving
from runrig.wire import v1

router = APIRouter(route_class=Route, tags=["cohorts"])

_READ = [needs(Permission.READ_CLUSTER)]
_CHANGE = [needs(Permission.CHANGE_CLUSTER)]


def _place(cohort: Cohort) -> tuple[str]:
    return (cohort.name,)


@router.get(
    "/api/v1/cohorts", summary="List cohorts with their balances", dependencies=_READ, responses=shows(CohortPage)
)
def list_cohorts(service: Serving, visibility: Seeing, limit: Limit = USUAL_PAGE, cursor: Cursor = None) -> CohortPage:
    page, following = cut(service.queries.cohorts(visibility), _place, limit, cursor, str)
    return CohortPage(following, tuple(page))


@router.get(
    "/api/v1/quota-tree",
    summary="Show the whole quota tree: the root, cohorts and pools",
    dependencies=_READ,
    responses=shows(QuotaTree),
)
def get_quota_tree(service: Serving, visibility: Seeing) -> QuotaTree:
    return service.queries.quota_tree(visibility)


@router.get(
    "/api/v1/cohorts/{name}",
    summary="Show a cohort with its balances",
    dependencies=_READ,
    responses=shows(Cohort, 404, tag=True),
)
def get_cohort(service: Serving, visibility: Seeing, name: str) -> Response:
    return _reply(service.queries.cohort(name, visibility))


def _reply(cohort: Cohort, *, created: bool = False) -> Response:
    location = f"/api/v1/cohorts/{cohort.name}" if created else None
    return reply(cohort, 201 if created else 200, location=location)


@router.post(
    "/api/v1/cohorts",
    summary="Create a cohort",
    description="With an Idempotency-Key, an identical existing cohort is returned as if it had just been created.",
    dependencies=_CHANGE,
    responses=creates(Cohort, 404, 409, 413, tag=True),
)
def create_cohort(service: Serving, user: User, key: IdempotencyKey, body: v1.CohortCreate) -> Response:
    service.declarations.create_cohort(
        body.name, cohort_edit(body, service.declarations.kinds()), user=user, again=key is not None
    )
    return _reply(service.queries.cohort(body.name), created=True)


@router.patch(
    "/api/v1/cohorts/{name}",
    summary="Update a cohort",
    dependencies=_CHANGE,
    responses=shows(Cohort, 404, 409, 412, 413, tag=True),
)
def update_cohort(service: Serving, user: User, expected: IfMatch, name: str, body: v1.CohortEdit) -> Response:
    service.declarations.update_cohort(
        name, cohort_edit(body, service.declarations.kinds()), user=user, expected=expected
    )
    return _reply(service.queries.cohort(name))


@router.delete(
    "/api/v1/cohorts/{name}",
    summary="Delete a cohort",
    dependencies=_CHANGE,
    responses=empties(404, 409, 412),
)
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
    service.declarations.delete_cohort(name, user=user, leave_children=leave_children, expected=expected)
