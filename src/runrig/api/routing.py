"""Shared by all routes: how they are documented, and who is asking."""

import uuid
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import iscoroutinefunction
from typing import Annotated, Any

from fastapi import Depends, Header, Request, Response
from fastapi.routing import APIRoute

from runrig.api.failures import Said, documented
from runrig.domain.access import Identity
from runrig.domain.errors import InvalidInput
from runrig.service.queries import history
from runrig.service.service import Service
from runrig.wire.base import Answer

ALWAYS = (401, 403, 422, 429, 500, 503)
"""Errors that any route with a token may return."""

LONGEST_USER_NAME = 128

Responses = dict[int | str, dict[str, Any]]


def answers(model: type[Answer], *errors: int, said: Mapping[int, Said] | None = None) -> Responses:
    """``responses=`` of a route that returns *model*: its example, and one of each error.

    *said*: status → message and details, for errors whose usual example says too little.
    """
    content = {"application/json": {"example": model.example()}}
    return {200: {"description": "Done", "content": content}, **documented(*ALWAYS, *errors, said=said)}


def text_answers(example: str, *errors: int, listed: type[Answer] | None = None) -> Responses:
    """The same for a route that returns plain text or, on request, a JSON list of *listed*."""
    content: dict[str, Any] = {"text/plain": {"schema": {"type": "string"}, "example": example}}
    if listed is not None:
        schema = {"type": "array", "items": listed.model_json_schema()}
        content["application/json"] = {"schema": schema, "example": [listed.example()]}
    return {200: {"description": "Text", "content": content}, **documented(*ALWAYS, *errors)}


class Route(APIRoute):
    """Writes its answer in the thread that found it: the framework would validate it again, in a second thread."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **more: Any) -> None:
        super().__init__(path, endpoint if iscoroutinefunction(endpoint) else _written(endpoint), **more)


def _written(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(endpoint)
    def write(**asked: Any) -> Any:
        answer = endpoint(**asked)
        if not isinstance(answer, Answer):
            return answer
        return Response(answer.model_dump_json(), media_type="application/json")

    return write


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def _who(request: Request) -> Identity:
    """The identity that the guard found."""
    identity: Identity = request.state.identity
    return identity


async def _user(
    identity: Annotated[Identity, Depends(_who)],
    named: Annotated[
        str | None,
        Header(alias="x-osmo-user", description="Who asks, believed by `up` alone; else the user of the token."),
    ] = None,
) -> str:
    """The user who acts.  With `up`, the holder of the token started the server and may name another user."""
    if not identity.speaks_for_others or not named:
        return identity.user
    if len(named) > LONGEST_USER_NAME or not named.isprintable():
        raise InvalidInput.one(
            f"x-osmo-user {named!r:.80} is no user name: at most {LONGEST_USER_NAME} printable characters"
        )
    if history.is_reserved(named):
        raise InvalidInput.one(
            f"x-osmo-user {named!r} is how the log names what no person did, or a cluster file did: send another name"
        )
    return named


async def _base(request: Request) -> str:
    """The base of links in answers: the address under which the client called the server."""
    return str(request.base_url).rstrip("/")


async def _key(
    value: Annotated[
        str | None,
        Header(
            alias="Idempotency-Key",
            description="A UUID: the same submission sent again with it is answered with the workflow that the first one made.",
            examples=["5f0c3a1e-8d2b-4c47-9a3e-2f6b7c1d0e9f"],
        ),
    ] = None,
) -> str | None:
    if value is None:
        return None
    try:
        return str(uuid.UUID(value))
    except ValueError:
        raise InvalidInput.one(
            f"Idempotency-Key {value!r:.80} is no UUID: make a new one for each submission"
        ) from None


Serving = Annotated[Service, Depends(_service)]
Who = Annotated[Identity, Depends(_who)]
User = Annotated[str, Depends(_user)]
Base = Annotated[str, Depends(_base)]
IdempotencyKey = Annotated[str | None, Depends(_key)]
