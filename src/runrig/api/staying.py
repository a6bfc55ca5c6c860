"""Who asks, as of now: what goes on after the request ends with the right to it, the token, the session or the user.

One way for all that streams.  The roles are those of now, each time that it is asked.
"""

from collections.abc import Callable
from typing import Annotated

from fastapi import Request

from runrig.api.permissions import Asker, Needs, declared
from runrig.api.routing import Found
from runrig.domain.access import Identity
from runrig.domain.errors import NotLoggedIn
from runrig.service.queries.visibility import Visibility
from runrig.service.service import Service

STILL_S = 5.0
"""How often at least everything that streams asks whether it may go on."""

Stays = Callable[[], Identity | None]
"""Who asks with the roles that are left; None: not any more.  Takes no lock and asks no database."""


def staying(request: Request) -> Stays:
    """For a route about one workflow it asks the store, once."""
    asker = Asker(request.state.identity, request.app.state.service)
    needed = [each.lasting(asker, request) for each in declared(request.scope["route"]) if isinstance(each, Needs)]

    def stays() -> Identity | None:
        who = present(request)
        return who if who is not None and all(may(who) for may in needed) else None

    return stays


def seeing_as_much(stays: Stays, visibility: Visibility) -> Callable[[], Visibility | None]:
    """Returns a function that tells what is seen by now; None if that is no longer as much as at the beginning.

    Who sees other pools than before has to read anew what a stream told.
    """

    def sees() -> Visibility | None:
        who = stays()
        now = None if who is None else Visibility(who)
        return now if now is not None and now.sight == visibility.sight else None

    return sees


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
