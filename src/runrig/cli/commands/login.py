"""`runrig login` and `logout`: the token of a server, kept for the commands that come after."""

import os
import sys

import click

from runrig.cli.lazy import examples
from runrig.cli.rendering import sanitize, times
from runrig.cli.rendering.output import say, warn
from runrig.cli.transport.files import read_text
from runrig.client import saved
from runrig.client.server_address import Address, ServerAddress, checked, one_line
from runrig.client.transport import Transport, path
from runrig.domain.errors import InvalidInput, NotFound

_LONGEST = 10_000


@click.command(
    epilog=examples("runrig login https://gpu.example.org", "runrig login https://gpu.example.org --token-file token")
)
@click.argument("url")
@click.option("--token-file", metavar="FILE", help="Reads the token from there; - reads stdin.")
@click.option("--plain-http", is_flag=True, help="Send the token unencrypted over the network.")
def login(url: str, token_file: str | None, plain_http: bool) -> None:
    """Log in to the server at URL: its token is checked, and kept for later commands, which then call this server.

    The token is asked for, or read from --token-file or stdin; never from the command line, which others can see.
    """
    address = checked(url, "the command line")
    if address.url.startswith("http://") and not address.loopback and not plain_http:
        raise InvalidInput.one(
            f"{address.url} is not encrypted, and everybody on the way could read the token: write https://, or --plain-http"
        )
    token = _token(token_file)
    answer = Transport(address, token).get(path("me"))
    saved.write(saved.read().with_token(address.url, token))
    roles = ", ".join(answer["roles"]) or "no roles yet"
    say(sanitize.line(f"logged in at {address.url} as {answer['user']}: {roles}"))
    ends = (answer["token"] or {}).get("expires_at")
    if ends is not None:
        say(f"the token ends {times.local(ends)}")
    for name in ("RUNRIG_SERVER", "RUNRIG_TOKEN"):
        if name in os.environ:
            warn(f"{name} is set, and is stronger than this login")


def _token(file: str | None) -> str:
    if file is not None:
        text, source = read_text(file), file
    elif sys.stdin.isatty():
        text, source = click.prompt("Token", hide_input=True, err=True), "the prompt"
    else:
        text, source = sys.stdin.read(_LONGEST), "stdin"
    token = one_line(text, source)
    if token is None:
        raise InvalidInput.one(
            f"there is no token in {source}: 'runrig token create' on a machine that is logged in makes one"
        )
    return token


@click.command(epilog=examples("runrig logout", "runrig logout https://gpu.example.org"))
@click.argument("url", required=False)
@click.pass_context
def logout(context: click.Context, url: str | None) -> None:
    """Forget the token of the server at URL, or of the one logged in to last.  It stays good: 'runrig token delete' ends it."""
    logins = saved.read()
    server_address = context.find_object(ServerAddress) or ServerAddress()
    server = url or server_address.server or logins.current
    if server is None:
        raise NotFound("you are not logged in anywhere")
    address: Address = checked(server, "the command line")
    if logins.token(address.url) is None:
        raise NotFound(f"you are not logged in at {address.url}")
    saved.write(logins.without(address.url))
    say(sanitize.line(f"logged out of {address.url}"))
