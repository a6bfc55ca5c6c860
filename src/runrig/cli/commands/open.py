"""`runrig open`: prints a URL that signs a browser in."""

import click

from runrig.cli.lazy import examples
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import path


@click.command("open", epilog=examples("runrig open", "xdg-open $(runrig open)"))
@with_session
def open_page(session: Session) -> None:
    """Print a one-time URL of the web page, signed in as you.

    It expires after one minute.
    """
    answer = session.client.call("POST", path("browser-codes"))
    url = f"{session.client.url}/login#{answer['code']}"
    session.say({"url": url, "expires_in_s": answer["expires_in_s"]}, url)
