"""Routes of cohorts."""

from typing import Annotated

from fastapi import APIRouter, Query

from runrig import wire
from runrig.api.edits import cohort_edit
from runrig.api.osmo.answers import pools as as_answers
from runrig.api.permissions import Seeing, needs
from runrig.api.routing import Route, Serving, User, answers
from runrig.domain.access import Permission

router = APIRouter(route_class=Route, tags=["cohorts"])

_READ = [needs(Permission.READ_CLUSTER)]
_CHANGE = [needs(Permission.CHANGE_CLUSTER)]


@router.get("/api/cohort", summary="The quota tree", dependencies=_READ, responses=answers(wire.CohortsAnswer))
def list_cohorts(service: Serving, visibility: Seeing) -> wire.CohortsAnswer:
    return as_answers.quota_tree(service.queries.quota_tree(visibility))


@router.get(
    "/api/cohort/{name}",
    summary="One cohort with its balances",
    dependencies=_READ,
    responses=answers(wire.CohortAnswer, 404),
)
def show_cohort(service: Serving, visibility: Seeing, name: str) -> wire.CohortAnswer:
    return as_answers.cohort(service.queries.cohort(name, visibility))


@router.post(
    "/api/cohort",
    summary="Create a cohort",
    dependencies=_CHANGE,
    responses=answers(wire.CohortAnswer, 404, 409),
)
def create_cohort(service: Serving, user: User, body: wire.CohortCreateRequest) -> wire.CohortAnswer:
    service.declarations.create_cohort(body.name, cohort_edit(body), user=user)
    return as_answers.cohort(service.queries.cohort(body.name))


@router.patch(
    "/api/cohort/{name}",
    summary="Change a cohort",
    dependencies=_CHANGE,
    responses=answers(wire.CohortAnswer, 404, 409),
)
def update_cohort(service: Serving, user: User, name: str, body: wire.CohortEditRequest) -> wire.CohortAnswer:
    service.declarations.update_cohort(name, cohort_edit(body), user=user)
    return as_answers.cohort(service.queries.cohort(name))


@router.put(
    "/api/cohort/{name}",
    summary="Change a cohort, like PATCH",
    dependencies=_CHANGE,
    responses=answers(wire.CohortAnswer, 404, 409),
)
def put_cohort(service: Serving, user: User, name: str, body: wire.CohortEditRequest) -> wire.CohortAnswer:
    return update_cohort(service, user, name, body)


@router.delete(
    "/api/cohort/{name}",
    summary="Delete a cohort",
    dependencies=_CHANGE,
    responses=answers(wire.DeletedAnswer, 404, 409),
)
def delete_cohort(
    service: Serving,
    user: User,
    name: str,
    leave_children: Annotated[
        bool, Query(description="Also with children: they stay under a cohort that is only named (law Q6)")
    ] = False,
) -> wire.DeletedAnswer:
    service.declarations.delete_cohort(name, user=user, leave_children=leave_children)
    return wire.DeletedAnswer(name=name)
