"""`runrig apply`: applies a cluster file and prints every change."""

import click

from runrig.cli import options
from runrig.cli.commands.pool_warnings import warn_of_quotas
from runrig.cli.lazy import command
from runrig.cli.rendering import changes
from runrig.cli.rendering.output import say, warn
from runrig.cli.transport.failure import located
from runrig.cli.transport.files import read_text, shown
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import path

_KEPT = "! {kind} {name} is kept: it has children that are not in the file"


@command("runrig apply -f cluster.yaml --dry-run", "runrig apply -f cluster.yaml", "runrig apply -f - --prune")
@options.file(required=True, help="Cluster file; - reads stdin.")
@click.option("--prune", is_flag=True, help="Delete what an earlier apply created and the file no longer has.")
@click.option("--dry-run", is_flag=True, help="Show the changes without making them.")
@click.option(
    "--if-revision",
    type=click.IntRange(min=0),
    metavar="N",
    help=("Apply only if nothing in the file was changed after revision N, as printed by `runrig plan`."),
)
@click.option("--force", is_flag=True, help="Also undo manual changes made since the last apply.")
@with_session
def apply(session: Session, file: str, prune: bool, dry_run: bool, if_revision: int | None, force: bool) -> None:
    """Create and update cohorts and pools from a cluster file.

    Nothing is deleted without --prune.
    """
    body = {"file": read_text(file), "prune": prune, "dry_run": dry_run, "force": force} | (
        {} if if_revision is None else {"if_revision": if_revision}
    )
    with located(shown(file)):
        answer = session.client.call("POST", path("apply"), body=body)
    if session.show(answer):
        return
    changed = [change for change in answer["changes"] if change["action"] in changes.SIGNS]
    for change in changed:
        say("\n".join(changes.lines(change)))
    for change in answer["changes"]:
        if change.get("undoes") and not force:
            warn(f"Warning: {change['kind']} {change['name']} {change['undoes']}; use --force to undo it")
        if change["action"] == "keep":
            say(_KEPT.format(**change))
    unchanged = len(answer["changes"]) - len(changed)
    done = "changed" if answer["applied"] else "would change"
    say(f"{len(changed)} {done}, {unchanged} unchanged")
    if answer["applied"] and changed:
        warn_of_quotas(session.client)
