"""Notices of the user's workflows: where they are sent, and what came of the last one."""

from runrig.api.routes import Router
from runrig.domain.access import Permission
from runrig.domain.notices import When
from runrig.domain.shown.notices import NoticeSettings, NoticeTest
from runrig.http.permissions import needs
from runrig.http.routing import Serving, User
from runrig.wire import v1

router = Router("access")

_CHANGE = needs(Permission.CHANGE_OWN)


@router("GET /api/v1/me/notices", needs(Permission.OWN_CREDENTIALS))
def get_notices(service: Serving, user: User) -> NoticeSettings:
    """Show where notices of your workflows are sent."""
    return service.notices.shown(user)


@router("PUT /api/v1/me/notices", _CHANGE)
def put_notices(service: Serving, user: User, body: v1.NoticesRequest) -> NoticeSettings:
    """Send notices of your workflows to an https or mail address.

    Replaces the previous address. The answer has the secret that signs notices if an https address is new.
    """
    when = tuple(When(each) for each in body.when)
    return service.notices.set(user, body.to, when, body.min_run_s, service.stored)


@router("DELETE /api/v1/me/notices", _CHANGE)
def delete_notices(service: Serving, user: User) -> None:
    """Stop notices of your workflows."""
    service.notices.turn_off(user)


@router("POST /api/v1/me/notices:test", _CHANGE)
def test_notices(service: Serving, user: User) -> NoticeTest:
    """Send a test notice, and wait for the result."""
    return NoticeTest(service.notices.test(user))
