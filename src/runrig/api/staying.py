"""Who asks, as of now: what goes on after the request ends with the right to it, the token, the session or the user.

One way for all that streams.  The roles are those of now, each time that it is asked.
"""

from typing import Annotated

from fastapi import Request

from runrig.api.permissions import Needs, declared
from runrig.api.routing import Found
from runrig.domain.access import Identity
from runrig.domain.errors import NotLoggedIn
from runrig.service.rights import Asker, Stays
from runrig.service.service import Service


def staying(request: Request) -> Stays:
    """For a route about one workflow it asks the store, once."""
    asker = Asker(request.state.identity, request.app.state.service)
    needed = [each.lasting(asker, request) for each in declared(request.scope["route"]) if isinstance(each, Needs)]

    def stays() -> Identity | None:
        who = present(request)
        return who if who is not None and all(may(who) for may in needed) else None

    return stays


def present(request: Request) -> Identity | None:
    """Who asks, with the roles that they have by now; None: the token or the session has ended.  Takes no lock and asks no database."""
    service: Service = request.app.state.service
    if request.state.cookie is None:
        return service.access.authentication.present(request.state.identity)
    try:
        return service.access.browsers.visiting(request.state.cookie, None)
    except NotLoggedIn:
        return None


Staying = Annotated[Stays, Found(staying)]
