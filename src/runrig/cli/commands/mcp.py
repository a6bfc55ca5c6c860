"""`runrig mcp`: a server for agents."""

import socket
from importlib.util import find_spec

import click

from runrig.cli.lazy import command
from runrig.cli.rendering.output import warn
from runrig.client.server_address import ServerAddress
from runrig.domain.errors import InvalidInput, ServerFault
from runrig.domain.quantities import whole_number

LISTEN = "127.0.0.1:8765"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@command("runrig mcp", "runrig mcp --http", "runrig mcp --http --listen 127.0.0.1:9000")
@click.option("--http", is_flag=True, help="Serve HTTP instead of stdio. Each request needs a token of its own.")
@click.option(
    "--listen", metavar="HOST:PORT", default=LISTEN, show_default=True, help="With --http: the address to listen on."
)
@click.option("--server", metavar="URL", help="Server address.")
@click.option("--data", metavar="DIR", help="Data folder of the server, with its token.")
@click.pass_obj
def mcp(before: ServerAddress, http: bool, listen: str, server: str | None, data: str | None) -> None:
    """Serve tools for agents, with the Model Context Protocol (MCP).

    Agents can list and explain workflows, read their output, and submit, hold, change and cancel them. They have the
    permissions of your token, and see each change as a dry run first.

    Over stdio, the agent starts this command, which uses the token of `runrig login`. With --http, it serves /mcp, and
    each request needs `Authorization: Bearer TOKEN`.

    Requires `pip install 'runrig[mcp]'`.
    """
    if find_spec("mcp") is None:
        raise InvalidInput.one("this command needs the MCP SDK. Install it with: pip install 'runrig[mcp]'")
    from runrig.mcp.access import Access
    from runrig.mcp.server import run_http, run_stdio

    found = before.or_else(server, data)
    found.address()  # An invalid address is an error now, not at the first call.
    if not http:
        if listen != LISTEN:
            raise click.UsageError("--listen requires --http")
        run_stdio(Access(found.server, found.data, per_request=False))
        return
    host, listener = _listening(listen)
    name = f"[{host}]" if ":" in host else host
    click.echo(f"Listening on http://{name}:{listener.getsockname()[1]}/mcp")
    run_http(Access(found.server, found.data, per_request=True), listener)


def _listening(listen: str) -> tuple[str, socket.socket]:
    """Raises InvalidInput for an address that is none; ServerFault if it is in use."""
    host, _, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    number = whole_number(port)
    if not host or number is None or number > 65535:
        raise InvalidInput.one(f"--listen {listen!r:.80} is not an address. Use HOST:PORT, such as {LISTEN}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, number), family=family)
    except OSError as error:
        raise ServerFault(f"cannot listen on {listen}: {error.strerror or error}. Use another --listen") from None
    if host not in _LOOPBACK:
        warn(f"Warning: tokens are sent to {host} without encryption. Use a proxy with TLS in front of it")
    return host, listener
