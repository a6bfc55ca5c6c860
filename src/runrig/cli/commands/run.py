"""`runrig run`: one command as a workflow of one task group."""

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import click

from runrig.cli import completing, options
from runrig.cli.commands import attachment
from runrig.cli.commands.submit import default_pool
from runrig.cli.lazy import examples
from runrig.cli.rendering.output import say, warn
from runrig.cli.rendering.run_text import Asked, first_lines
from runrig.cli.transport import run_defaults
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import Transport, path
from runrig.domain.errors import InvalidInput
from runrig.spec.one_task import NO_IMAGE, OneTask, file_of, looks_secret, name_of, starts_once_per_node
from runrig.spec.task import ENVIRONMENT_NAME
from runrig.spec.values import parse_duration, parse_size

_MOST = 1_000_000
_ENVIRONMENT = "runrig.toml env"


class _Command(click.Command):
    """Options end where the command begins. Defaults are those of ./runrig.toml."""

    allow_interspersed_args = False

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        own = given[: given.index("--")] if "--" in given else given
        # Neither a half-typed line nor the help is the place to report errors of a file.
        if not ctx.resilient_parsing and not set(own) & set(ctx.help_option_names):
            defaults = run_defaults.of_folder(Path.cwd())
            ctx.meta[_ENVIRONMENT] = defaults.pop("env", {})
            ctx.default_map = {_parameter(name): value for name, value in defaults.items()}
        try:
            rest = super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise click.UsageError(f"No such option {error.option_name!r}. {_SEPARATE}", ctx) from None
        except click.BadParameter as error:
            name = error.param.name if error.param else None
            if name and ctx.get_parameter_source(name) is click.core.ParameterSource.DEFAULT_MAP:
                message = f"{run_defaults.TOML}: {error.message}"
                raise click.BadParameter(message, ctx, error.param) from None
            raise
        _check_separated(ctx, given, ctx.params.get("command") or ())
        return rest


def _parameter(option: str) -> str:
    return {"in": "required", "near": "preferred"}.get(option, option.replace("-", "_"))


_SEPARATE = "If it belongs to the command, write -- before the command: runrig run [OPTIONS] -- COMMAND"


def _check_separated(ctx: click.Context, given: Sequence[str], command: Sequence[str]) -> None:
    """Refuses options after a command without ``--``: they could be meant for either."""
    before = given[: len(given) - len(command)]
    option = next((word for word in command if word.startswith("-") and word != "-"), None)
    if command and option is not None and (not before or before[-1] != "--") and not ctx.resilient_parsing:
        words = shlex.join(word for word in command if word != "--")
        raise click.UsageError(
            f"{option} comes after a command without --. Write options first, then -- and the command: "
            f"runrig run [OPTIONS] -- {words}",
            ctx,
        )


class _Gpus(click.ParamType[tuple[str | None, int]]):
    """``[TYPE:]N`` → (platform, GPUs)."""

    name = "[TYPE:]N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str | None, int]:
        if isinstance(value, tuple):
            return value
        platform, colon, number = str(value).rpartition(":")
        if not number.isdecimal() or int(number) > _MOST or (colon and not platform):
            self.fail(f"{value!r} is not a number of GPUs. Use N, or TYPE:N, such as h100:8", param, ctx)
        return platform or None, int(number)


class _Checked(click.ParamType[str]):
    """Text that *parse* can read."""

    def __init__(self, name: str, parse: Any) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            if not self._parse(str(value)):
                self.fail(f"{value!r} must be more than 0", param, ctx)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)


_POSITIVE = click.IntRange(1, 10_000)


