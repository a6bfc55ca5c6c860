"""`runrig topology show`: free capacity in zones, spines and racks, and how many gangs fit. Drawn by topology_map."""

import click

from runrig.cli import options
from runrig.cli.lazy import command, group
from runrig.cli.rendering import topology_map
from runrig.cli.rendering.output import say
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import path


@group("runrig topology show", "runrig topology show --pool vision --size 64")
def topology() -> None:
    """Show free capacity by zone, spine and rack."""


@command(
    "runrig topology show",
    "runrig topology show --pool vision --size 64",
    "runrig topology show --size 8x8 --level rack",
    "runrig topology show --pool vision --nodes -t json",
    name="show",
    of=topology,
)
@options.pool(help="Show nodes and topology keys of this pool. Default: all nodes, by their keys.")
@click.option(
    "--size",
    metavar="SIZE",
    help=("Count gangs of this size that fit: 64 means 64 pods of 1 GPU, 8x8 means 8 pods of 8 GPUs."),
)
@click.option(
    "--level",
    metavar="KEY",
    help=f"Show levels down to this topology key. Default: as far as {topology_map.MOST_ROWS} domains suffice.",
)
@click.option("--nodes", is_flag=True, help="Show levels down to the nodes.")
@with_session
def show_topology(session: Session, pool: str | None, size: str | None, level: str | None, nodes: bool) -> None:
    """Show topology domains as a tree with free and used capacity.

    With --size, also how many gangs of that size fit. JSON has all levels unless you pass --level or --nodes.
    """
    query = {"pool": pool, "size": size, "level": level, "nodes": nodes or None}
    answer = session.client.get(path("topology"), query)
    if session.show(answer):
        return
    if answer["maps"]:
        topology_map.show(answer, everything=nodes or level is not None, nodes=nodes)
    else:
        say("No pools yet. Create one with `runrig pool create NAME --quota GPUS`.")
