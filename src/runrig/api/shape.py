"""What all routes have in common: how they are documented, and who asks."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Depends, Header, Request

from runrig.api.failures import Said, documented
from runrig.domain.errors import InvalidInput
from runrig.service import history
from runrig.service.service import Service
from runrig.wire.base import Answer

ALWAYS = (401, 403, 422, 500, 503)
"""Errors that every route with a token may answer."""

LONGEST_USER_NAME = 128

Responses = dict[int | str, dict[str, Any]]


def answers(model: type[Answer], *errors: int, said: Mapping[int, Said] | None = None) -> Responses:
    """``responses=`` of a route that answers *model*: its example, and one of each error.

    *said*: status → message and details that this route would answer, where the usual example says too little.
    """
    content = {"application/json": {"example": model.example()}}
    return {200: {"description": "Done", "content": content}, **documented(*ALWAYS, *errors, said=said)}


def text_answers(example: str, *errors: int) -> Responses:
    """The same for a route that answers plain text."""
    content = {"text/plain": {"schema": {"type": "string"}, "example": example}}
    return {200: {"description": "Text", "content": content}, **documented(*ALWAYS, *errors)}


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def _user(
    request: Request,
    named: Annotated[
        str | None, Header(alias="x-osmo-user", description="Who asks; else the user who started the server.")
    ] = None,
) -> str:
    """Believed: on one machine, whoever has the token is the one who started the server."""
    if named is None or named == "":
        user: str = request.app.state.user
        return user
    if len(named) > LONGEST_USER_NAME or not named.isprintable():
        raise InvalidInput.one(
            f"x-osmo-user {named!r:.80} is no user name: at most {LONGEST_USER_NAME} printable characters"
        )
    if history.is_reserved(named):
        raise InvalidInput.one(
            f"x-osmo-user {named!r} is how the log names what no person did, or a cluster file did: send another name"
        )
    return named


def _base(request: Request) -> str:
    """Of links in answers: as the client called the server."""
    return str(request.base_url).rstrip("/")


Serving = Annotated[Service, Depends(_service)]
User = Annotated[str, Depends(_user)]
Base = Annotated[str, Depends(_base)]
