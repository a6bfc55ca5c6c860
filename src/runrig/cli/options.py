"""Options shared by several commands, some with their own help."""

from functools import partial

import click

from runrig.cli import completing

pool = partial(click.option, "--pool", "-p", shell_complete=completing.pools, metavar="NAME")
pools = partial(click.option, "--pool", "-p", "pools", multiple=True, shell_complete=completing.pools, metavar="NAME")
users = partial(click.option, "--user", "-u", "users", multiple=True, shell_complete=completing.users, metavar="NAME")
cluster = partial(click.option, "--cluster", shell_complete=completing.files, metavar="CLUSTER")

config = click.option(
    "--config",
    shell_complete=completing.files,
    metavar="FILE",
    help="Config file of `runrig serve`. Default: the data folder of `runrig up`.",
)
no_mirror = click.option(
    "--no-mirror",
    is_flag=True,
    help=(
        "Run in one process. Large clusters are then not planned, and suggestions of what would "
        "start a workflow are limited."
    ),
)
