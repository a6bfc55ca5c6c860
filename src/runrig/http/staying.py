"""Checks during a stream that the user may still read it: permission, token, session and user.

Used by all streams. Each check uses the current roles.
"""

from typing import Annotated

from fastapi import Request

from runrig.domain.access import Identity
from runrig.domain.errors import NotLoggedIn
from runrig.http.permissions import Needs, declared
from runrig.http.routing import Found
from runrig.service.rights import Asker, Stays
from runrig.service.service import Service

UNBUFFERED = {"X-Accel-Buffering": "no"}
"""Headers of a stream: nginx passes on what has arrived, even if it buffers other responses."""


def staying(request: Request) -> Stays:
    """For a route about one workflow, it queries the store once."""
    asker = Asker(request.state.identity, request.app.state.service)
    needed = [each.lasting(asker, request) for each in declared(request.scope["route"]) if isinstance(each, Needs)]

    def stays() -> Identity | None:
        who = present(request)
        return who if who is not None and all(may(who) for may in needed) else None

    return stays


def present(request: Request) -> Identity | None:
    """Returns the user with their current roles; None if the token or session has ended. Takes no lock and queries no
    database.
    """
    service: Service = request.app.state.service
    if request.state.cookie is None:
        return service.access.authentication.present(request.state.identity)
    try:
        return service.access.browsers.visiting(request.state.cookie, None)
    except NotLoggedIn:
        return None


Staying = Annotated[Stays, Found(staying)]
