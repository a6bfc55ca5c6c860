"""`runrig run`: one command as a workflow of one task group."""

from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

import click

from runrig.cli import completing
from runrig.cli.commands import attachment
from runrig.cli.commands.run_options import Chosen, CommandLine, pool_of, task_of, task_options, time_option
from runrig.cli.commands.submit_options import array_options
from runrig.cli.lazy import command
from runrig.cli.rendering.output import say, warn, warn_of
from runrig.cli.rendering.run_text import Asked, first_lines
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import Transport, path
from runrig.domain.errors import RunrigError
from runrig.spec.one_task import file_of, starts_once_per_node

_POSITIVE = click.IntRange(1, 10_000)


@command(
    "runrig run -- python train.py",
    "runrig run --gpus 8 --nodes 2 --time 4h -- torchrun train.py --lr 1e-4",
    "runrig run --gpus 0 -- bash -c 'nvidia-smi; env'",
    "id=$(runrig run -d -- python train.py); runrig wait $id",
    "runrig run --array 0-9%3 -- python eval.py --seed '{{array_index}}'",
    "runrig run --sweep lr=0.1,0.01 --sweep bs=16,32 -- python train.py --lr '{{lr}}'",
    "runrig run --print -- python train.py > train.yaml",
    cls=CommandLine,
)
@task_options
@click.option(
    "-N", "--nodes", type=_POSITIVE, default=1, show_default=True, metavar="N", help="Nodes. All start together."
)
@click.option("--min-nodes", type=_POSITIVE, metavar="N", help="Start with fewer nodes, at least N, if not all fit.")
@click.option("--in", "required", metavar="LEVEL", help="Keep all nodes in one rack, spine or zone.")
@click.option("--near", "preferred", metavar="LEVEL", help="Prefer one rack, spine or zone for all nodes.")
@click.option("--name", metavar="NAME", help="Name. Default: the name of the script; train.py becomes train-1.")
@time_option(None, "Time limit, such as 4h. Default: the pool's.")
@array_options("NAME")
@click.option("--fail-fast", is_flag=True, help="With --array or --sweep: cancel the rest when one fails.")
@click.option("-d", "--detach", is_flag=True, help="Print the ID and return.")
@click.option("--attached", is_flag=True, help=attachment.ATTACHED_HELP)
@click.option("--dry-run", is_flag=True, help="Show what would happen, without submitting it.")
@click.option("--print", "prints", is_flag=True, help="Print the workflow file, without submitting it.")
@click.argument(
    "command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND [ARG...]", shell_complete=completing.files
)
@with_session
def run(
    session: Session, command: tuple[str, ...], detach: bool, attached: bool, dry_run: bool, prints: bool, **said: Any
) -> None:
    """Run a command on GPUs, and follow its output.

    The command is a program with arguments; for a shell, use bash -c '...'. Options can also be set in
    ./runrig.toml, in a table [run].

    Ctrl-C detaches: the workflow keeps running, and `runrig attach` returns to it. Ctrl-C again within 2 seconds
    cancels it.

    The exit code is that of the command; of several nodes, that of the first to fail. Exit code 124 means that the
    time limit was reached, 125 that it was cancelled or could not run. Exit code 3 means that you detached.
    """
    chosen = Chosen(command=command, **said)
    if (detach and attached) or (dry_run and prints):
        both = "--detach and --attached" if detach and attached else "--dry-run and --print"
        raise click.UsageError(f"{both} exclude each other. Use one of them.")
    if session.as_json and not (detach or dry_run):
        raise click.UsageError("-t json needs --detach or --dry-run, because the output of the command goes to stdout")
    pool = pool_of(session, chosen)
    task = task_of(session, chosen, _if_reachable(pool) if prints else pool, sends=not dry_run)
    if task.nodes > 1 and starts_once_per_node(command):
        warn(
            f"Warning: {command[0]} starts once on each node. Use a launcher such as torchrun to start one process per GPU"
        )
    if prints:
        say(file_of(task).rstrip("\n"))
        return
    client = session.client
    array = (task.array.count, task.array.most) if task.array else ()
    into = chosen.pool or pool()["name"]
    asked = Asked(task.gpus, task.nodes, task.priority or "NORMAL", into, task.time, *array)
    body = {"pool": asked.pool, "file": file_of(task)}
    if dry_run:
        _show_dry_run(session, client, body, asked)
        return
    answer = client.call("POST", path("workflows"), body=body, key=str(uuid4()))
    warn_of(answer)
    id = str(answer["id"])
    with attachment.interruptible(client, id, attached=attached), attachment.tied(client, id, attached=attached):
        for line in first_lines(id, asked, attachment.soon_of(client, id)):
            warn(line)
        if not detach:
            raise click.exceptions.Exit(attachment.followed(client, id))
    session.say({"id": id}, id)


def _if_reachable(pool: Callable[[], Mapping[str, Any]]) -> Callable[[], Mapping[str, Any]]:
    """--print works without a server, whose pool may have a default image."""

    def found() -> Mapping[str, Any]:
        try:
            return pool()
        except RunrigError:
            return {"default_image": None}

    return found


def _show_dry_run(session: Session, client: Transport, body: Mapping[str, Any], asked: Asked) -> None:
    answer = client.call("POST", path("workflows") + ":check", body=body)
    if session.show(answer):
        return
    verdict = answer["verdict"]
    say(f"{answer['id']}: {asked.text()}" + (f"; {verdict['sentence']}" if verdict else ""))
    warn_of(answer)
