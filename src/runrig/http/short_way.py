"""A fast path to routes: valid requests are read here, others by the framework, which reports what is wrong.

The framework determines for each request how to read each parameter, which costs more than most routes. Here that
happens once per route.
"""

from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Any, get_args, get_origin

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runrig.domain.errors import InvalidInput, Problem
from runrig.domain.statuses import UnknownParameter
from runrig.http.body_limits import again
from runrig.spec import strict_json

JSON = "application/json"
LONGEST = 64 * 1024
"""Bytes of a body on the fast path."""


class Odd(Exception):
    """The request is invalid; the framework reports why."""


@dataclass(frozen=True, slots=True)
class _Parameter:
    """*read*: returns the value of the raw parameter, and its problems."""

    name: str
    alias: str
    read: Callable[[Any], tuple[Any, list[Any]]]
    required: bool
    default: Any
    is_list: bool

    @classmethod
    def of(cls, field: Any) -> "_Parameter":
        """Converts the framework's own *field*."""
        required = field.field_info.is_required()
        default = None if required else field.default
        shape = field.field_info.annotation
        is_list = any(get_origin(each) is list for each in (shape, *get_args(shape)))  # or `list[...] | None`
        return cls(field.name, field.alias, field.validate, required, default, is_list)

    def value(self, sent: Any) -> Any:
        value, problems = self.read(sent)
        if problems:
            raise Odd
        return value

    def left_out(self) -> Any:
        if self.required:
            raise Odd
        return copy(self.default)

    def among(self, sent: QueryParams) -> Any:
        if self.alias not in sent:
            return self.left_out()
        return self.value(sent.getlist(self.alias) if self.is_list else sent[self.alias])


class ShortWay:
    """*route*: its parameters are in path, query and a JSON body, and its dependencies need only the request.

    Its endpoint also takes the request as *request_name* and returns a response. *framework*: the slow path.
    """

    def __init__(self, route: APIRoute, framework: ASGIApp, request_name: str) -> None:
        known = route.dependant
        assert not [*known.header_params, *known.cookie_params], f"{route.path}: headers must be read with `Found`"
        assert len(known.body_params) < 2, f"{route.path} has two bodies"
        self.framework = framework
        self._request_name = request_name
        self._path = [_Parameter.of(each) for each in known.path_params]
        self._query = [_Parameter.of(each) for each in known.query_params]
        self._body = _Parameter.of(known.body_params[0]) if known.body_params else None
        self._checks: list[Callable[..., Awaitable[None]]] = [each.call for each in known.dependencies if each.call]
        self._endpoint = route.endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        if scope["query_string"]:
            self._check_known(request.query_params)
        sent = b"" if self._body is None else await _body(request)
        asked = self._in_order(request, sent)
        if asked is None:
            whole: Message = {"type": "http.request", "body": sent, "more_body": False}
            await self.framework(scope, receive if self._body is None else again([whole], receive), send)
            return
        for check in self._checks:
            await check(request)
        asked[self._request_name] = request
        if iscoroutinefunction(self._endpoint):
            response: Response = await self._endpoint(**asked)
        else:
            response = await run_in_threadpool(self._endpoint, **asked)
        await response(scope, receive, send)

    def _check_known(self, sent: QueryParams) -> None:
        """Raises UnknownParameter, because ignoring a filter would list too much, or something else."""
        known = {each.alias: each.is_list for each in self._query}
        problems = [
            Problem(f"unknown parameter {name!r:.80}. Parameters: {', '.join(known) or 'none'}", name[:80])
            for name in sent
            if name not in known
        ]
        problems += [
            Problem(f"the parameter {name!r} was sent twice. Send it once", name)
            for name, is_list in known.items()
            if not is_list and len(sent.getlist(name)) > 1
        ]
        if problems:
            raise UnknownParameter(tuple(problems))

    def _in_order(self, request: Request, body: bytes) -> dict[str, Any] | None:
        """Returns the parameters by name; None if the request is invalid, or too long to be read twice if it is."""
        if len(body) > LONGEST:
            return None
        try:
            return self._asked(request, body)
        except Odd:
            return None

    def _asked(self, request: Request, body: bytes) -> dict[str, Any]:
        """Returns the parameters by name. Raises Odd."""
        there: Mapping[str, Any] = request.path_params
        asked = {each.name: each.value(there[each.name]) for each in self._path}
        if request.scope["query_string"]:
            query = request.query_params
            asked.update((each.name, each.among(query)) for each in self._query)
        else:
            asked.update((each.name, each.left_out()) for each in self._query)
        if self._body is not None:
            asked[self._body.name] = self._body.value(_json(request, body)) if body else self._body.left_out()
        return asked


async def _body(request: Request) -> bytes:
    try:
        return await request.body()
    except ClientDisconnect:
        raise HTTPException(400) from None


def read_body(body: bytes) -> Any:
    """Returns the value of JSON. Raises InvalidInput if an object has a field twice, ValueError, RecursionError."""
    try:
        return strict_json.read(body)
    except strict_json.FieldTwice as error:
        raise InvalidInput((error.problem,)) from None


def _json(request: Request, body: bytes) -> dict[str, Any]:
    """Returns the fields of *body*. Raises Odd unless it is a JSON object, and InvalidInput if it has a field twice."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise Odd
    try:
        found = read_body(body)
    except (ValueError, RecursionError):
        raise Odd from None
    if not isinstance(found, dict):
        raise Odd
    return found
