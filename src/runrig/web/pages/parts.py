"""What routes of pages take from a request."""

from collections.abc import Callable
from typing import Annotated

from fastapi import Request

from runrig.api import browsers
from runrig.api.routing import Found
from runrig.domain.access import Identity
from runrig.domain.errors import NotLoggedIn
from runrig.service.service import Service
from runrig.web.waiting import Reasons


def _reasons(request: Request) -> Reasons:
    found: Reasons = request.app.state.reasons
    return found


Asked = Annotated[Request, Found(lambda request: request)]
Explaining = Annotated[Reasons, Found(_reasons)]


def present_of(request: Request, service: Service, who: Identity) -> Callable[[], Identity | None]:
    """Returns a function that tells who asks as of now, with the roles that are left; None: the session has ended, or its token."""
    cookie = None if "authorization" in request.headers else browsers.cookie(request.headers, request.app.state.scheme)

    def present() -> Identity | None:
        if cookie is None:
            return service.access.authentication.present(who)
        try:
            return service.access.browsers.visiting(cookie, None)
        except NotLoggedIn:
            return None

    return present
