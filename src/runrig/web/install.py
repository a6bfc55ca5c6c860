"""Adds the page to the application."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from runrig.domain.errors import RunrigError
from runrig.domain.statuses import headers_of, status_of
from runrig.http import browsers, permissions
from runrig.service.service import Service
from runrig.web import files, login, sign_in  # noqa: F401 - their routes
from runrig.web.forms import Done
from runrig.web.live import Hub
from runrig.web.pages import (  # noqa: F401 - their routes
    access,
    acts,
    apply,
    arrays,
    columns,
    credentials,
    edits,
    find,
    limits,
    map,
    me,
    node,
    overview,
    past,
    pool,
    run,
    several,
    tokens,
    usage,
    workflow,
    workflows,
)
from runrig.web.refreshing import Refreshes
from runrig.web.rendering import capital, html
from runrig.web.routes import router
from runrig.web.waiting import Reasons

ROUTES = router.routes
"""The routes of all pages, whose modules are imported above."""
_TITLES = {
    400: "Invalid request",
    403: "Not allowed",
    404: "Not found",
    422: "Invalid request",
    503: "Try again later",
    429: "Too many requests",
}


def install(app: FastAPI, service: Service, *, scheme: str = "http") -> None:
    """*scheme*: with which browsers reach the server."""
    app.state.scheme = scheme
    app.state.problem_page = problem_page
    app.state.reasons = Reasons(service)
    hub = app.state.hub = Hub(service)
    app.state.refreshes = Refreshes(lambda: hub.streams)
    app.state.done = Done()
    permissions.install(app, [*ROUTES, *sign_in.answers.routes])
    _show_problems(app)


def _show_problems(app: FastAPI) -> None:
    """Shows errors of pages as pages. Programs still get JSON errors."""
    otherwise = {kind: app.exception_handlers[kind] for kind in (RunrigError, HTTPException, RequestValidationError)}

    async def shown(request: Request, error: Exception) -> Response:
        if not (browsers.is_page(request.url.path) and browsers.wants_page(request.headers)):
            handler: Any = next(each for kind, each in otherwise.items() if isinstance(error, kind))
            answered: Response = await handler(request, error)
            return answered
        if isinstance(error, RunrigError):
            return problem_page(request, status_of(error), error.message, headers_of(error))
        if isinstance(error, RequestValidationError):
            return problem_page(request, 422, "the address of this page is invalid")
        if isinstance(error, HTTPException) and error.status_code != 404:
            return problem_page(request, error.status_code, str(error.detail), error.headers or {})
        return problem_page(request, 404, "page not found")

    for kind in otherwise:
        app.add_exception_handler(kind, shown)


def problem_page(
    request: Request, status: int, message: str, headers: Mapping[str, str] = MappingProxyType({})
) -> Response:
    title, sentence = _TITLES.get(status, "Something went wrong"), f"{capital(message)}."
    page = html(request, "problem.html", status=status, title=title, message=sentence)
    page.headers.update(headers)
    return page
