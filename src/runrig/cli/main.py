"""The entry point: finds the command, and turns every outcome into an exit code.

0 done · 1 refused by a rule · 2 wrong usage, or not found · 3 interrupted · 4 not allowed · 10 server or connection · 75 try again.
"""

import io
import itertools
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from runrig import __version__
from runrig.cli.lazy import LazyGroup, examples
from runrig.cli.rendering import sanitize
from runrig.cli.transport.failure import document, sentence
from runrig.client.server_address import ServerAddress
from runrig.domain.errors import InvalidInput, RunrigError

INTERRUPTED = 3


class _Root(LazyGroup):
    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command; a reader that goes away (``| head``) is no error."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            _forget_stdout()
            raise click.exceptions.Exit(0) from None
        return result


@click.group(
    cls=_Root,
    lazy={
        "up": ("runrig.cli.commands.up:up", "Start a server with everything in one process."),
        "serve": ("runrig.cli.commands.serve:serve", "Start a server for many people, as a file says."),
        "version": ("runrig.cli.commands.version:version", "The versions of this program and of the server."),
        "open": ("runrig.cli.commands.open:open_page", "Look at the server: an address that signs a browser in."),
        "login": ("runrig.cli.commands.login:login", "Log in to a server, and remember its token."),
        "logout": ("runrig.cli.commands.login:logout", "Forget the token of a server."),
        "token": ("runrig.cli.commands.token:token", "Tokens: what lets a person or a program in."),
        "user": ("runrig.cli.commands.user:user", "Users: who may have tokens and roles."),
        "role": ("runrig.cli.commands.role:role", "Roles: who may do what."),
        "credential": (
            "runrig.cli.commands.credential:credential",
            "Credentials: values that your tasks are handed.",
        ),
        "pool": ("runrig.cli.commands.pool:pool", "Pools: named shares of GPUs that people submit to."),
        "cohort": ("runrig.cli.commands.cohort:cohort", "Cohorts: inner nodes of the quota tree."),
        "apply": ("runrig.cli.commands.apply:apply", "Declare cohorts and pools from a cluster file."),
        "plan": ("runrig.cli.commands.plan:plan", "Show what an edit would do, before you make it."),
        "export": ("runrig.cli.commands.export:export", "Print what is declared, as a cluster file."),
        "resource": ("runrig.cli.commands.resource:resource", "Nodes: what they have and who holds it."),
        "node": ("runrig.cli.commands.node:node", "Close nodes, open them, empty them."),
        "topology": (
            "runrig.cli.commands.topology:topology",
            "Zones, spines, racks: what is free there, and what fits.",
        ),
        "workflow": ("runrig.cli.commands.workflow:workflow", "Submit workflows, follow them, ask why they wait."),
        "why": ("runrig.cli.commands.why:why", "Why workflows wait: everything that blocks them."),
        "events": ("runrig.cli.commands.events:events", "What happened in the cluster: who was preempted, and why."),
        "simulate": (
            "runrig.cli.commands.simulate:simulate",
            "What would be admitted, of Kueue manifests or a cluster file.",
        ),
        "admin": ("runrig.cli.commands.admin:admin", "What an admin does to a server that runs."),
        "backup": ("runrig.cli.commands.backup:backup", "Write all that a server knows into one file."),
        "restore": ("runrig.cli.commands.backup:restore", "Fill an empty database from a backup."),
        "completion": ("runrig.cli.commands.completion:completion", "Completion of commands for your shell."),
    },
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=examples("runrig up --gpus 4", "runrig workflow submit train.yaml", "runrig pool list"),
)
@click.option("--server", metavar="URL", help="Address of the server [RUNRIG_SERVER].")
@click.option("--data", metavar="DIR", help="Data folder of the server [RUNRIG_DATA].")
@click.version_option(__version__, message="runrig %(version)s", help="Print the version of this program.")
@click.pass_context
def cli(context: click.Context, server: str | None, data: str | None) -> None:
    """Shares GPUs between teams, and says of every waiting workflow why it waits."""
    context.obj = ServerAddress(server, data)


def main() -> None:
    sys.exit(run(sys.argv[1:]))


def run(args: Sequence[str]) -> int:
    """Runs one command line; returns its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        result = cli.main(args=list(args), prog_name="runrig", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except RunrigError as error:
        return _fail(error, as_json=_json_asked(args))
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("runrig."):
            raise
        missing = (
            "this command needs the server. Install runrig instead of runrig-client: "
            "pip uninstall runrig-client, then pip install runrig"
        )
        return _fail(InvalidInput.one(missing), as_json=_json_asked(args))
    except click.ClickException as error:
        if _json_asked(args):
            return _fail(InvalidInput.one(error.format_message()), as_json=True)
        shown = io.StringIO()
        error.show(shown)
        _warn(shown.getvalue().rstrip("\n"))
        return error.exit_code
    except click.Abort:
        click.echo("interrupted", err=True)
        return INTERRUPTED


def _fail(error: RunrigError, *, as_json: bool) -> int:
    if as_json:
        click.echo(sanitize.as_json(document(error)))
    else:
        _warn(sentence(error))
    return error.exit_code


def _warn(text: str) -> None:
    from runrig.cli.rendering.output import warn  # only where something failed: every command would wait for it

    warn(text)


def _json_asked(args: Sequence[str]) -> bool:
    """True if -t json is among *args*, read as text because a wrong command line was never parsed."""
    before = list(args[: args.index("--")] if "--" in args else args)
    pairs = itertools.pairwise(before)
    return (
        any(first in ("-t", "--format-type") and second == "json" for first, second in pairs)
        or "-tjson" in before
        or "--format-type=json" in before
    )


def _forget_stdout() -> None:
    """Keeps the interpreter from writing to stdout at exit, where nothing can be written any more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
