"""`runrig workflow port-forward`: forwards local ports to a task."""

import itertools
import re
import socket
from contextlib import ExitStack

import click

from runrig.cli import completing
from runrig.cli.lazy import command
from runrig.cli.options import Parsed
from runrig.cli.rendering.output import say
from runrig.cli.transport.remote_program import timeout_option
from runrig.cli.transport.session import Session, with_session
from runrig.client.channel import DatagramForwarder, Forwarder
from runrig.client.transport import path
from runrig.domain.errors import InvalidInput, ServerFault

_PORT = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")
_HIGHEST = 65535
_LOOK_S = 0.5


def _pairs(text: str) -> list[tuple[int, int]]:
    """``LOCAL[:REMOTE]``, each a port or a range, separated by commas. Raises BadParameter."""
    pairs: list[tuple[int, int]] = []
    for part in text.split(","):
        local, _, remote = part.partition(":")
        try:
            pairs += zip(_ports(local), _ports(remote or local), strict=True)
        except ValueError:
            raise click.BadParameter(
                f"{part!r} is not a port. Use 8000, 8000:80, or ranges of the same length such as 8000-8002:80-82."
            ) from None
    return pairs


def _ports(text: str) -> list[int]:
    """``8000-8002`` or ``8000`` → each port. Raises ValueError."""
    found = _PORT.fullmatch(text)
    if found is None:
        raise ValueError(text)
    first, last = int(found[1]), int(found[2] or found[1])
    if not 1 <= first <= last <= _HIGHEST:
        raise ValueError(text)
    return list(range(first, last + 1))


@command(
    "runrig workflow port-forward train-1 main --port 6006",
    "runrig workflow port-forward train-1 main --port 8080:80,9000-9002",
    "runrig workflow port-forward sim-1 main --port 47995-48012 --udp",
)
@click.argument("id", shell_complete=completing.living_workflows)
@click.argument("task", shell_complete=completing.tasks)
@click.option(
    "--port",
    "ports",
    type=Parsed("LOCAL[:REMOTE]", _pairs),
    multiple=True,
    required=True,
    help=("Local port, and the task's port if it differs. Ranges and comma-separated lists are allowed (repeatable)."),
)
@click.option("--host", metavar="HOST", default="localhost", show_default=True, help="Local address to listen on.")
@click.option("--udp", is_flag=True, help="Forward UDP instead of TCP, from IPv4 addresses. Not on Kubernetes.")
@timeout_option
@with_session
def port_forward(
    session: Session, id: str, task: str, ports: tuple[list[tuple[int, int]], ...], host: str, udp: bool, timeout_s: int
) -> None:
    """Forward local ports to a task.

    Runs until you interrupt it or the task ends.
    """
    pairs = list(itertools.chain.from_iterable(ports))
    client = session.client
    take, kind = (receiving, DatagramForwarder) if udp else (listening, Forwarder)
    asked = path("workflows", id, "tasks", task) + ":port-forward"
    with ExitStack() as stack:
        taken = [stack.enter_context(take(host, local)) for local, _ in pairs]
        bodies = [{"port": remote, "udp": udp} for _, remote in pairs]
        answers = [client.call("POST", asked, body=body, timeout_s=timeout_s) for body in bodies]
        forwarders = [kind(client, answer, local, timeout_s) for answer, local in zip(answers, taken, strict=True)]
        for forwarder, (local, remote) in zip(forwarders, pairs, strict=True):
            forwarder.start()
            say(f"{host}:{local} is {'UDP ' if udp else ''}port {remote} of {id}/{task}")
        for forwarder in itertools.cycle(forwarders):
            if forwarder.ended.wait(_LOOK_S):
                raise forwarder.failure or ServerFault(f"ports of {id}/{task} are no longer forwarded: {forwarder.why}")


def listening(host: str, port: int) -> socket.socket:
    """Returns a TCP socket that accepts connections. Raises InvalidInput if the port is in use."""
    try:
        return socket.create_server((host, port))
    except OSError as error:
        raise _taken(host, port, error) from error


def receiving(host: str, port: int) -> socket.socket:
    """As `listening`, for UDP over IPv4."""
    found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        found.bind((host, port))
    except OSError as error:
        found.close()
        raise _taken(host, port, error) from error
    return found


def _taken(host: str, port: int, error: OSError) -> InvalidInput:
    return InvalidInput.one(
        f"port {port} of {host} cannot be used ({error.strerror}). Choose another, such as --port 18080:{port}", "port"
    )
