"""Values that page routes take from a request."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from runrig.domain.pools import SUBPOOL_DELIMITER
from runrig.http.routing import Found
from runrig.service.queries.visibility import Visibility
from runrig.service.service import Service
from runrig.web.drawings import colours
from runrig.web.waiting import Reasons

Explaining = Annotated[Reasons, Found(lambda request: request.app.state.reasons)]


def colours_of(service: Service, shown: Sequence[str], visibility: Visibility) -> Mapping[str, str]:
    """Returns a class for each top-level pool of *shown*, the same on every page and at all times."""
    shades = colours(service.queries.pool_names(visibility))
    return {top: shades[top] for top in (name.partition(SUBPOOL_DELIMITER)[0] for name in shown)}
