"""`runrig node`: cordon, uncordon and drain nodes."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from runrig.cli import completing
from runrig.cli.lazy import examples
from runrig.cli.rendering.output import say, to_apply
from runrig.cli.rendering.plan_text import print_plan
from runrig.cli.transport.session import Session, with_session
from runrig.client.clients import PLAN_S
from runrig.client.transport import path
from runrig.domain.quantities import counted

MOST_NAMED = 10

_nodes = click.argument("nodes", nargs=-1, required=True, shell_complete=completing.nodes, metavar="NODE...")


@click.group(epilog=examples("runrig node drain n00 --dry-run", "runrig node uncordon n00"))
def node() -> None:
    """Cordon, uncordon and drain nodes.

    `runrig resource` shows nodes.
    """


@node.command("cordon", epilog=examples("runrig node cordon n00 n01"))
@_nodes
@with_session
def cordon(session: Session, nodes: tuple[str, ...]) -> None:
    """Cordon nodes: no new pods; running pods stay.

    The cordon is runrig's own and needs no rights in the cluster. It lasts until `uncordon`, or until the node
    leaves the cluster.
    """
    _mark(session, nodes, "cordon", "is cordoned", "was already cordoned")


@node.command("uncordon", epilog=examples("runrig node uncordon n00 n01"))
@_nodes
@with_session
def uncordon(session: Session, nodes: tuple[str, ...]) -> None:
    """Uncordon nodes, so that they accept pods again.

    Nodes that the cluster itself has cordoned stay cordoned.
    """
    _mark(session, nodes, "uncordon", "is open", "was not cordoned")


@node.command(
    "drain",
    epilog=examples("runrig node drain n00 --dry-run", "runrig node drain n00 n01", "runrig node drain n00 --force"),
)
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
    named = [
        f"{each['gang']} ({each['pool']}, {each['priority']}, {counted(each['gpus'], 'GPU')})"
        for each in gangs[:MOST_NAMED]
    ]
    left = len(gangs) - MOST_NAMED
    return ", ".join(named) + (f" and {left} more (use -t json to see all)" if left > 0 else "")
