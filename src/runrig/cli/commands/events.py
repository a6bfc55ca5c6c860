"""`runrig events`: what happened in the whole cluster."""

import click

from runrig.cli import completing
from runrig.cli.commands.queries import Moment
from runrig.cli.lazy import examples
from runrig.cli.printed import workflows
from runrig.cli.rendering import sanitize, times
from runrig.cli.rendering.output import say
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import path

KINDS = ("submitted", "started", "preempted", "refused", "held", "ended", "failed", "resized", "nodes")


@click.command(
    epilog=examples(
        "runrig events --since yesterday --kind preempted",
        "runrig events --since 2h --pool vision",
        "runrig events --kind failed --kind resized -t json",
    )
)
@click.option("--since", type=Moment(), help="Only what happened then or later.")
@click.option("--until", type=Moment(), help="Only what happened then or earlier.")
@click.option("--pool", shell_complete=completing.pools, help="Only of this pool, its subpools and their work.")
@click.option(
    "--kind",
    "kinds",
    type=click.Choice(KINDS, case_sensitive=False),
    multiple=True,
    help="Only of this kind; repeat it. refused: by the cluster's own scheduler.",
)
@with_session
def events(session: Session, since: str | None, until: str | None, pool: str | None, kinds: tuple[str, ...]) -> None:
    """What happened in the cluster, in order, as far as you see it.

    A preemption names who preempted, under which law, and the cheaper targets that were not possible.
    """
    query = {"since": since, "until": until, "pool": pool, "kind": kinds or None}
    found = session.client.items(path("events"), query)
    if session.as_json:
        session.show(workflows.events(found))
        return
    nothing = True
    for event in found:
        nothing = False
        say(f"{times.local(event['time'])}  {sanitize.line(event['text'])}")
    if nothing:
        say("nothing happened" + (" of that kind, there and then" if any(query.values()) else ""))
