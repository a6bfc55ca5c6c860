"""What routes of pages take from a request."""

from typing import Annotated

from fastapi import Request

from runrig.api.routing import Asked as Asked
from runrig.api.routing import Found
from runrig.web.waiting import Reasons


def _reasons(request: Request) -> Reasons:
    found: Reasons = request.app.state.reasons
    return found


Explaining = Annotated[Reasons, Found(_reasons)]
