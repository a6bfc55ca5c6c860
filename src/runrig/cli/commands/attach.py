"""`runrig attach`: returns to a workflow that `runrig run` left."""

import click

from runrig.cli import completing
from runrig.cli.commands import attachment
from runrig.cli.lazy import command
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import path
from runrig.spec.shell_task import LABEL


@command("runrig attach", "runrig attach train-1", "runrig attach train-1 --attached")
@click.argument("id", required=False, shell_complete=completing.workflows)
@click.option("--attached", is_flag=True, help=attachment.ATTACHED_HELP)
@with_session
def attach(session: Session, id: str | None, attached: bool) -> None:
    """Follow the output of a workflow, as `runrig run` does.

    Without ID: your latest workflow. Prints the output so far, then new output until it ends.
    Ctrl-C and the exit code work as with `runrig run`. In a workflow of `runrig shell`, it starts a new shell.
    """
    if session.as_json:
        raise click.UsageError("-t json cannot be used here, because the output of the workflow goes to stdout")
    client, id = session.client, session.or_latest(id)
    workflow = client.get(path("workflows", id))
    if LABEL in workflow["labels"] and workflow["status"] == "RUNNING":
        raise click.exceptions.Exit(attachment.visited(client, id))
    with attachment.interruptible(client, id, attached=attached), attachment.tied(client, id, attached=attached):
        raise click.exceptions.Exit(attachment.followed(client, id, returning=True))
