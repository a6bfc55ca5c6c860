"""Names for shell completion, from the server; none if it does not respond immediately."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from runrig.client.server_address import ServerAddress
from runrig.client.sign_in import SignIn
from runrig.client.transport import Transport, path

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

LONGEST_S = 0.08
"""Seconds the server has, so that a keypress takes at most 150 ms; this program starts in 60 ms."""
_PATIENCE = "RUNRIG_COMPLETION_S"
_MOST_WORKFLOWS = 200
_LIVING = ("PENDING", "RUNNING")

Completer = Callable[[click.Context, click.Parameter, str], list[str]]
Find = Callable[[Transport, click.Context, str], Iterable[str]]
"""Returns names that may begin with a text, possibly with others."""


def _completer(find: Find) -> Completer:
    def complete(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
        given = context.params.get(parameter.name or "")
        there = given if isinstance(given, tuple) else ()
        return [each for each in _in_time(find, context, begun) if each.startswith(begun) and each not in there]

    return complete


def _in_time(find: Find, context: click.Context, begun: str) -> Sequence[str]:
    """Returns everything that *find* yields, or nothing: with a partial list a shell may insert the wrong name."""
    found: list[list[str]] = []

    def ask() -> None:
        with suppress(Exception):  # A half-typed line is not the place to report errors.
            found.append(list(find(_client(context), context, begun)))

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_patience_s())
    return found[0] if found else ()


def _patience_s() -> float:
    """Returns the value in the environment, for a remote server."""
    try:
        said = float(os.environ.get(_PATIENCE, LONGEST_S))
    except ValueError:
        return LONGEST_S
    return said if 0 <= said <= threading.TIMEOUT_MAX else LONGEST_S


def _client(context: click.Context) -> Transport:
    own, root = context.params, context.find_root().params
    found = ServerAddress(own.get("server") or root.get("server"), own.get("data") or root.get("data"))
    address = found.address()
    return Transport(address, SignIn(found, address))


def _names(route: str) -> Completer:
    return _completer(lambda client, _, __: (each["name"] for each in client.items(path(route))))


def _workflows(client: Transport, begun: str, **query: Any) -> Iterator[str]:
    """Yields the newest ones."""
    for each in client.items(path("workflows"), {**query, "name": begun or None}, most=_MOST_WORKFLOWS):
        yield each["id"]


@_completer
def subpools(client: Transport, context: click.Context, _: str) -> Iterator[str]:
    for each in client.items(path("pools")):
        if each["parent"] == context.params.get("parent"):
            yield each["name"].removeprefix(f"{each['parent']}--")


@_completer
def tasks(client: Transport, context: click.Context, _: str) -> Iterator[str]:
    # Click does not parse what precedes an option without a value.
    id = context.params["id"] or context.args[0]
    answer = client.get(path("workflows", id))
    return iter(dict.fromkeys(task["name"] for group in answer["groups"] for task in group["tasks"]))


pools = _names("pools")
cohorts = _names("cohorts")
users = _names("users")
"""For users with permission; nothing for others."""
nodes = _names("nodes")
workflows = _completer(lambda client, _, begun: _workflows(client, begun))
living_workflows = _completer(lambda client, _, begun: _workflows(client, begun, status=_LIVING))


def files(_context: click.Context, _parameter: click.Parameter, begun: str) -> "list[CompletionItem]":
    """Leaves it to the shell."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(begun, type="file")]
