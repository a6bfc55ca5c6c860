"""Shared by all routes: how they are called, and what they take from the request itself."""

import re
import uuid
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, iscoroutinefunction, signature
from typing import Annotated, Any, get_args

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import Message, Receive, Scope, Send

from runrig.domain.access import Identity
from runrig.domain.errors import InvalidInput
from runrig.domain.tags import Expected
from runrig.domain.value import Tagged
from runrig.http.short_way import ShortWay, read_body
from runrig.service.service import Service
from runrig.wire.base import Json, json_of

# ---------------------------------------------------------------- what a route takes from the request itself


@dataclass(frozen=True, slots=True)
class Found:
    """In ``Annotated``: *find* returns the value of a parameter, in the thread of the route. It can be a coroutine function if the
    route is one.

    As a dependency of the framework, each would cost the event loop as much as the rest of the request. *documented*:
    the header that it reads.
    """

    find: Callable[[Request], Any]
    documented: Mapping[str, Any] | None = None


def header(name: str, description: str, **more: str) -> dict[str, Any]:
    schema = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    return {"name": name, "in": "header", "required": False, "description": description, "schema": schema, **more}


_REQUEST = "found_in"
"""The parameter in which the framework passes the request."""


class _Strict(Request):
    """As the framework reads a body that the fast path does not."""

    async def json(self) -> Any:
        return read_body(await self.body())


class Route(APIRoute):
    """Calls `Found`, writes the response in the thread of its endpoint, and has a fast path for requests (`ShortWay`).

    The framework would validate the response again, in a second thread.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **more: Any) -> None:
        found = _found(endpoint)
        headers = [dict(each.documented) for each in found.values() if each.documented is not None]
        if headers:
            extra = more.get("openapi_extra") or {}
            more["openapi_extra"] = {**extra, "parameters": [*extra.get("parameters", ()), *headers]}
        super().__init__(path, _served(endpoint, found), **more)
        self.app = ShortWay(self, self.app, _REQUEST)
        self._beginning = self.path.partition("{")[0]

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await handle(_Strict(request.scope, request.receive))

        return strict

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """The framework tries each route in turn, with a regular expression."""
        if not scope["path"].startswith(self._beginning):
            return Match.NONE, {}
        return super().matches({**scope, "method": "GET"} if self._heads(scope) else scope)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._heads(scope):
            scope, send = {**scope, "method": "GET"}, _without_body(send)
        await super().handle(scope, receive, send)

    def _heads(self, scope: Scope) -> bool:
        """Whether this is a HEAD request for what GET returns here."""
        methods = self.methods or ()
        return scope.get("method") == "HEAD" and "GET" in methods and "HEAD" not in methods


def _without_body(send: Send) -> Send:
    """Ends the response after its headers, so that a stream does not keep a client that waits for none of it."""
    is_over = False

    async def head(message: Message) -> None:
        nonlocal is_over
        if not is_over:
            is_over = message["type"] == "http.response.start"
            await send(message)
            await send({"type": "http.response.body", "body": b""})

    return head


def _found(endpoint: Callable[..., Any]) -> dict[str, Found]:
    """Returns the `Found` markers of the parameters, by name."""
    marks = {
        parameter.name: next((mark for mark in get_args(parameter.annotation)[1:] if isinstance(mark, Found)), None)
        for parameter in signature(endpoint).parameters.values()
    }
    return {name: mark for name, mark in marks.items() if mark is not None}


def _served(endpoint: Callable[..., Any], found: Mapping[str, Found]) -> Callable[..., Any]:
    """Returns *endpoint* as the framework calls it: with the request in place of the `Found` parameters."""
    awaited = [name for name, mark in found.items() if iscoroutinefunction(mark.find)]

    def complete(request: Request, asked: dict[str, Any]) -> dict[str, Any]:
        return asked | {name: mark.find(request) for name, mark in found.items()}

    @wraps(endpoint)
    def serve(found_in: Request, **asked: Any) -> Response:
        return _written(endpoint(**complete(found_in, asked)))

    @wraps(endpoint)
    async def serve_async(found_in: Request, **asked: Any) -> Response:
        given = complete(found_in, asked)
        for name in awaited:
            given[name] = await given[name]
        return _written(await endpoint(**given))

    served: Callable[..., Any] = serve_async if iscoroutinefunction(endpoint) else serve
    left = [each for name, each in signature(endpoint).parameters.items() if name not in found]
    asked_for = [*left, Parameter(_REQUEST, Parameter.KEYWORD_ONLY, annotation=Request)]
    keywords = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in asked_for]
    vars(served)["__signature__"] = signature(endpoint).replace(parameters=keywords)
    return served


def _written(answer: Json | Response | None) -> Response:
    if answer is None:
        return Response(status_code=204)
    return answer if isinstance(answer, Response) else reply(answer)


def reply(body: Json, status: int = 200, **headers: str | None) -> Response:
    """*headers*: with underscores instead of dashes; None: omitted. A value adds its ETag."""
    if isinstance(body, Tagged):
        headers = {"etag": body.etag} | headers
    sent = {name.replace("_", "-"): value for name, value in headers.items() if value is not None}
    return Response(json_of(body), status, sent, media_type="application/json")


def source(scope: Scope) -> str:
    """Returns the client's address."""
    client = scope.get("client")
    return str(client[0]) if client else "unknown"


