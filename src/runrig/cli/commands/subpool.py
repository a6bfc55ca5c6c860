"""`runrig pool subpool`: list, create, update, delete."""

from collections.abc import Mapping
from typing import Any

import click

from runrig.cli import completing, options
from runrig.cli.commands import pool_changes
from runrig.cli.confirm import confirmed
from runrig.cli.lazy import command, group
from runrig.cli.printed import pools as printed
from runrig.cli.quota_options import gpus
from runrig.cli.rendering import pool_table, sanitize
from runrig.cli.rendering.output import say
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import path
from runrig.domain.pools import SUBPOOL_DELIMITER
from runrig.domain.quantities import GPU, amount_in_words

Pool = Mapping[str, Any]


_SHARE = gpus(
    "GPUS|PERCENT%",
    "a quota. Use whole GPUs such as 8, a percentage of the parent's quota such as 25%, or FLAVOR=GPUS,FLAVOR=GPUS",
    marks="%=",
)
_quota = click.option(
    "--quota",
    type=_SHARE,
    required=True,
    help="Whole GPUs; a percentage of the parent's quota, rounded down; FLAVOR=GPUS,... with several flavors.",
)


@group("runrig pool subpool list team", "runrig pool subpool create team a --quota 30")
def subpool() -> None:
    """Manage subpools, guaranteed slices of a pool."""


@command("runrig pool subpool list team", "runrig pool subpool list team --all", name="list", of=subpool)
@click.argument("parent", shell_complete=completing.pools)
@click.option("--all", "archived", is_flag=True, help="Include ARCHIVED subpools.")
@with_session
def list_subpools(session: Session, parent: str, archived: bool) -> None:
    """List the subpools of a pool with quota and usage in GPUs."""
    found = session.client.items(path("pools"), {"name": parent, "archived": archived or None})
    flavors = session.flavors()
    answer = {"subpools": [printed.shown(each, flavors) for each in found if each["parent"] == parent]}
    way_out = f"runrig pool subpool create {parent} NAME --quota GPUS"
    nothing = f"pool {parent} has no subpools. Create one with `{way_out}`."
    session.table(answer, pool_table.of_subpools(answer["subpools"]), nothing)


@command("runrig pool subpool create team a --quota 30", "runrig pool subpool create team b --quota 25%", of=subpool)
@click.argument("parent", shell_complete=completing.pools)
@click.argument("subpool")
@_quota
@options.dry_run
@with_session
def create(session: Session, parent: str, subpool: str, quota: int | str, dry_run: bool) -> None:
    """Create a subpool, or restore an ARCHIVED one.

    Its full name is PARENT--SUBPOOL. Running workflows of PARENT continue.
    """
    body = {"parent": parent, "name": subpool, "quota": quota}
    found = session.client.call("POST", path("pools"), body=body, query={"dry_run": dry_run or None})
    answer = printed.shown(found, session.flavors())
    done = "would be created" if dry_run else "created"
    _tell(session, parent, answer, f"{done} with {pool_changes.given(answer['quotas'])}", dry_run=dry_run)


@command("runrig pool subpool update team a --quota 40", of=subpool)
@click.argument("parent", shell_complete=completing.pools)
@click.argument("subpool", shell_complete=completing.subpools)
@_quota
@options.dry_run
@with_session
def update(session: Session, parent: str, subpool: str, quota: int | str, dry_run: bool) -> None:
    """Change a subpool's quota.

    Running workflows are not stopped, so Available can become negative.
    """
    client, route = session.client, _route(parent, subpool)
    before = {} if session.as_json else client.get(route)
    found = client.call("PATCH", route, body={"quota": quota}, query={"dry_run": dry_run or None})
    answer = printed.shown(found, session.flavors())
    changes = pool_changes.resized(before.get("quotas", {}), answer["quotas"])
    _tell(session, parent, answer, ("would change: " if dry_run else "") + changes, dry_run=dry_run)


@command(
    "runrig pool subpool delete team a",
    "runrig pool subpool delete team a --dry-run",
    of=subpool,
)
@click.argument("parent", shell_complete=completing.pools)
@click.argument("subpool", shell_complete=completing.subpools)
@options.dry_run
@options.yes
@with_session
def delete(session: Session, parent: str, subpool: str, dry_run: bool, yes: bool) -> None:
    """Delete a subpool.

    Workflows that have not started are cancelled; others finish. The subpool is ARCHIVED immediately if nothing
    runs in it. Otherwise it is DELETING and keeps its quota until then.
    """
    question = f"Delete {parent}--{subpool}? Workflows that have not started are cancelled; others finish."
    confirmed(question, yes=yes or dry_run)
    deleted = session.client.call("DELETE", _route(parent, subpool), query={"dry_run": dry_run or None})
    answer = printed.deleted(deleted, session.flavors())
    session.say(answer, pool_changes.deleted(answer, dry_run=dry_run))


def _route(parent: str, subpool: str) -> str:
    return path("pools", f"{parent}{SUBPOOL_DELIMITER}{subpool}")


def _tell(session: Session, parent: str, answer: Pool, what: str, *, dry_run: bool) -> None:
    """*what*: what happened to it; also prints what it drains, and what is left of its parent."""
    if session.show(answer):
        return
    say(sanitize.line(f"subpool {answer['name']}: {what}"))
    if answer["available"] < 0:
        used = f"{amount_in_words(GPU, answer['used'])} {'is' if answer['used'] == 1 else 'are'}"
        say(f"{used} still in use, so Available is {answer['available']} until workflows finish")
    if not dry_run:
        gpus = session.client.get(path("pools", parent))["gpus"]
        say(f"pool {parent} has {gpus['unallocated']} of its {amount_in_words(GPU, gpus['quota'])} unallocated")
