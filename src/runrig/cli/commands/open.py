"""`runrig open`: prints a URL that signs a browser in."""

from runrig.cli.lazy import command
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import path


@command("runrig open", "xdg-open $(runrig open)", name="open")
@with_session
def open_page(session: Session) -> None:
    """Print a one-time URL of the web page, signed in as you.

    It expires after one minute.
    """
    answer = session.client.call("POST", path("browser-codes"))
    url = f"{session.client.url}/login#{answer['code']}"
    session.say({"url": url, "expires_in_s": answer["expires_in_s"]}, url)
