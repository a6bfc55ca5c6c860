"""Shared by the routes of API v1: documentation, request headers, and responses."""

import re
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Request

from runrig.domain.access import Identity
from runrig.domain.errors import InvalidInput
from runrig.domain.tags import Expected
from runrig.domain.value import Shown
from runrig.http.error_docs import Said, problems
from runrig.http.routing import ALWAYS, Found, Responses, header
from runrig.http.routing import reply as reply
from runrig.wire.base import Model, example_of

_TAG = re.compile(r'(?P<weak>W/)?"(?P<tag>[\x21\x23-\x7e]*)"')


Examples = Mapping[int, Said] | None


def shows(model: type[Shown] | type[Model], *errors: int, said: Examples = None, tag: bool = False) -> Responses:
    """``responses=`` of a route that returns *model* with status 200. *tag*: also with its ETag."""
    return _responses(200, "Done", model, errors, said, {"ETag": _TAG_HEADER} if tag else {})


def creates(
    model: type[Shown] | type[Model], *errors: int, said: Examples = None, tag: bool = False, tries: bool = False
) -> Responses:
    """The same for a route that returns 201 and the location. *tries*: also 200, if nothing was done."""
    headers = {"Location": _LOCATION_HEADER} | ({"ETag": _TAG_HEADER} if tag else {})
    tried = shows(model, said=said, tag=tag)[200] | {"description": "Preview"}
    return ({200: tried} if tries else {}) | _responses(201, "Created", model, errors, said, headers)


def empties(*errors: int, said: Examples = None) -> Responses:
    """The same for a route that returns 204 without a body."""
    return {204: {"description": "Done"}, **problems(*ALWAYS, *errors, said=said)}


def texts(example: str, *errors: int, media_type: str = "text/plain") -> Responses:
    """The same for a route that returns text."""
    content = {media_type: {"schema": {"type": "string"}, "example": example}}
    return {200: {"description": "Text", "content": content}, **problems(*ALWAYS, *errors)}


def _responses(
    status: int,
    words: str,
    model: type[Shown] | type[Model],
    errors: tuple[int, ...],
    said: Examples,
    headers: Mapping[str, Any],
) -> Responses:
    content = {"application/json": {"example": example_of(model)}}
    shown: dict[str, Any] = {"model": model, "description": words, "content": content}
    return {
        status: shown | ({"headers": dict(headers)} if headers else {}),
        **problems(*ALWAYS, *errors, said=said),
    }


_TAG_HEADER = {"description": "For If-Match", "schema": {"type": "string"}}
_LOCATION_HEADER = {"description": "Path of the created object", "schema": {"type": "string"}}


def _user(request: Request) -> str:
    identity: Identity = request.state.identity
    return identity.user


User = Annotated[str, Found(_user)]
"""The actor: the user of the token. API v1 has no requests on behalf of others."""


def quoted(tag: str) -> str:
    """Returns it quoted, as in a header."""
    return f'"{tag}"'


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


IfMatch = Annotated[
    Expected,
    Found(
        _expected, header("If-Match", "The ETag that was read. The edit is refused if the object has changed since.")
    ),
]
