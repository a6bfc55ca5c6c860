"""`runrig version`: works even without a server."""

from typing import Any

from runrig import __version__
from runrig.cli.lazy import command
from runrig.cli.rendering.output import say
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import path
from runrig.domain.errors import ServerFault

_ANSWER_S = 5.0


@command("runrig version", "runrig version -t json")
@with_session
def version(session: Session) -> None:
    """Print the versions of this program and of the server, if one is running."""
    server: dict[str, Any] | None
    try:
        client = session.client
        server = _numbered(client.get(path("version"), timeout_s=_ANSWER_S)["version"])
        there = f"server {server['version']} at {client.url}"
    except ServerFault as error:
        server, there = None, error.message
    if session.show({"client": {"version": __version__}, "server": server}):
        return
    say(f"runrig {__version__}")
    say(there)


def _numbered(version: str) -> dict[str, Any]:
    """Returns it like the osmo client's JSON."""
    major, minor, revision = version.split(".")[:3]
    return {"major": major, "minor": minor, "revision": revision, "hash": "", "version": version}
