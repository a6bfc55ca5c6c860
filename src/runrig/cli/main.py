"""The entry point: finds the command, and turns each result into an exit code.

0 done · 1 refused by a rule · 2 wrong usage, or not found · 3 interrupted · 4 not allowed · 10 server or connection · 75 try again.
"""

import errno
import io
import itertools
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from runrig import __version__
from runrig.cli.lazy import LazyGroup, group
from runrig.cli.rendering import sanitize
from runrig.cli.transport.failure import document, sentence
from runrig.client.server_address import ServerAddress
from runrig.domain.errors import InvalidInput, RunrigError

INTERRUPTED = 3
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Of stdout, or of a file that a command writes."""


class _Root(LazyGroup):
    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command. A reader that closes the pipe (``| head``) is not an error."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            _forget_stdout()
            raise click.exceptions.Exit(0) from None
        return result


@group(
    "runrig up --gpus 4",
    "runrig run -- python train.py",
    "runrig submit train.yaml",
    "runrig pool list",
    cls=_Root,
    lazy={
        "run": ("runrig.cli.commands.run:run", "Run a command on GPUs."),
        "shell": ("runrig.cli.commands.shell:shell", "Work in a shell on GPUs."),
        "submit": ("runrig.cli.commands.submit:submit", "Submit a workflow file."),
        "list": ("runrig.cli.commands.queries:list_workflows", "List workflows, newest first."),
        "status": ("runrig.cli.commands.status:status", "Show your work and your pools on one screen."),
        "why": ("runrig.cli.commands.why:why", "Explain why workflows are waiting."),
        "logs": ("runrig.cli.commands.logs:logs", "Print the output of a workflow."),
        "top": ("runrig.cli.commands.top:top", "Show how busy the GPUs of your running tasks are."),
        "code": ("runrig.cli.commands.code:code", "Download the code that ran in a workflow."),
        "attach": ("runrig.cli.commands.attachment:attach", "Follow a workflow that was left running."),
        "watch": ("runrig.cli.commands.watch:watch", "Follow a workflow until it ends."),
        "exec": ("runrig.cli.commands.exec:exec_", "Run a command in a task."),
        "wait": ("runrig.cli.commands.follow:wait", "Wait until workflows have ended."),
        "cancel": ("runrig.cli.commands.change:cancel", "Cancel workflows."),
        "array": ("runrig.cli.commands.change:array", "Change how many elements of an array run at a time."),
        "restart": ("runrig.cli.commands.submit:restart", "Submit a failed workflow again."),
        "workflow": ("runrig.cli.commands.workflow:workflow", "Submit, follow and change workflows."),
        "plan": ("runrig.cli.commands.plan:plan", "Preview the effect of a change."),
        "simulate": ("runrig.cli.commands.simulate:simulate", "Simulate Kueue manifests or a cluster file."),
        "pool": ("runrig.cli.commands.pool:pool", "Manage pools, the shares of GPUs that users submit to."),
        "cohort": ("runrig.cli.commands.cohort:cohort", "Manage cohorts, the inner nodes of the quota tree."),
        "resource": ("runrig.cli.commands.resource:resource", "Show nodes and their usage."),
        "node": ("runrig.cli.commands.node:node", "Cordon, uncordon and drain nodes."),
        "topology": ("runrig.cli.commands.topology:topology", "Show free capacity by zone, spine and rack."),
        "events": ("runrig.cli.commands.events:events", "List cluster events, such as preemptions and their reasons."),
        "usage": ("runrig.cli.commands.usage:usage", "Show who used how many GPUs."),
        "apply": ("runrig.cli.commands.apply:apply", "Create and update pools and cohorts from a cluster file."),
        "export": (
            "runrig.cli.commands.export:export",
            "Export pools, cohorts and roles as a cluster file, or the event log.",
        ),
        "login": ("runrig.cli.commands.login:login", "Log in to a server."),
        "logout": ("runrig.cli.commands.login:logout", "Log out of a server."),
        "token": ("runrig.cli.commands.token:token", "Manage access tokens."),
        "user": ("runrig.cli.commands.user:user", "Manage users."),
        "role": ("runrig.cli.commands.role:role", "Manage roles."),
        "limits": ("runrig.cli.commands.limits:limits", "Limit what users may use."),
        "notify": ("runrig.cli.commands.notify:notify", "Get a notice when something happens to your workflows."),
        "credential": ("runrig.cli.commands.credential:credential", "Manage secrets for your tasks."),
        "up": ("runrig.cli.commands.up:up", "Start a server on this machine, all in one process."),
        "serve": ("runrig.cli.commands.serve:serve", "Start a production server from a config file."),
        "mcp": ("runrig.cli.commands.mcp:mcp", "Serve tools for agents (MCP)."),
        "doctor": ("runrig.cli.commands.doctor:doctor", "Show what a Kubernetes cluster lacks for runrig."),
        "open": ("runrig.cli.commands.login:open_page", "Print a one-time URL of the web page."),
        "version": ("runrig.cli.commands.version:version", "Print the versions of this program and the server."),
        "admin": ("runrig.cli.commands.admin:admin", "Administer a server."),
        "backup": ("runrig.cli.commands.backup:backup", "Back up a server to a file."),
        "restore": ("runrig.cli.commands.backup:restore", "Restore a backup into an empty database."),
        "verify": ("runrig.cli.commands.verify:verify", "Check the decisions in an event log against the rules."),
        "example": ("runrig.cli.commands.example:example", "Show and run the examples that come with runrig."),
        "completion": ("runrig.cli.commands.completion:completion", "Print the completion script for your shell."),
    },
    headings={"run": "Work", "pool": "The cluster", "login": "Access", "up": "The server"},
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("--server", metavar="URL", help="Server address [RUNRIG_SERVER].")
@click.option("--data", metavar="DIR", help="Data folder of the server [RUNRIG_DATA].")
@click.version_option(__version__, message="runrig %(version)s", help="Print the version of this program.")
@click.pass_context
def cli(context: click.Context, server: str | None, data: str | None) -> None:
    """Share GPUs between teams, and see why each workflow is waiting."""
    context.obj = ServerAddress(server, data)


def run(args: Sequence[str]) -> int:
    """Runs a command line; returns its exit code."""
    _open_closed()
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
        if isinstance(error, click.UsageError) and not isinstance(error, click.exceptions.NoArgsIsHelpError):
            error = _with_way_out(error, args)
        if _json_asked(args):
            return _fail(InvalidInput.one(error.format_message()), as_json=True)
        shown = io.StringIO()
        error.show(shown)
        _warn(shown.getvalue().rstrip("\n"))
        return InvalidInput.exit_code
    except OSError as error:
        full = error.errno in _NO_ROOM
        if full:
            _forget_stdout()
        elif error.filename is None:
            raise
        what = f"{error.filename or 'stdout'} cannot be {'written' if full else 'used'}: {error.strerror}"
        return _fail(InvalidInput.one(what), as_json=False)
    except click.Abort:
        click.echo("interrupted", err=True)
        return INTERRUPTED


def _with_way_out(error: click.UsageError, args: Sequence[str]) -> click.UsageError:
    from runrig.cli.way_out import message  # Imported only after a mistake, because it is slow.

    return click.UsageError(message(error, args), error.ctx)


def _fail(error: RunrigError, *, as_json: bool) -> int:
    if as_json:
        click.echo(sanitize.as_json(document(error)))
    else:
        _warn(sentence(error))
    return error.exit_code


def _warn(text: str) -> None:
    # Imported only after a failure, because it would slow down every command.
    from runrig.cli.rendering.output import warn

    warn(text)


def _json_asked(args: Sequence[str]) -> bool:
    """Whether *args* contain -t json. Reads them as text, because an invalid command line is never parsed."""
    before = list(args[: args.index("--")] if "--" in args else args)
    pairs = itertools.pairwise(before)
    return (
        any(first in ("-t", "--format-type") and second == "json" for first, second in pairs)
        or "-tjson" in before
        or "--format-type=json" in before
    )


def _open_closed() -> None:
    """Opens streams that are closed (``>&-``), which Python has as None; else a file that is opened later would get their number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115  It stays open.


def _forget_stdout() -> None:
    """Prevents the interpreter from writing to a broken stdout at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
