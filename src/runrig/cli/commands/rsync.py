"""`runrig workflow rsync`: copies files to and from a running task, with rsync on both sides."""

import os
import shutil
import subprocess
from collections.abc import Callable

import click

from runrig.cli import completing
from runrig.cli.commands.port_forward import listening
from runrig.cli.lazy import command, group
from runrig.cli.rendering.output import say
from runrig.cli.transport.session import Session, with_session
from runrig.client.channel import Forwarder
from runrig.client.transport import Transport, path
from runrig.domain.errors import InvalidInput, NotFound

_HOST = "127.0.0.1"
_WORKSPACE = "/osmo/run/workspace"
_KIB = 1024


@group(
    "runrig workflow rsync upload train-1 ./src:/osmo/run/workspace",
    "runrig workflow rsync download train-1 main /tmp/results:.",
)
def rsync() -> None:
    """Copy files to or from a running task.

    rsync must be installed on this machine and in the task's image.
    """


_TIMEOUT = click.option(
    "--timeout",
    "timeout_s",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    metavar="S",
    help="Connection timeout in seconds.",
)
_QUIET = click.option("--no-progress", is_flag=True, help="Hide progress.")


@command(
    "runrig workflow rsync upload train-1 ./src:/osmo/run/workspace",
    "runrig workflow rsync upload train-1 main data/:/data",
    of=rsync,
)
@click.argument("id", shell_complete=completing.living_workflows)
@click.argument("task", required=False, shell_complete=completing.tasks)
@click.argument("paths", metavar="LOCAL:REMOTE", required=False)
@click.option(
    "--upload-rate-limit", "bytes_s", type=click.IntRange(min=1), metavar="N", help="Maximum bytes per second."
)
@click.option("--daemon", is_flag=True, help="Not supported: runrig has no background copies.")
@_TIMEOUT
@_QUIET
@with_session
def upload(
    session: Session,
    id: str,
    task: str | None,
    paths: str | None,
    bytes_s: int | None,
    daemon: bool,
    timeout_s: int,
    no_progress: bool,
) -> None:
    """Copy LOCAL to the absolute path REMOTE in a task.

    Default task: the lead of the first group. If LOCAL ends in /, its contents are copied instead of the
    folder.
    """
    if daemon:
        raise click.UsageError("--daemon is not supported. Repeat the command, or use a file watcher.")
    task, local, remote = _parted(task, paths, "LOCAL:REMOTE")
    if not os.path.exists(local):
        raise InvalidInput.one(f"{local!r} does not exist on this machine", "LOCAL")
    more = [
        *([] if no_progress else ["--progress"]),
        *([] if bytes_s is None else [f"--bwlimit={max(1, bytes_s // _KIB)}"]),
    ]
    raise click.exceptions.Exit(_copied(session.client, id, task, lambda url: [*more, local, url], remote, timeout_s))


@command(
    "runrig workflow rsync download train-1 /osmo/run/workspace/out:.",
    "runrig workflow rsync download train-1 main /tmp/results/:results",
    of=rsync,
)
@click.argument("id", shell_complete=completing.living_workflows)
@click.argument("task", required=False, shell_complete=completing.tasks)
@click.argument("paths", metavar="REMOTE:LOCAL", required=False)
@_TIMEOUT
@_QUIET
@with_session
def download(session: Session, id: str, task: str | None, paths: str | None, timeout_s: int, no_progress: bool) -> None:
    """Copy the absolute path REMOTE of a task to the folder LOCAL.

    Default task: the lead of the first group. If REMOTE ends in /, its contents are copied instead of the
    folder.
    """
    task, remote, local = _parted(task, paths, "REMOTE:LOCAL")
    if os.path.exists(local) and not os.path.isdir(local):
        raise InvalidInput.one(f"{local!r} is not a folder. Name the folder to copy into.", "LOCAL")
    os.makedirs(local, exist_ok=True)
    more = [] if no_progress else ["--progress"]
    code = _copied(session.client, id, task, lambda url: [*more, url, local], remote, timeout_s)
    # If the path does not exist, rsync in the task reports it only on its own stderr.
    name = os.path.basename(remote)
    if not code and name not in ("", ".") and not os.path.lexists(os.path.join(local, name)):
        raise NotFound(f"{remote!r} does not exist in the task")
    raise click.exceptions.Exit(code)


_NOTHING = "runrig has no background copies: each upload and download ends with its command"


@command("runrig workflow rsync status", "runrig workflow rsync status -t json", of=rsync)
@with_session
def status(session: Session) -> None:
    """Report background copies; runrig has none.

    To copy again after each change, use a file watcher that repeats the upload.
    """
    session.say([], _NOTHING)


@command("runrig workflow rsync stop", "runrig workflow rsync stop train-1 --task main", of=rsync)
@click.argument("id", required=False)
@click.option("--task", metavar="NAME", help="Stop only copies of this task.")
def stop(id: str | None, task: str | None) -> None:  # noqa: ARG001 - there are never any
    """Stop background copies; runrig has none.

    This does nothing, so scripts can always run it.
    """
    say(_NOTHING)


def _parted(task: str | None, paths: str | None, form: str) -> tuple[str | None, str, str]:
    r"""Returns (task, left part, right part). With one argument the task was omitted. A colon in a path is written ``\:``."""
    task, text = (None, task) if paths is None else (task, paths)
    if text is None:
        raise click.UsageError(f"invalid paths. Use {form}.")
    left, colon, right = text.replace("\\:", "\0").partition(":")
    if not (left and colon and right):
        raise click.UsageError(f"{text!r} has no colon between the two paths. Use {form}.")
    return task, left.replace("\0", ":"), right.replace("\0", ":")


def _module(remote: str) -> str:
    """Returns the path of *remote* for rsync's daemon."""
    if not remote.startswith("/") or ".." in remote.split("/"):
        raise InvalidInput.one(
            f"{remote!r} is not an absolute path in the task. Use for example {_WORKSPACE}/data.", "REMOTE"
        )
    below = remote == _WORKSPACE or remote.startswith(f"{_WORKSPACE}/")
    return f"osmo{remote.removeprefix(_WORKSPACE)}" if below else f"root{remote}"


def _copied(
    client: Transport, id: str, task: str | None, arguments: Callable[[str], list[str]], remote: str, timeout_s: int
) -> int:
    """Returns the exit code of rsync. *arguments*: its options and what to copy, given the URL of *remote*."""
    module = _module(remote)
    program = shutil.which("rsync")
    if program is None:
        raise InvalidInput.one("rsync is not installed on this machine. Install it first.")
    answer = client.call("POST", path("workflows", id, "tasks", task or _lead(client, id)) + ":rsync")
    with listening(_HOST, 0) as listener:
        forwarder = Forwarder(client, answer, listener, timeout_s)
        forwarder.start()
        words = [program, "-av", *arguments(f"rsync://{_HOST}:{listener.getsockname()[1]}/{module}")]
        code = subprocess.run(words, check=False).returncode  # noqa: S603 - runs rsync
    if code and forwarder.failure is not None:
        raise forwarder.failure
    return code


def _lead(client: Transport, id: str) -> str:
    """Returns the lead task of the first group."""
    groups = client.get(path("workflows", id))["groups"]
    tasks = groups[0]["tasks"] if groups else []
    found = next((task["name"] for task in tasks if task["lead"]), None)
    if found is None:
        raise InvalidInput.one(f"{id} has no lead task. Name a TASK.", "TASK")
    return str(found)
