"""`runrig node`: cordon, uncordon and drain nodes."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from runrig.cli import completing
from runrig.cli.lazy import command, group
from runrig.cli.rendering.output import say, to_apply
from runrig.cli.rendering.plan_text import MOST_NAMED, print_plan, who
from runrig.cli.transport.session import Session, with_session
from runrig.client.caller import PLAN_S
from runrig.client.transport import path

_nodes = click.argument("nodes", nargs=-1, required=True, shell_complete=completing.nodes, metavar="NODE...")


@group("runrig node drain n00 --dry-run", "runrig node uncordon n00")
def node() -> None:
    """Cordon, uncordon and drain nodes.

    `runrig resource` shows nodes.
    """


@command("runrig node cordon n00 n01", of=node)
@_nodes
@with_session
def cordon(session: Session, nodes: tuple[str, ...]) -> None:
    """Cordon nodes: no new pods; running pods stay.

    The cordon is runrig's own and needs no rights in the cluster. It lasts until `uncordon`, or until the node
    leaves the cluster.
    """
    _mark(session, nodes, "cordon", "is cordoned", "was already cordoned")


@command("runrig node uncordon n00 n01", of=node)
@_nodes
@with_session
def uncordon(session: Session, nodes: tuple[str, ...]) -> None:
    """Uncordon nodes, so that they accept pods again.

    Nodes that the cluster itself has cordoned stay cordoned.
    """
    _mark(session, nodes, "uncordon", "is open", "was not cordoned")


@command("runrig node drain n00 --dry-run", "runrig node drain n00 n01", "runrig node drain n00 --force", of=node)
@_nodes
@click.option("--force", is_flag=True, help="Stop HIGH and NORMAL workflows too.")
@click.option("--dry-run", is_flag=True, help="Show what would stop, wait or start, as `runrig plan --drain`.")
@with_session
def drain(session: Session, nodes: tuple[str, ...], force: bool, dry_run: bool) -> None:
    """Cordon nodes, then stop and requeue their LOW workflows.

    HIGH and NORMAL workflows run to completion; the nodes are empty once they finish.
    """
    body = {"nodes": nodes, "force": force}
    if dry_run:
        plan = {"drain": nodes, "force": force}
        answer = session.client.call("POST", path("plan"), body=plan, timeout_s=PLAN_S)
        if not session.show(answer):
            print_plan(answer)
            to_apply(f"runrig node drain {' '.join(nodes)}{' --force' if force else ''}")
        return
    answer = session.client.call("POST", "/api/v1/nodes:drain", body=body)
    if session.show(answer):
        return
    _say_marked(nodes, answer["changed"], "is cordoned", "was already cordoned")
    if answer["stops"]:
        say(f"stops and is requeued: {_gangs(answer['stops'])}")
    if answer["stays"]:
        say(f"keeps running: {_gangs(answer['stays'])} (use --force to stop)")
    if not (answer["stops"] or answer["stays"]):
        say("nothing runs there")


def _mark(session: Session, nodes: Sequence[str], how: str, done: str, already: str) -> None:
    answer = session.client.call("POST", f"/api/v1/nodes:{how}", body={"nodes": nodes})
    if not session.show(answer):
        _say_marked(nodes, answer["changed"], done, already)


def _say_marked(nodes: Sequence[str], changed: Sequence[str], done: str, already: str) -> None:
    for name in dict.fromkeys(nodes):
        say(f"node {name} {done if name in changed else already}")


def _gangs(gangs: Sequence[Mapping[str, Any]]) -> str:
    left = len(gangs) - MOST_NAMED
    return ", ".join(map(who, gangs[:MOST_NAMED])) + (f" and {left} more (use -t json to see all)" if left > 0 else "")
