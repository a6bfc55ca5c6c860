"""`runrig topology show`: what is free in zones, spines and racks, and how many gangs of a size fit; drawn in topology_map."""

import click

from runrig.cli import completing
from runrig.cli.lazy import examples
from runrig.cli.rendering import topology_map
from runrig.cli.rendering.output import say
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import path


@click.group(epilog=examples("runrig topology show", "runrig topology show --pool vision --size 64"))
def topology() -> None:
    """Zones, spines, racks: what is free there, and what fits."""


@topology.command(
    "show",
    epilog=examples(
        "runrig topology show",
        "runrig topology show --pool vision --size 64",
        "runrig topology show --size 8x8 --level rack",
        "runrig topology show --pool vision --nodes -t json",
    ),
)
@click.option(
    "--pool",
    "-p",
    shell_complete=completing.pools,
    metavar="NAME",
    help="Nodes and topology keys of this pool; else all nodes, by the keys.",
)
@click.option(
    "--size", metavar="SIZE", help="How many gangs of it fit: 64 is that many pods of one GPU, 8x8 is 8 pods of 8 each."
)
@click.option(
    "--level",
    metavar="KEY",
    help=f"Down to this topology key; if not said, as far as {topology_map.MOST_ROWS} domains suffice.",
)
@click.option("--nodes", is_flag=True, help="Down to the nodes.")
@with_session
def show_topology(session: Session, pool: str | None, size: str | None, level: str | None, nodes: bool) -> None:
    """The domains of the nodes as a tree: what is free, who holds the rest, and how many gangs of a size fit.

    JSON has all levels unless --level or --nodes says otherwise.
    """
    query = {"pool": pool, "size": size, "level": level, "nodes": nodes or None}
    answer = session.client.get(path("topology"), query)
    if session.show(answer):
        return
    if answer["maps"]:
        topology_map.show(answer, everything=nodes or level is not None, nodes=nodes)
    else:
        say("no pools: 'runrig pool create NAME --quota GPUS' makes one")
