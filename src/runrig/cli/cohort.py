"""`runrig cohort`: list, show, create, update, delete."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from runrig.cli import balances
from runrig.cli.client import path
from runrig.cli.lazy import examples
from runrig.cli.pool import confirmed
from runrig.cli.quota_options import quota_options, request, something
from runrig.cli.session import Session, say, with_session
from runrig.cli.tables import Table, facts, show

Node = Mapping[str, Any]


@click.group(epilog=examples("runrig cohort list", "runrig cohort create research --parent org --quota 16"))
def cohort() -> None:
    """Cohorts: inner nodes of the quota tree."""


@cohort.command("list", epilog=examples("runrig cohort list", "runrig cohort list -t json"))
@with_session
def list_cohorts(session: Session) -> None:
    """The quota tree, with pools as its leaves and the balance of every node."""
    answer = session.client.get(path("cohort"))
    if session.show(answer):
        return
    rows: list[tuple[str, ...]] = []
    for name, node in _tree(answer["cohorts"]):
        lines = balances.rows(node["balances"]) or [("-",) * len(balances.COLUMNS)]
        rows += [((name, _kind(node)) if at == 0 else ("", "")) + line for at, line in enumerate(lines)]
    if rows:
        show(Table(("Name", "Kind", *balances.COLUMNS), rows))
    else:
        say("no cohorts: 'runrig cohort create NAME' makes one")


def _kind(node: Node) -> str:
    return str(node["kind"]) if node["declared"] else f"{node['kind']} (only named)"


def _tree(nodes: Sequence[Node]) -> Iterator[tuple[str, Node]]:
    """Every node with its name drawn as in a tree.  A circle of parents (law Q5) has no top: its nodes come last, undrawn."""
    children: dict[tuple[str, str] | None, list[Node]] = {}
    known = {(node["kind"], node["name"]) for node in nodes}
    for node in nodes:
        parent = (node["parent_kind"] or "cohort", node["parent"])
        children.setdefault(parent if parent in known else None, []).append(node)
    drawn: set[tuple[str, str]] = set()

    def below(parent: tuple[str, str] | None, indent: str) -> Iterator[tuple[str, Node]]:
        siblings = children.get(parent, [])
        for node in siblings:
            last, key = node is siblings[-1], (node["kind"], node["name"])
            drawn.add(key)
            yield ("" if parent is None else indent + ("└─ " if last else "├─ ")) + node["name"], node
            yield from below(key, "" if parent is None else indent + ("   " if last else "│  "))

    yield from below(None, "")
    yield from ((node["name"], node) for node in nodes if (node["kind"], node["name"]) not in drawn)


@cohort.command("show", epilog=examples("runrig cohort show research"))
@click.argument("name")
@with_session
def show_cohort(session: Session, name: str) -> None:
    """Quota, limits and balances of the cohort NAME."""
    _print(session, session.client.get(path("cohort", name)))


@cohort.command(
    "create",
    epilog=examples(
        "runrig cohort create research --quota 16",
        "runrig cohort create vision-lab --parent research --lending-limit 4",
    ),
)
@click.argument("name")
@quota_options
@click.option("--parent", metavar="NAME", help="The cohort above it.")
@with_session
def create(session: Session, name: str, **settings: Any) -> None:
    """Create the cohort NAME."""
    _print(session, session.client.call("POST", path("cohort"), body={"name": name} | request(**settings)))


@cohort.command("update", epilog=examples("runrig cohort update research --quota 24 --borrowing-limit 8"))
@click.argument("name")
@quota_options
@click.option("--parent", metavar="NAME", help="The cohort that shall be above it.")
@click.option("--no-parent", is_flag=True, help="Take it out of the cohort above it.")
@with_session
def update(session: Session, name: str, no_parent: bool, **settings: Any) -> None:
    """Change the cohort NAME.  What is not said stays; work that runs is never stopped."""
    body = request(**settings) | ({"parent": None} if no_parent else {})
    _print(session, session.client.call("PATCH", path("cohort", name), body=something(body, "cohort")))


@cohort.command("delete", short_help="Delete the cohort NAME.", epilog=examples("runrig cohort delete research --yes"))
@click.argument("name")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@with_session
def delete(session: Session, name: str, yes: bool) -> None:
    """Delete the cohort NAME with its quota."""
    confirmed(f"Delete cohort {name}?", yes=yes)
    answer = session.client.call("DELETE", path("cohort", name))
    if not session.show(answer):
        say(f"cohort {name} is deleted")


def _print(session: Session, answer: Node) -> None:
    if session.show(answer):
        return
    facts(
        (
            ("Cohort", answer["name"]),
            ("Parent", answer["parent"]),
            ("Children", ", ".join(answer["children"]) or None),
            ("Weight", answer["weight"]),
        )
    )
    if answer["balances"]:
        say("")
        show(Table(balances.COLUMNS, balances.rows(answer["balances"])))
