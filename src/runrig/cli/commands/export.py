"""`runrig export`: prints everything declared as a cluster file."""

import click

from runrig.cli.lazy import examples
from runrig.cli.rendering.output import say
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import path


@click.command(epilog=examples("runrig export > cluster.yaml", "runrig export | runrig apply -f - --dry-run"))
@with_session
def export(session: Session) -> None:
    """Export pools, cohorts and roles as a cluster file.

    Applying it to the same server changes nothing.
    """
    answer = session.client.get(path("cluster-file"))
    if not session.show(answer):
        say(answer["file"].removesuffix("\n"))
