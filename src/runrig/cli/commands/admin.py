"""`runrig admin`: what an admin does to a server that runs."""

import click

from runrig.cli.lazy import examples
from runrig.cli.printed.times import naive
from runrig.cli.rendering import times
from runrig.cli.rendering.output import say
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import path


@click.group(epilog=examples("runrig admin accept-clock"))
def admin() -> None:
    """What an admin does to a server that runs."""


@admin.command("accept-clock", epilog=examples("runrig admin accept-clock", "runrig admin accept-clock -t json"))
@with_session
def accept_clock(session: Session) -> None:
    """Let the server believe its machine's clock again, after it was put forward or back.

    See first that the clock is right: what the server's time goes forward by counts for the limits of what runs, and for what is
    deleted by age. It never goes back; of a clock that is behind, the difference is no longer reported.
    """
    found = session.client.call("POST", path("clock", "accept"))
    answer = found | {name: naive(found[name]) for name in ("before", "now")}
    if session.show(answer):
        return
    before, now = times.local(answer["before"]), times.local(answer["now"])
    say(f"the server's time was {before} and is {now}; {answer['doubt'] or 'nothing was wrong with the clock'}")
