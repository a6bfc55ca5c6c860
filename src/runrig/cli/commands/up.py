"""`runrig up`: starts a server. Imports it only when it runs."""

from typing import Any

import click

from runrig.cli import options
from runrig.cli.lazy import command
from runrig.cli.transport.failure import located
from runrig.cli.transport.files import read_text, shown
from runrig.client.server_address import ServerAddress
from runrig.domain.cluster import BACKENDS_OF_UP
from runrig.domain.nodes import MOST_GPUS

DEFAULT_PORT = 8700
DRAIN_SWEEP_S = 900


@command(
    "runrig up",
    "runrig up --gpus 4 --port 0",
    "runrig up --backend simulated --cluster cluster.yaml --data /tmp/lab",
    "runrig up --dev-login dev",
)
@click.option(
    "--backend",
    type=click.Choice(BACKENDS_OF_UP),
    help="Where tasks run. Default: the backend in the cluster file, or local.",
)
@options.cluster(metavar="FILE", help="Cluster file, applied at each start. Default: one pool, default, with all GPUs.")
@click.option("--data", metavar="DIR", help="Data folder [RUNRIG_DATA]. Default: in your user data directory.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    default=DEFAULT_PORT,
    show_default=True,
    help="Port to listen on; 0 picks a free port.",
)
@click.option(
    "--gpus",
    type=click.IntRange(0, MOST_GPUS),
    metavar="N",
    help="Use at most N GPUs of this machine; if it has none, simulate N.",
)
@click.option(
    "--drain-sweep",
    "drain_sweep_s",
    type=click.IntRange(1, 86_400),
    default=DRAIN_SWEEP_S,
    show_default=True,
    metavar="SECONDS",
    help="Interval of an additional check of DELETING pools.",
)
@click.option(
    "--dev-login",
    metavar="USER",
    help=(
        "Allow USER to log in without a token from this machine (`osmo login --method dev`). Not for administrators."
    ),
)
@options.no_mirror
@click.pass_obj
def up(
    address: ServerAddress, /, cluster: str | None, data: str | None, port: int, no_mirror: bool, **settings: Any
) -> None:
    """Start a server on this machine, all in one process.

    Ctrl-C stops it; tasks keep running.
    """
    from runrig.wiring.port import LOOPBACK, bound

    folder = address.or_else(data=data).data_folder()
    text = None if cluster is None else read_text(cluster)
    taken = bound(LOOPBACK, port, "choose another with --port (0 picks a free one)")
    click.echo(f"Starting a server on port {taken.getsockname()[1]}, data {folder}", err=True)
    from runrig.wiring.up import up as run  # Takes seconds on a busy machine.

    # Without a file, only an option can be wrong.
    with taken, located(cluster and shown(cluster)):
        run(cluster=text, data=folder, port=taken, mirror=not no_mirror, **settings)
