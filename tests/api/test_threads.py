"""What a request costs beside its work: the way into a thread and back, once, because many requests at once wait there for each other."""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.dependencies.models import Dependant

from runrig.api import app as application
from runrig.http.permissions import Needs, Open
from runrig.http.routing import Route

ROUTES = [route for router in application.ROUTERS for route in router.routes]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{min(route.methods)} {route.path}")
def test_only_the_work_of_a_route_takes_a_thread(route: Any) -> None:
    assert isinstance(route, Route)
    assert [each for each in _below(route.dependant) if not isinstance(each, Needs | Open)] == []


def _below(dependant: Dependant) -> Iterator[Any]:
    for each in dependant.dependencies:
        yield each.call
        yield from _below(each)