_TAG = re.compile(r'(?P<weak>W/)?"(?P<tag>[\x21\x23-\x7e]*)"')


def _expected(request: Request) -> Expected:
    """Returns the tags of If-Match; a weak tag never matches."""
    sent = request.headers.getlist("if-match")
    if not sent or sent == ["*"]:
        return None
    parts = [part.strip() for part in ",".join(sent).split(",")]
    found = [_TAG.fullmatch(part) for part in parts]
    if None in found:
        raise InvalidInput.one(
            f'If-Match {", ".join(sent)!r:.80} is not a list of ETags. Send one exactly as received: "…"', "If-Match"
        )
    return frozenset(each["tag"] for each in found if each is not None and not each["weak"])


def _key(request: Request) -> str | None:
    values = request.headers.getlist("idempotency-key")
    if not values:
        return None
    if len(values) > 1:
        raise InvalidInput.one("the header Idempotency-Key was sent twice. Send it once")
    (value,) = values
    try:
        return str(uuid.UUID(value))
    except ValueError:
        raise InvalidInput.one(
            f"Idempotency-Key {value!r:.80} is not a UUID. Use a new UUID for each submission"
        ) from None


_USER_HEADER = header(
    "x-osmo-user",
    "Act as this user, with that user's permissions (only with `up`). Default: the user of the token.",
)
_KEY_HEADER = header(
    "Idempotency-Key",
    "A UUID. Repeating a submission with it returns the workflow that the first request created.",
    example="5f0c3a1e-8d2b-4c47-9a3e-2f6b7c1d0e9f",
)

_TAG_HEADER = header("If-Match", "The ETag that was read. The edit is refused if the object has changed since.")

Asked = Annotated[Request, Found(lambda request: request)]
"""The request itself. When it ends, the response is no longer needed."""
Serving = Annotated[Service, Found(lambda request: request.app.state.service)]
Who = Annotated[Identity, Found(lambda request: request.state.identity)]
"""The identity set by the guard."""
User = Annotated[str, Found(lambda request: request.state.identity.user)]
NamedUser = Annotated[str, Found(lambda request: request.state.identity.user, _USER_HEADER)]
"""The same in the osmo API, which has requests on behalf of others."""
Base = Annotated[str, Found(lambda request: f"{request.scope['scheme']}://{request.headers['host']}")]
"""The base of links in responses: the address with which the client called the server."""
Source = Annotated[str, Found(lambda request: source(request.scope))]
IdempotencyKey = Annotated[str | None, Found(_key, _KEY_HEADER)]
IfMatch = Annotated[Expected, Found(_expected, _TAG_HEADER)]