@click.command(
    cls=_Command,
    epilog=examples(
        "runrig run -- python train.py",
        "runrig run --gpus 8 --nodes 2 --time 4h -- torchrun train.py --lr 1e-4",
        "runrig run --gpus 0 -- bash -c 'nvidia-smi; env'",
        "id=$(runrig run -d -- python train.py); runrig wait $id",
        "runrig run --print -- python train.py > train.yaml",
    ),
)
@click.option("-g", "--gpus", type=_Gpus(), default="1", show_default=True, help="GPUs of each node; 0 for none.")
@click.option(
    "-N", "--nodes", type=_POSITIVE, default=1, show_default=True, metavar="N", help="Nodes. All start together."
)
@click.option("--min-nodes", type=_POSITIVE, metavar="N", help="Start with fewer nodes, at least N, if not all fit.")
@click.option("--cpus", type=click.IntRange(1, _MOST), metavar="N", help="CPU cores of each node.")
@click.option("--memory", type=_Checked("SIZE", parse_size), metavar="SIZE", help="Memory of each node, such as 64Gi.")
@click.option("--in", "required", metavar="LEVEL", help="Keep all nodes in one rack, spine or zone.")
@click.option("--near", "preferred", metavar="LEVEL", help="The same if possible.")
@click.option(
    "-i", "--image", metavar="IMAGE", help="Image. Default: run.image in run.yaml of your configuration folder."
)
@options.pool(help="Pool to submit to. Default: your default pool.")
@click.option(
    "--priority",
    type=click.Choice(["HIGH", "NORMAL", "LOW"], case_sensitive=False),
    metavar="HIGH|NORMAL|LOW",
    help="HIGH and NORMAL are never preempted and never borrow; LOW can borrow and be preempted. Default: NORMAL.",
)
@click.option("--name", metavar="NAME", help="Name. Default: that of the script; train.py becomes train-1.")
@click.option(
    "--time", type=_Checked("TIME", parse_duration), metavar="TIME", help="Time limit, such as 4h. Default: the pool's."
)
@click.option(
    "-e", "--env", metavar="K[=V]", multiple=True, help="Environment variable; without =V, your value (repeatable)."
)
@click.option(
    "--secret", metavar="NAME", multiple=True, help="Credential to pass as variables named like its keys (repeatable)."
)
@click.option("-d", "--detach", is_flag=True, help="Print the ID and return.")
@click.option("--attached", is_flag=True, help="Cancel the workflow on Ctrl-C and SIGTERM.")
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
    chosen = _Chosen(command=command, **said)
    if sum((detach, attached, dry_run, prints)) > 1:
        raise click.UsageError("--detach, --attached, --dry-run and --print exclude each other. Use one of them.")
    if session.as_json and not (detach or dry_run):
        raise click.UsageError("-t json needs --detach or --dry-run, because the output of the command goes to stdout")
    task = _task(session, chosen)
    if task.nodes > 1 and starts_once_per_node(command):
        warn(
            f"Warning: {command[0]} starts once on each node. Use a launcher such as torchrun to start one process per GPU"
        )
    if prints:
        say(file_of(task).rstrip("\n"))
        return
    client = session.client
    asked = Asked(task.gpus, task.nodes, task.priority or "NORMAL", chosen.pool or default_pool(client), task.time)
    body = {"pool": asked.pool, "file": file_of(task)}
    if dry_run:
        _show_dry_run(session, client, body, asked)
        return
    answer = client.call("POST", path("workflows"), body=body, key=str(uuid4()))
    for each in answer["warnings"]:
        warn(f"Warning: {each}")
    id = str(answer["id"])
    with attachment.interruptible(client, id, attached=attached):
        for line in first_lines(id, asked, attachment.soon_of(client, id)):
            warn(line)
        if not detach:
            raise click.exceptions.Exit(attachment.followed(client, id))
    if not session.show({"id": id}):
        say(id)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The options, as parsed."""

    command: tuple[str, ...]
    gpus: tuple[str | None, int]
    nodes: int
    min_nodes: int | None
    cpus: int | None
    memory: str | None
    required: str | None
    preferred: str | None
    image: str | None
    pool: str | None
    priority: str | None
    name: str | None
    time: str | None
    env: tuple[str, ...]
    secret: tuple[str, ...]


def _task(session: Session, chosen: _Chosen) -> OneTask:
    if not chosen.command:
        raise click.UsageError("name a command after --: runrig run [OPTIONS] -- COMMAND [ARG...]")
    if chosen.min_nodes is not None and chosen.min_nodes > chosen.nodes:
        raise click.UsageError(f"--min-nodes {chosen.min_nodes} is more than --nodes {chosen.nodes}")
    _check_text(chosen.command)
    platform, gpus = chosen.gpus
    return OneTask(
        name=chosen.name or name_of(chosen.command),
        command=chosen.command,
        image=chosen.image or run_defaults.image_of_user() or NO_IMAGE,
        gpus=gpus,
        platform=platform,
        nodes=chosen.nodes,
        min_nodes=chosen.min_nodes,
        cpus=chosen.cpus,
        memory=chosen.memory,
        required=[chosen.required] if chosen.required else [],
        preferred=[chosen.preferred] if chosen.preferred else [],
        priority=chosen.priority,
        time=chosen.time,
        environment=_environment(click.get_current_context().meta[_ENVIRONMENT], chosen.env),
        credentials=_credentials(session.client, chosen.secret) if chosen.secret else {},
    )


def _check_text(command: Iterable[str]) -> None:
    for word in command:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise InvalidInput.one(f"argument {word!r:.80} is not UTF-8 text, which a workflow file needs") from None


def _environment(of_folder: Mapping[str, str], said: Iterable[str]) -> dict[str, str]:
    found = dict(of_folder)
    for each in said:
        name, sign, value = each.partition("=")
        if not sign and name not in os.environ:
            raise InvalidInput.one(f"-e {name}: it is not set here. Use -e {name}=VALUE")
        found[name] = value if sign else os.environ[name]
    _check_text(found.values())
    for name in found:
        if not ENVIRONMENT_NAME.fullmatch(name):
            raise InvalidInput.one(f"{name!r:.80} is not a variable name. Use letters, digits and '_'")
        if looks_secret(name):
            raise InvalidInput.one(
                f"{name} looks like a secret, and the workflow file would store its value. Store it once with "
                f"`runrig credential set NAME`, then use --secret NAME"
            )
    return found


def _credentials(client: Transport, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Returns for each credential its keys as variables of the same name. Raises NotFound, InvalidInput."""
    found = {}
    for name in names:
        keys = client.get(path("credentials", name))["keys"]
        wrong = [key for key in keys if not ENVIRONMENT_NAME.fullmatch(key)]
        if wrong:
            raise InvalidInput.one(
                f"credential {name} has the key {wrong[0]!r}, which cannot be the name of a variable. "
                "Name the variables under credentials: in a workflow file (runrig run --print)"
            )
        found[name] = {key: key for key in keys}
    return found


def _show_dry_run(session: Session, client: Transport, body: Mapping[str, Any], asked: Asked) -> None:
    answer = client.call("POST", path("workflows") + ":check", body=body)
    if session.show(answer):
        return
    verdict = answer["verdict"]
    say(f"{answer['id']}: {asked.text()}" + (f"; {verdict['sentence']}" if verdict else ""))
    for each in answer["warnings"]:
        warn(f"Warning: {each}")
