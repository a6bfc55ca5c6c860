"""`runrig login` and `logout`: save or delete the token for a server. `runrig open` signs a browser in."""

import os
import sys

import click

from runrig.cli.lazy import command
from runrig.cli.rendering import sanitize, times
from runrig.cli.rendering.output import say, warn
from runrig.cli.transport.files import read_text
from runrig.cli.transport.session import Session, with_session
from runrig.client import saved
from runrig.client.server_address import Address, ServerAddress, checked, one_line
from runrig.client.transport import Transport, path
from runrig.domain.errors import InvalidInput, NotFound

_LONGEST = 10_000
TOKEN, OIDC = "token", "oidc"


@command(
    "runrig login https://gpu.example.org",
    "runrig login https://gpu.example.org --token-file token",
    "runrig login https://gpu.example.org --method oidc",
)
@click.argument("url")
@click.option(
    "--method",
    type=click.Choice([TOKEN, OIDC]),
    default=TOKEN,
    help="oidc: sign in at the server's identity provider.",
)
@click.option(
    "--device", is_flag=True, help="With oidc: confirm a code in a browser on any machine. Default without a display."
)
@click.option("--token-file", metavar="FILE", help="File to read the token from; - reads stdin.")
@click.option("--plain-http", is_flag=True, help="Send the token unencrypted over the network.")
def login(url: str, method: str, device: bool, token_file: str | None, plain_http: bool) -> None:
    """Log in to the server at URL.

    Checks your token and stores it; later commands use this server. The token is prompted for, or read from
    --token-file or stdin, never from the command line, which other users can see. With --method oidc, a browser
    opens instead, and later commands renew the sign-in while the identity provider allows it.
    """
    if method == OIDC and token_file is not None:
        raise InvalidInput.one("--token-file requires --method token. Omit one of them.")
    if method == TOKEN and device:
        raise InvalidInput.one("--device requires --method oidc. Use both.")
    address = checked(url, "the command line")
    if address.url.startswith("http://") and not address.loopback and not plain_http:
        raise InvalidInput.one(
            f"{address.url} is not encrypted, so the token could be read on the network. Use https://, or --plain-http to accept this."
        )
    kept = _signed_in(address, device) if method == OIDC else saved.read().with_token(address.url, _token(token_file))
    answer = Transport(address, kept.token(address.url)).get(path("me"))
    saved.write(kept)
    roles = ", ".join(answer["roles"]) or "no roles yet"
    say(sanitize.line(f"logged in to {address.url} as {answer['user']}: {roles}"))
    ends = (answer["token"] or {}).get("expires_at")
    if kept.renewal(address.url) is not None:
        say("The sign-in is renewed automatically while the identity provider allows it.")
    elif ends is not None:
        say(f"the token expires {times.local(ends)}")
    for name in ("RUNRIG_SERVER", "RUNRIG_TOKEN"):
        if name in os.environ:
            warn(f"{name} is set and overrides this login")


def _signed_in(address: Address, device: bool) -> saved.Logins:
    from runrig.cli.commands import sign_in  # Needs an HTTP server, which other logins do not.
    from runrig.client.sign_in import with_sign_in

    answer = sign_in.signed_in(Transport(address, None), device=device)
    return with_sign_in(saved.read(), address.url, answer)


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
            f"no token in {source}. Create one with `runrig token create` on a machine that is logged in."
        )
    return token


@command("runrig logout", "runrig logout https://gpu.example.org")
@click.argument("url", required=False)
@click.pass_obj
def logout(default: ServerAddress, url: str | None) -> None:
    """Delete the stored token of a server.

    Default: the server of the last login. The token stays valid; revoke it with `runrig token delete`.
    """
    logins = saved.read()
    server = url or default.server or logins.current
    if server is None:
        raise NotFound("You are not logged in to any server.")
    address: Address = checked(server, "the command line")
    if logins.token(address.url) is None:
        raise NotFound(f"you are not logged in to {address.url}")
    saved.write(logins.without(address.url))
    say(sanitize.line(f"logged out of {address.url}"))


@command("runrig open", "xdg-open $(runrig open)", name="open")
@with_session
def open_page(session: Session) -> None:
    """Print a one-time URL of the web page, signed in as you.

    It expires after one minute.
    """
    answer = session.client.call("POST", path("browser-codes"))
    url = f"{session.client.url}/login#{answer['code']}"
    session.say({"url": url, "expires_in_s": answer["expires_in_s"]}, url)
