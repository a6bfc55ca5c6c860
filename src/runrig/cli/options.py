"""Options shared by several commands, some with their own help."""

from functools import partial

import click

from runrig.cli import completing

pool = partial(click.option, "--pool", "-p", shell_complete=completing.pools, metavar="NAME")
pools = partial(click.option, "--pool", "-p", "pools", multiple=True, shell_complete=completing.pools, metavar="NAME")
users = partial(click.option, "--user", "-u", "users", multiple=True, shell_complete=completing.users, metavar="NAME")
user = partial(click.option, "--user", "-u", shell_complete=completing.users, metavar="NAME")
cluster = partial(click.option, "--cluster", shell_complete=completing.files, metavar="CLUSTER")
priority = partial(
    click.option,
    "--priority",
    type=click.Choice(["HIGH", "NORMAL", "LOW"], case_sensitive=False),
    metavar="HIGH|NORMAL|LOW",
    help="HIGH and NORMAL are never preempted and never borrow; LOW can borrow and be preempted.",
)
as_json = partial(
    click.option,
    "-t",
    "--format-type",
    "as_json",
    type=click.Choice(["text", "json"]),
    default="text",
    callback=lambda _context, _parameter, chosen: chosen == "json",
    help="Output format.",
)

config = click.option(
    "--config",
    shell_complete=completing.files,
    metavar="FILE",
    help="Config file of `runrig serve`. Default: the data folder of `runrig up`.",
)
data = click.option("--data", metavar="DIR", help="Data folder of `runrig up` [RUNRIG_DATA].")
dry_run = click.option("--dry-run", is_flag=True, help="Show the effect without changing anything.")
limit = click.option(
    "--limit",
    "-n",
    type=click.IntRange(min=1),
    metavar="N",
    default=50,
    show_default=True,
    help="Maximum number of entries.",
)
no_mirror = click.option(
    "--no-mirror",
    is_flag=True,
    help=(
        "Run in one process. Large clusters are then not planned, and suggestions of what would "
        "start a workflow are limited."
    ),
)
