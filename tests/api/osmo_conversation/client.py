"""The client of OSMO 6.4.0 as a server meets it: how it writes a request, and what it must find in an answer."""

from collections.abc import Mapping
from types import UnionType
from typing import Any

import httpx2

from tests.api.client import URL
from tests.api.permissions.two_teams import TwoTeams

HEADERS = {"User-Agent": "osmo-cli/6.4.0", "Content-Type": "application/json", "x-osmo-client-version": "6.4.0"}
NUMBER = int | float
OPTIONAL = str | None


def send(
    world: TwoTeams,
    actor: str,
    method: str,
    endpoint: str,
    payload: Any = None,
    params: Mapping[str, Any] | None = None,
) -> httpx2.Response:
    """The answer to the request that the client makes: booleans in capitals, lists repeated, what is None left out."""
    query: list[Any] = [
        (name, str(each))
        for name, value in (params or {}).items()
        for each in (value if isinstance(value, list) else [value])
        if each is not None
    ]
    headers = {**HEADERS, "Authorization": f"Bearer {world.tokens[actor]}"}
    return world.api.http.request(method, f"{URL}/{endpoint}", json=payload, params=query, headers=headers)


def said(world: TwoTeams, actor: str, method: str, endpoint: str, payload: Any = None, **params: Any) -> Any:
    """The JSON of a success, which the client takes for one only with status 200 and a body."""
    answer = send(world, actor, method, endpoint, payload, params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(
    world: TwoTeams, actor: str, method: str, endpoint: str, payload: Any = None, **params: Any
) -> tuple[int, str]:
    """(status, message) of an error, in the form that the client can print."""
    answer = send(world, actor, method, endpoint, payload, params)
    body = answer.json()
    fits(body, {"message": str, "error_code": str})
    return answer.status_code, body["message"]


def fits(found: Any, shape: Any, where: str = "answer") -> None:
    """Each field of *shape* is in *found* with its type; ``[shape]`` is a list, ``{str: shape}`` a map.  Other fields may be there."""
    if isinstance(shape, list):
        assert isinstance(found, list), f"{where}: {found!r} is no list"
        for number, each in enumerate(found):
            fits(each, shape[0], f"{where}[{number}]")
    elif isinstance(shape, Mapping):
        assert isinstance(found, dict), f"{where}: {found!r} is no object"
        if set(shape) == {str}:
            for name, each in found.items():
                fits(each, shape[str], f"{where}.{name}")
            return
        for name, each in shape.items():
            assert name in found, f"{where} has no {name}: {found!r}"
            fits(found[name], each, f"{where}.{name}")
    else:
        assert isinstance(shape, type | UnionType)
        right = isinstance(found, shape) and (shape is bool or not isinstance(found, bool))
        assert right, f"{where}: {found!r} is not {shape}"
