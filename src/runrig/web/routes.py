"""The router of all pages, to which each of their modules adds its routes when `install` imports it."""

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter

from runrig.http.routing import Route

router = APIRouter(route_class=Route, include_in_schema=False)


def form(path: str, **more: Any) -> Callable[..., Any]:
    """A route that shows a form, and takes its answer."""
    return router.api_route(path, methods=["GET", "POST"], **more)
