"""`runrig resource`: nodes, their resources and usage."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import click

from runrig.cli import completing, options
from runrig.cli.lazy import command, group
from runrig.cli.rendering.output import say
from runrig.cli.rendering.tables import Column, Table, facts, show
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import path
from runrig.domain.quantities import parse_quantity, rounded_quantity
from runrig.osmo.nodes import resource as resource_of
from runrig.osmo.shape import page

Node = Mapping[str, Any]
_AMOUNTS = (("GPUs", "gpu"), ("CPU", "cpu"), ("Memory", "memory"))
_COLUMNS = (
    Column("Node"),
    Column("State", 4),
    Column("Flavor", 3),
    Column("Pools", 0, prose=True),
    Column("GPUs"),
    Column("CPU", 2),
    Column("Memory", 1),
)
_HOLDERS = (Column("GPU"), Column("Workflow"), Column("Task", 0))


@group("runrig resource list", "runrig resource info n00")
def resource() -> None:
    """Show nodes and their usage."""


@command("runrig resource list --pool vision", "runrig resource list --mode free", name="list", of=resource)
@options.pools(help="Show only nodes of this pool (repeatable).")
@click.option("--platform", "platforms", multiple=True, metavar="NAME", help="Show only this flavor (repeatable).")
@click.option("--mode", "-m", type=click.Choice(["used", "free"]), default="used", help="Show used or free amounts.")
@click.option(
    "--all", "-a", is_flag=True, expose_value=False, help="Show nodes of all pools. This is the default without --pool."
)
@with_session
def list_nodes(session: Session, pools: tuple[str, ...], platforms: tuple[str, ...], mode: str) -> None:
    """List nodes with used / capacity, or free amounts."""
    found = session.client.items(path("nodes"), {"pool": pools, "flavor": platforms})
    nodes = _with_pools(session, list(found), pools)
    session.table({"resources": nodes}, _table(nodes, free=mode == "free"), "no nodes")


def _with_pools(session: Session, nodes: Sequence[Node], only: Collection[str] = ()) -> list[Node]:
    """Returns *nodes* with the pools that can use them. *only*: limit these to the given pools."""
    pools = [each for each in session.client.items(path("pools")) if not only or each["name"] in only] if nodes else []
    allow = {each["name"]: each["allow"] for each in session.flavors()} if nodes else {}
    return [resource_of(node, _users(node, pools), allow.get(node["flavor"], ())) for node in nodes]


def _users(node: Node, pools: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the names of *pools* that can use *node*."""
    flavor = node["flavor"]
    return [each["name"] for each in pools if flavor and flavor in (each["flavors"] or [flavor])]


def _table(nodes: Sequence[Node], *, free: bool) -> Table:
    rows = [
        (
            node["hostname"],
            _state(node),
            node["flavor"] or "-",
            ", ".join(sorted(node["pool_platform_labels"])) or "-",
            *(_free(node, key) if free else _used(node, key) for _, key in _AMOUNTS),
        )
        for node in nodes
    ]
    return Table(_COLUMNS, rows)


def _state(node: Node) -> str:
    """Returns Ready, NotReady, Cordoned, NoFlavor or Tainted."""
    return str(node["conditions"][-1])


def _used(node: Node, resource: str) -> str:
    """Returns ``used/capacity``; ``-`` for a resource that the node does not have."""
    capacity = node["allocatable_fields"].get(resource, "0")
    used = node["usage_fields"].get(resource, "0")
    return (
        "-"
        if capacity == "0"
        else "/".join(rounded_quantity(resource, parse_quantity(resource, each)) for each in (used, capacity))
    )


def _free(node: Node, resource: str) -> str:
    amount = node["free"].get(resource)
    return "-" if amount is None else rounded_quantity(resource, amount)


@command("runrig resource info n00", "runrig resource info n00 -t json", of=resource)
@click.argument("node", shell_complete=completing.nodes)
@with_session
def info(session: Session, node: str) -> None:
    """Show a node, its resources and the usage of its GPUs."""
    (node_answer,) = _with_pools(session, [session.client.get(path("nodes", node))])
    if session.show({"resources": [node_answer], "more_entries": False}):
        return
    facts(
        (
            ("Node", node_answer["hostname"]),
            ("State", _state(node_answer)),
            ("Flavor", node_answer["flavor"] or None),
            ("Pools", ", ".join(sorted(node_answer["pool_platform_labels"])) or None),
            *((f"{name} used", _used(node_answer, key)) for name, key in _AMOUNTS),
            *((f"Label {name}", value) for name, value in sorted(node_answer["label_fields"].items())),
            *((f"Taint {each['key']}", _taint(each)) for each in node_answer["taints"]),
            ("Overview", page("node", node_answer["hostname"], session.client.url)),
        )
    )
    if node_answer["gpus"]:
        say("")
        show(Table(_HOLDERS, [_holder(at, gpu) for at, gpu in enumerate(node_answer["gpus"])]))


def _taint(taint: Mapping[str, str]) -> str:
    return f"{taint['value']}:{taint['effect']}" if taint["value"] else taint["effect"]


def _holder(index: int, gpu: Mapping[str, Any] | None) -> tuple[str, ...]:
    if not gpu:
        return (str(index), "free", "-")
    return (str(index), gpu["workflow"] or "another pool's work", gpu["task"] or "-")
