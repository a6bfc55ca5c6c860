"""`runrig shell`: a task that waits for its user, who works in it."""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import click

from runrig.cli import completing
from runrig.cli.commands import attachment
from runrig.cli.commands.run_options import Chosen, CommandLine, pool_of, task_of, task_options, time_option
from runrig.cli.confirm import asks
from runrig.cli.lazy import command
from runrig.cli.rendering.output import warn
from runrig.cli.rendering.run_text import Asked, first_lines
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import Transport, path
from runrig.spec.one_task import file_of
from runrig.spec.shell_task import waiting_for


@command("runrig shell", "runrig shell --gpus 2 --time 30m", "runrig shell -g 0 -- python3", cls=CommandLine)
@task_options
@time_option("8h", "Time limit. Default: 8h.")
@click.option("--name", default="shell", metavar="NAME", help="Name. Default: shell.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND]", shell_complete=completing.files)
@with_session
def shell(session: Session, command: tuple[str, ...], **said: Any) -> None:
    """Work in a shell on GPUs.

    The workflow ends with the shell, and has its exit code. After a lost connection, `runrig attach` returns to it
    within 5 minutes with a new shell; then it ends. Ctrl-C cancels it while it is waiting. A pool can limit how long a
    shell stays without input (shell_idle): you are warned a minute before it ends.

    If it would have to wait for quota, you are asked whether to use priority LOW instead, which can be preempted.
    """
    if session.as_json:
        raise click.UsageError("-t json cannot be used here, because the shell writes to stdout")
    words = command or ("bash",)
    chosen = Chosen(command=words, **said)
    client, settings = session.client, pool_of(session, chosen)
    task = waiting_for(words, task_of(session, chosen, settings), idle_s=settings()["shell_idle_s"])
    pool = settings()["name"]
    priority = chosen.priority or _priority(client, {"pool": pool, "file": file_of(task)})
    asked = Asked(task.gpus, 1, priority, pool, task.time)
    body = {"pool": pool, "file": file_of(task), "priority": priority}
    answer = client.call("POST", path("workflows"), body=body, key=str(uuid4()))
    id = str(answer["id"])
    with attachment.interruptible(client, id, attached=True):
        for line in first_lines(id, asked, attachment.soon_of(client, id)):
            warn(line)
        attachment.until_running(client, id)
    raise click.exceptions.Exit(attachment.visited(client, id))


def _priority(client: Transport, body: Mapping[str, Any]) -> str:
    """Returns LOW if the shell would wait for quota otherwise, starts now with LOW, and the user agrees."""
    if _verdict(client, body, "NORMAL") != "QuotaFull" or _verdict(client, body, "LOW"):
        return "NORMAL"
    question = "With priority NORMAL it would wait for quota. Use LOW, which starts now and can be preempted?"
    if asks() and not click.confirm(question, default=True, err=True):
        return "NORMAL"
    return "LOW"


def _verdict(client: Transport, body: Mapping[str, Any], priority: str) -> str:
    """Returns the code of the reason why it would wait; "" if it starts, or if that is not known."""
    found = client.call("POST", path("workflows") + ":check", body={**body, "priority": priority})["verdict"]
    if found is None:
        return ""
    return next((str(reason["code"]) for group in found["groups"] for reason in group["reasons"]), "")
