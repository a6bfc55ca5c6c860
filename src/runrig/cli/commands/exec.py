"""`runrig workflow exec`: runs a command in a running task."""

import shlex
import sys
import time

import click

from runrig.cli import completing
from runrig.cli.lazy import command
from runrig.cli.rendering import sanitize
from runrig.cli.rendering.output import warn
from runrig.cli.transport import remote_program
from runrig.cli.transport.remote_program import RemoteProgram, timeout_option
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import path
from runrig.domain.errors import ServerFault

_AGAIN_S = 10.0
_SHELLS = ("sh", "bash", "dash", "zsh", "fish", "ksh", "csh", "tcsh")


@command(
    "runrig exec train-1 main",
    "runrig exec train-1 main -- nvidia-smi -L",
    "runrig exec train-1 --group main-group --entry 'df -h'",
    name="exec",
)
@click.argument("id", shell_complete=completing.living_workflows)
@click.argument("task", required=False, shell_complete=completing.tasks)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("--group", metavar="NAME", help="Run the command in each task of this group, one after the other.")
@click.option(
    "--entry",
    default="/bin/bash",
    show_default=True,
    metavar="LINE",
    help="Command as one string, if none follows --.",
)
@timeout_option
@click.option("--keep-alive", is_flag=True, help="Restart the command if the connection drops.")
@with_session
def exec_(
    session: Session,
    id: str,
    task: str | None,
    command: tuple[str, ...],
    group: str | None,
    entry: str,
    timeout_s: int,
    keep_alive: bool,
) -> None:
    """Run a command in a task, or a shell by default.

    The command runs with the task's environment, and on a terminal if you use one; otherwise stdin, stdout and
    stderr are connected. The exit code is that of the command.
    """
    if task is None and group is None:
        raise click.UsageError(f"name a TASK or a --group. `runrig workflow query {id}` lists the tasks")
    if task is not None and group is not None:
        raise click.UsageError("TASK and --group exclude each other. With --group, set the command with --entry.")
    words = list(command) or _words(entry)
    if task is None:
        _refuse_shell(words)
        tasks = _running(session, id, group or "")
    else:
        tasks = [task]
    programs = [RemoteProgram(session.client, id, each, words, timeout_s) for each in tasks]
    if session.as_json:
        found = [(program.task, *remote_program.collected(program)) for program in programs]
        names = ("task", "exit_code", "stdout", "stderr")
        session.show({"workflow": id, "tasks": [dict(zip(names, each, strict=True)) for each in found]})
        raise click.exceptions.Exit(max(each[1] for each in found))
    if task is None:
        raise click.exceptions.Exit(max(_named(program) for program in programs))
    raise click.exceptions.Exit(connected(programs[0], keep_alive=keep_alive))


def _words(entry: str) -> list[str]:
    try:
        words = shlex.split(entry)
    except ValueError as error:
        raise click.UsageError(f"--entry {entry!r} cannot be read: {error}") from error
    if not words:
        raise click.UsageError("--entry is empty. Name a command.")
    return words


def _refuse_shell(words: list[str]) -> None:
    if len(words) == 1 and words[0].rpartition("/")[2] in _SHELLS:
        raise click.UsageError(
            f"{words[0]} is interactive and would wait for input in each task. Use another command with --entry."
        )


def _running(session: Session, id: str, group: str) -> list[str]:
    groups = session.client.get(path("workflows", id))["groups"]
    found = next((each for each in groups if each["name"] == group), None)
    if found is None:
        there = ", ".join(each["name"] for each in groups)
        raise click.UsageError(f"{id} has no group {group!r} (groups: {there})")
    names = [task["name"] for task in found["tasks"] if task["status"] == "RUNNING"]
    if not names:
        raise click.UsageError(f"{group} has no running task. See `runrig workflow query {id}`.")
    return names


def connected(program: RemoteProgram, *, keep_alive: bool = False) -> int:
    """Connects the terminal or the files of this process; returns the exit code. Raises as `RemoteProgram.run`."""
    while True:
        try:
            if sys.stdin.isatty() and sys.stdout.isatty():
                return remote_program.on_terminal(program)
            return remote_program.piped(program)
        except ServerFault as error:
            if not keep_alive:
                raise
            warn(f"{error.message}; restarting in {_AGAIN_S:.0f} s")
            time.sleep(_AGAIN_S)


def _named(program: RemoteProgram) -> int:
    """Returns its exit code; prefixes its output with the name of the task."""
    code, out, err = remote_program.collected(program)
    for text, is_error in ((out, False), (err, True)):
        for line in text.splitlines():
            click.echo(sanitize.block(f"[{program.task}] {line}"), err=is_error)
    return code
