"""Notices of the user's workflows: where they are sent, and what came of the last one."""

from fastapi import APIRouter

from runrig.api.v1.frame import User, empties, shows
from runrig.domain.access import Permission
from runrig.domain.notices import When
from runrig.domain.shown.notices import NoticeSettings, NoticeTest
from runrig.http.permissions import needs
from runrig.http.routing import Route, Serving
from runrig.wire import v1

router = APIRouter(route_class=Route, tags=["access"])

_CHANGE = [needs(Permission.CHANGE_OWN)]


@router.get(
    "/api/v1/me/notices",
    summary="Show where notices of your workflows are sent",
    dependencies=[needs(Permission.OWN_CREDENTIALS)],
    responses=shows(NoticeSettings),
)
def get_notices(service: Serving, user: User) -> NoticeSettings:
    return service.notices.shown(user)


@router.put(
    "/api/v1/me/notices",
    summary="Send notices of your workflows to an https or mail address",
    description="Replaces the previous address. The answer has the secret that signs notices if an https address is new.",
    dependencies=_CHANGE,
    responses=shows(NoticeSettings),
)
def put_notices(service: Serving, user: User, body: v1.NoticesRequest) -> NoticeSettings:
    when = tuple(When(each) for each in body.when)
    return service.notices.set(user, body.to, when, body.min_run_s, service.stored)


@router.delete(
    "/api/v1/me/notices",
    summary="Stop notices of your workflows",
    dependencies=_CHANGE,
    responses=empties(),
)
def delete_notices(service: Serving, user: User) -> None:
    service.notices.turn_off(user)


@router.post(
    "/api/v1/me/notices:test",
    summary="Send a test notice, and wait for the result",
    dependencies=_CHANGE,
    responses=shows(NoticeTest),
)
def test_notices(service: Serving, user: User) -> NoticeTest:
    return NoticeTest(service.notices.test(user))
