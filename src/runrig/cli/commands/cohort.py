"""`runrig cohort`: list, show, create, update, delete."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import click

from runrig.cli import completing, options
from runrig.cli.commands import pool_changes
from runrig.cli.confirm import confirmed
from runrig.cli.lazy import command, group
from runrig.cli.printed.pools import quota_tree
from runrig.cli.quota_options import edited, quota_options, request, setting_option
from runrig.cli.rendering import cohort_tree, sanitize
from runrig.cli.rendering.output import say
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import path
from runrig.domain.settings import WEIGHT

Node = Mapping[str, Any]


@group("runrig cohort list", "runrig cohort create research --parent org --quota 16")
def cohort() -> None:
    """Manage cohorts, the inner nodes of the quota tree."""


@command("runrig cohort list", "runrig cohort list -t json", name="list", of=cohort)
@with_session
def list_cohorts(session: Session) -> None:
    """Show the quota tree with the usage of each node.

    Guaranteed used is usage by HIGH and NORMAL workflows, Preemptible used by LOW workflows. Headroom is what a
    node can still use, with the limits of all levels applied.
    """
    answer = quota_tree(session.client.get(path("quota-tree")))
    if session.show(answer):
        return
    cohort_tree.show_tree(answer)


@command("runrig cohort show research", name="show", of=cohort)
@click.argument("name", shell_complete=completing.cohorts)
@with_session
def show_cohort(session: Session, name: str) -> None:
    """Show quota, limits and usage of a cohort."""
    _print(session, session.client.get(path("cohorts", name)))


@command(
    "runrig cohort create research --quota 16",
    "runrig cohort create vision-lab --parent research --lending-limit 4",
    "runrig cohort create mixed --quota h100=8,b200=4,b200/cpu=96 --borrowing-limit h100=8",
    of=cohort,
)
@click.argument("name")
@setting_option(WEIGHT)
@quota_options
@click.option("--parent", shell_complete=completing.cohorts, metavar="NAME", help="Parent cohort.")
@with_session
def create(session: Session, name: str, **settings: Any) -> None:
    """Create a cohort."""
    answer = session.client.call("POST", path("cohorts"), body={"name": name} | request(**settings))
    _print(session, answer, pool_changes.created)


@command(
    "runrig cohort update research --quota 24 --borrowing-limit 8",
    "runrig cohort update research --borrowing-limit none",
    "runrig cohort update research --parent org",
    of=cohort,
)
@click.argument("name", shell_complete=completing.cohorts)
@setting_option(WEIGHT)
@quota_options
@click.option("--parent", shell_complete=completing.cohorts, metavar="NAME", help="Parent cohort.")
@click.option("--no-parent", is_flag=True, help="Remove the cohort from its parent.")
@with_session
def update(session: Session, name: str, no_parent: bool, **settings: Any) -> None:
    """Update a cohort.

    Omitted options keep their values. Running workflows are not stopped.
    """
    body = edited("cohort", "parent", settings, removed=no_parent)
    client, route = session.client, path("cohorts", name)
    before = {} if session.as_json else client.get(route)
    _print(session, client.call("PATCH", route, body=body), partial(pool_changes.updated, before))


@command(
    "runrig cohort delete research --yes",
    "runrig cohort delete research --leave-children",
    of=cohort,
)
@click.argument("name", shell_complete=completing.cohorts)
@click.option(
    "--leave-children",
    is_flag=True,
    help="Delete it even if it has children. They stay under its name at the top of the tree.",
)
@options.yes
@with_session
def delete(session: Session, name: str, leave_children: bool, yes: bool) -> None:
    """Delete a cohort and its quota.

    Running workflows are not stopped.
    """
    client, route = session.client, path("cohorts", name)
    confirmed(lambda: cohort_tree.question(client.get(route), leave_children=leave_children), yes=yes)
    client.call("DELETE", route, query={"leave_children": leave_children or None})
    session.say({"name": name}, f"cohort {name} is deleted")


def _print(session: Session, answer: Node, headline: Callable[[Node], str] | None = None) -> None:
    """*headline*: the line before the cohort, about the change."""
    if session.show(answer):
        return
    if headline is not None:
        say(sanitize.line(headline(answer)) + "\n")
    cohort_tree.show_node(answer)
