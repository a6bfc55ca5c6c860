"""`runrig events`: events of the whole cluster."""

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
@click.option("--since", type=Moment(), help="Show only events at or after this time.")
@click.option("--until", type=Moment(), help="Show only events at or before this time.")
@click.option("--pool", shell_complete=completing.pools, help="Show only this pool, its subpools and their workflows.")
@click.option(
    "--kind",
    "kinds",
    type=click.Choice(KINDS, case_sensitive=False),
    multiple=True,
    help="Show only this kind of event (repeatable). refused: rejected by the cluster's scheduler.",
)
@with_session
def events(session: Session, since: str | None, until: str | None, pool: str | None, kinds: tuple[str, ...]) -> None:
    """List cluster events that you may see, oldest first.

    A preemption names the preemptor, the rule, and the lower-cost candidates that could not be used.
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
