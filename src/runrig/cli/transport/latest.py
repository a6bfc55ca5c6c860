"""The default workflow: the latest one that the user submitted."""

from runrig.cli.rendering.output import warn
from runrig.cli.transport.session import Session
from runrig.client.transport import path
from runrig.domain.errors import InvalidInput


def or_latest(session: Session, id: str | None) -> str:
    """Returns *id*, or the user's latest workflow, whose id goes to stderr. Raises InvalidInput if there is none."""
    if id is not None:
        return id
    for latest in session.client.items(path("workflows"), {"mine": True}, most=1):
        found = str(latest["id"])
        warn(f"{found} (your latest workflow)")
        return found
    raise InvalidInput.one(
        "you have no workflow yet. Start one with `runrig run -- COMMAND`, or give the ID of another workflow"
    )
