"""`runrig workflow cancel`, `hold` and `release`: what is done to workflows that are there, one after the other."""

from collections.abc import Callable, Sequence
from typing import Any

import click

from runrig.cli import completing
from runrig.cli.lazy import examples
from runrig.cli.rendering.output import say, warn
from runrig.cli.transport.failure import document, sentence
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import path
from runrig.domain.errors import RunrigError, ServerFault

_REFUSED = 1


def _each(session: Session, ids: Sequence[str], change: Callable[[str], Any], done: str) -> None:
    """Does *change* to each workflow; *done*: what it is then.  One that is refused does not keep the others.

    Raises what the only one raises, Exit(1) if one of several was refused.
    """
    changed: list[str] = []
    failed: list[tuple[str, RunrigError]] = []
    for id in ids:
        try:
            changed.append(change(id)["id"])
        except ServerFault:
            raise
        except RunrigError as error:
            if len(ids) == 1:
                raise
            failed.append((id, error))
    in_json = {done: changed, "failed": [{"name": id} | document(each) for id, each in failed]}
    if not session.show(in_json):
        for name in changed:
            say(f"{name} is {done}")
        for _, each in failed:
            warn(sentence(each))  # which names the workflow
    if failed:
        raise click.exceptions.Exit(_REFUSED)


@click.command(
    epilog=examples("runrig workflow cancel train-1", 'runrig workflow cancel train-1 train-2 -m "wrong data"')
)
@click.argument("ids", nargs=-1, required=True, metavar="ID...", shell_complete=completing.living_workflows)
@click.option("--message", "-m", help="Why; it is kept with the workflow.")
@click.option("--force", "-f", is_flag=True, expose_value=False, help="Accepted for scripts; a cancel needs no force.")
@with_session
def cancel(session: Session, ids: tuple[str, ...], message: str | None) -> None:
    """Stop each workflow ID.  One that cannot be stopped does not keep the others."""
    client = session.client
    body = {"message": message or ""}
    _each(session, ids, lambda id: client.call("POST", path("workflows", id, "cancel"), body=body), "cancelled")


@click.command(epilog=examples("runrig workflow hold train-1", "runrig workflow hold train-1 train-2 -t json"))
@click.argument("ids", nargs=-1, required=True, metavar="ID...", shell_complete=completing.living_workflows)
@with_session
def hold(session: Session, ids: tuple[str, ...]) -> None:
    """Keep what has not started of each workflow ID from starting, until it is released.

    What runs goes on.  It keeps its submit time, and so its place in the queue."""
    client = session.client
    _each(session, ids, lambda id: client.call("POST", path("workflows", id, "hold")), "held")


@click.command(epilog=examples("runrig workflow release train-1", "runrig workflow release train-1 train-2 -t json"))
@click.argument("ids", nargs=-1, required=True, metavar="ID...", shell_complete=completing.living_workflows)
@with_session
def release(session: Session, ids: tuple[str, ...]) -> None:
    """End the hold of each workflow ID: it waits in the queue again, at the place of its submit time."""
    client = session.client
    _each(session, ids, lambda id: client.call("POST", path("workflows", id, "release")), "released")
