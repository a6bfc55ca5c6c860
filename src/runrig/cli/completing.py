"""The names that a shell completes: asked of the server, and in silence if it does not answer at once."""

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
"""How long the server has, so that whoever presses a key waits 150 ms at most: this program starts in 60."""
_PATIENCE = "RUNRIG_COMPLETION_S"
_MOST_WORKFLOWS = 200
_LIVING = ("PENDING", "RUNNING")

Completer = Callable[[click.Context, click.Parameter, str], list[str]]
Find = Callable[[Transport, click.Context, str], Iterable[str]]
"""The names that may begin with a text; of the others it may yield some too."""


def _completer(find: Find) -> Completer:
    def complete(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
        given = context.params.get(parameter.name or "")
        there = given if isinstance(given, tuple) else ()
        return [each for each in _in_time(find, context, begun) if each.startswith(begun) and each not in there]

    return complete


def _in_time(find: Find, context: click.Context, begun: str) -> Sequence[str]:
    """All that *find* yields, or nothing: of a part of the names a shell might take the only one for the only one there is."""
    found: list[list[str]] = []

    def ask() -> None:
        with suppress(Exception):  # whatever is wrong, a line that is being typed is no place to say so
            found.append(list(find(_client(context), context, begun)))

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_patience_s())
    return found[0] if found else ()


def _patience_s() -> float:
    """What the environment says, for a server that is far away."""
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


def _names(client: Transport, *route: str) -> Iterator[str]:
    for each in client.items(path(*route)):
        yield each["name"]


def _workflows(client: Transport, begun: str, **query: Any) -> Iterator[str]:
    """The newest of them."""
    for each in client.items(path("workflows"), {**query, "name": begun or None}, most=_MOST_WORKFLOWS):
        yield each["id"]


def _subpools(client: Transport, context: click.Context) -> Iterator[str]:
    for each in client.items(path("pools")):
        if each["parent"] == context.params.get("parent"):
            yield each["name"].removeprefix(f"{each['parent']}--")


def _tasks(client: Transport, context: click.Context) -> Iterator[str]:
    # What stands before an option that has no value yet is not taken apart.
    id = context.params["id"] or context.args[0]
    answer = client.get(path("workflows", id))
    return iter(dict.fromkeys(task["name"] for group in answer["groups"] for task in group["tasks"]))


pools = _completer(lambda client, _, __: _names(client, "pools"))
subpools = _completer(lambda client, context, _: _subpools(client, context))
cohorts = _completer(lambda client, _, __: _names(client, "cohorts"))
users = _completer(lambda client, _, __: _names(client, "users"))
"""For those who may see them; nothing for others."""
nodes = _completer(lambda client, _, __: _names(client, "nodes"))
workflows = _completer(lambda client, _, begun: _workflows(client, begun))
living_workflows = _completer(lambda client, _, begun: _workflows(client, begun, status=_LIVING))
tasks = _completer(lambda client, context, _: _tasks(client, context))


def files(_context: click.Context, _parameter: click.Parameter, begun: str) -> "list[CompletionItem]":
    """Leaves it to the shell, which knows how."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(begun, type="file")]
