"""The routes of both APIs. Each says its path and who may use it; the document has the rest from its types and its docstring."""

from collections.abc import Callable, Mapping
from inspect import cleandoc
from typing import Any, TypedDict, TypeVar, Unpack, get_args, get_origin

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from starlette.routing import BaseRoute

from runrig.api.error_docs import Said, errors_of
from runrig.domain.value import Shown
from runrig.http.routing import IfMatch, Route
from runrig.wire.base import Model, example_of

ALWAYS = (400, 401, 403, 422, 429, 500, 503)
"""Errors that any route with a token may return."""

RECORDS = "application/x-ndjson"

F = TypeVar("F", bound=Callable[..., Any])
Kind = type[Shown] | type[Model]
Documented = dict[int | str, dict[str, Any]]


class Told(TypedDict, total=False):
    """Further properties of a route. *shows*: the kind of the answer. *creates*: the same, with status 201 and its path; *tries*: or
    with 200 after a dry run. *tag*: with its ETag. *content*: of JSON, instead of the example of the kind. *text*: an example of an
    answer in text, of *media_type*; *records*: or as JSON lines.

    *errors*: statuses, in addition to `ALWAYS` and those of what it takes; *only*: instead of these. *said*: the same, with message and
    details, where the usual example is not specific enough. *description*: if the docstring cannot contain it.
    """

    shows: Kind
    creates: Kind
    tries: bool
    tag: bool
    content: Mapping[str, Any]
    text: str
    media_type: str
    records: str
    errors: tuple[int, ...]
    only: tuple[int, ...]
    said: Mapping[int, Said]
    description: str
    openapi_extra: dict[str, Any]


class Router:
    """The routes of a module, under *tag* in the document."""

    def __init__(self, tag: str) -> None:
        self._router = APIRouter(route_class=Route, tags=[tag])

    @property
    def routes(self) -> list[BaseRoute]:
        return self._router.routes

    def __call__(self, place: str, *may: Any, **told: Unpack[Told]) -> Callable[[F], F]:
        """Makes a function the route at *place*, such as ``GET /api/v1/users``. *may*: the permissions that it needs. The first
        paragraph of its docstring is the summary in the document, the rest the description.
        """
        method, path = place.split()

        def add(endpoint: F) -> F:
            summary, _, description = cleandoc(endpoint.__doc__ or "").partition("\n\n")
            status, model, answers = _answers(endpoint.__annotations__["return"], told)
            self._router.add_api_route(
                path,
                endpoint,
                methods=[method],
                summary=_in_a_line(summary).removesuffix("."),
                description=told.get("description") or _in_a_line(description or summary),
                dependencies=may,
                response_model=model,
                status_code=status,
                response_class=Response if "text" in told else JSONResponse,
                responses=answers | errors_of(path, _statuses(path, endpoint, told), told.get("said", {})),
                openapi_extra=told.get("openapi_extra"),
            )
            return endpoint

        return add


def _in_a_line(text: str) -> str:
    return " ".join(text.split())


def _statuses(path: str, endpoint: Callable[..., Any], told: Told) -> set[int]:
    """Returns the statuses of errors: of any route, of what this one takes, and those that it says."""
    if "only" in told:
        return set(told["only"])
    takes = endpoint.__annotations__
    of_what = {404: "{" in path, 412: IfMatch in takes.values(), 413: "body" in takes}
    return {
        *ALWAYS,
        *(status for status, can in of_what.items() if can),
        *told.get("errors", ()),
        *told.get("said", ()),
    }


def _answers(returned: Any, told: Told) -> tuple[int, Any, Documented]:
    """Returns the status and the model of a success, and what the document says about it."""
    if "text" in told:
        texts = {told.get("media_type", "text/plain"): told["text"]}
        texts |= {RECORDS: told["records"]} if "records" in told else {}
        content = {kind: {"schema": {"type": "string"}, "example": text} for kind, text in texts.items()}
        return 200, None, {200: {"description": "Text", "content": content}}
    if returned is None:
        return 204, None, {204: {"description": "Done"}}
    model: Any = told.get("creates") or told.get("shows", returned)
    if isinstance(model, type) and issubclass(model, Response):
        model = None
    shown: dict[str, Any] = {"content": {"application/json": _content(model, told)}}
    if told.get("tag"):
        shown["headers"] = {"ETag": {"description": "For If-Match", "schema": {"type": "string"}}}
    if "creates" not in told:
        return 200, model, {200: {"description": "Done", **shown}}
    location = {"Location": {"description": "Path of the created object", "schema": {"type": "string"}}}
    created = shown | {"description": "Created", "headers": location | shown.get("headers", {})}
    preview: Documented = {200: {"model": model, "description": "Preview", **shown}} if told.get("tries") else {}
    return 201, model, preview | {201: created}


def _content(model: Any, told: Told) -> dict[str, Any]:
    if "content" in told:
        return dict(told["content"])
    kinds = get_args(model)
    example = example_of(kinds[0] if kinds else model)
    return {"example": [example] if get_origin(model) is list else example}
