"""Options of `run` and `shell`: one command line as one task, with defaults of ./runrig.toml."""

import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import click

from runrig.cli import options
from runrig.cli.commands.submit import default_pool
from runrig.cli.lazy import F, once, together
from runrig.cli.options import Parsed, checked
from runrig.cli.transport import code, run_defaults
from runrig.cli.transport.session import Session
from runrig.client.transport import Transport, path
from runrig.domain.errors import InvalidInput
from runrig.spec.arrays import combinations, parse_array, parse_sweep
from runrig.spec.one_task import MOST, NO_IMAGE, OneArray, OneTask, looks_secret, name_of, parse_gpus
from runrig.spec.overrides import parse_retry
from runrig.spec.task import ENVIRONMENT_NAME
from runrig.spec.values import parse_duration, parse_size

NO_CODE = "none"
_ENVIRONMENT = "runrig.toml env"


class CommandLine(click.Command):
    """Options end where the command begins. Defaults are those of ./runrig.toml."""

    allow_interspersed_args = False

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        own = given[: given.index("--")] if "--" in given else given
        # Neither a half-typed line nor the help is the place to report errors of a file.
        if not ctx.resilient_parsing and not set(own) & set(ctx.help_option_names):
            defaults = run_defaults.of_folder(Path())
            ctx.meta[_ENVIRONMENT] = defaults.pop("env", {})
            ctx.default_map = {_parameter(name): value for name, value in defaults.items()}
        try:
            rest = super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise click.UsageError(
                f"No such option {error.option_name!r}. {_SEPARATE} {ctx.command_path} [OPTIONS] -- COMMAND", ctx
            ) from None
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


_SEPARATE = "If it belongs to the command, write -- before the command:"


def _check_separated(ctx: click.Context, given: Sequence[str], command: Sequence[str]) -> None:
    """Refuses options after a command without ``--``: they could be meant for either."""
    before = given[: len(given) - len(command)]
    option = next((word for word in command if word.startswith("-") and word != "-"), None)
    if command and option is not None and (not before or before[-1] != "--") and not ctx.resilient_parsing:
        words = shlex.join(word for word in command if word != "--")
        raise click.UsageError(
            f"{option} comes after a command without --. Write options first, then -- and the command: "
            f"{ctx.command_path} [OPTIONS] -- {words}",
            ctx,
        )


task_options = together(
    click.option(
        "-g",
        "--gpus",
        type=Parsed("[TYPE:]N", parse_gpus),
        default="1",
        show_default=True,
        help="GPUs of each node; 0 for none.",
    ),
    click.option(
        "--cpus", type=click.IntRange(1, MOST), metavar="N", help="CPU cores of each node. Default: no request."
    ),
    click.option(
        "--memory",
        type=checked("SIZE", parse_size),
        help="Memory of each node, such as 64Gi. Default: no request.",
    ),
    click.option(
        "-i",
        "--image",
        metavar="IMAGE",
        help="Image. Default: that of the pool, or run.image in run.yaml in your configuration folder.",
    ),
    options.pool(help="Pool to submit to. Default: your default pool."),
    options.priority(
        help="HIGH and NORMAL are never preempted and never borrow; LOW can borrow and be preempted. Default: NORMAL."
    ),
    click.option(
        "-e",
        "--env",
        metavar="K[=V]",
        multiple=True,
        help="Environment variable; without =V, your value (repeatable).",
    ),
    click.option(
        "--secret",
        metavar="NAME",
        multiple=True,
        help="Credential to pass as variables named like its keys (repeatable).",
    ),
    click.option(
        "--code",
        default=".",
        metavar="DIR|none",
        help="Folder to send along, in which the command starts. Default: the current one.",
    ),
)
"""The options of `Chosen` that `run` and `shell` share."""


def time_option(default: str | None, help: str) -> Callable[[F], F]:
    return click.option("--time", type=checked("TIME", parse_duration), default=default, help=help)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The options, as parsed."""

    command: tuple[str, ...]
    gpus: tuple[str | None, int]
    cpus: int | None
    memory: str | None
    image: str | None
    pool: str | None
    priority: str | None
    time: str | None
    env: tuple[str, ...]
    secret: tuple[str, ...]
    code: str
    name: str | None = None
    nodes: int = 1
    min_nodes: int | None = None
    required: str | None = None
    preferred: str | None = None
    retry: str | None = None
    after: tuple[str, ...] = ()
    array: str | None = None
    sweep: tuple[str, ...] = ()
    most: int | None = None
    fail_fast: bool = False


def pool_of(session: Session, chosen: Chosen) -> Callable[[], dict[str, Any]]:
    """Returns a function for the pool to submit to, with its settings; the server is asked once.

    It raises NotFound; InvalidInput without a default pool.
    """

    @cache
    def pool() -> dict[str, Any]:
        client = session.client
        found: dict[str, Any] = client.get(path("pools", chosen.pool or default_pool(client)))
        return found

    return pool


def task_of(session: Session, chosen: Chosen, pool: Callable[[], Mapping[str, Any]], *, sends: bool = True) -> OneTask:
    """Sends the code of the task. Raises UsageError, InvalidInput; NotFound for an unknown credential.

    *pool*: as from `pool_of`. *sends*: False: only checks the code, and leaves it out.
    """
    if not chosen.command:
        raise click.UsageError("name a command after --: runrig run [OPTIONS] -- COMMAND [ARG...]")
    if chosen.min_nodes is not None and chosen.min_nodes > chosen.nodes:
        raise click.UsageError(f"--min-nodes {chosen.min_nodes} is more than --nodes {chosen.nodes}")
    _check_text(chosen.command)
    array = _array(chosen)
    platform, gpus = chosen.gpus
    environment = _environment(click.get_current_context().meta[_ENVIRONMENT], chosen.env)
    credentials = _credentials(session.client, chosen.secret) if chosen.secret else {}
    files = None if chosen.code == NO_CODE else code.choose(Path(chosen.code))
    return OneTask(
        name=chosen.name or name_of(chosen.command),
        command=chosen.command,
        image=chosen.image or _usual_image(pool),
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
        after=chosen.after,
        retry=parse_retry(chosen.retry) if chosen.retry else None,
        array=array,
        labels={} if files is None else files.labels,
        environment=environment,
        credentials=credentials,
        code=code.send(session.client, files) if files and sends else None,
    )


def _usual_image(pool: Callable[[], Mapping[str, Any]]) -> str:
    """Raises InvalidInput for an invalid run.yaml, before the server is asked."""
    own = run_defaults.image_of_user()
    image: str | None = pool()["default_image"]
    return image or own or NO_IMAGE


def _array(chosen: Chosen) -> OneArray | None:
    """Returns the array of ``--array`` or ``--sweep``. Raises UsageError."""
    if chosen.array and chosen.sweep:
        raise click.UsageError("--array and --sweep exclude each other. Use one of them.")
    if chosen.array:
        asked = parse_array(chosen.array)
        if asked.most is not None and chosen.most is not None:
            raise click.UsageError(
                f"--array {chosen.array} and --most {chosen.most} both set a limit. Use one of them."
            )
        return OneArray(asked.indices, (), asked.most or chosen.most, chosen.fail_fast)
    if chosen.sweep:
        try:
            values = combinations([parse_sweep(each) for each in chosen.sweep])
        except ValueError as error:
            raise click.UsageError(f"--sweep: {error}") from None
        return OneArray(None, values, chosen.most, chosen.fail_fast)
    if chosen.fail_fast or chosen.most is not None:
        raise click.UsageError(f"{'--fail-fast' if chosen.fail_fast else '--most'} requires --array or --sweep")
    return None


def _check_text(command: Iterable[str]) -> None:
    for word in command:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise InvalidInput.one(f"argument {word!r:.80} is not UTF-8 text, which a workflow file needs") from None


def _environment(of_folder: Mapping[str, str], said: Iterable[str]) -> dict[str, str]:
    given = []
    for each in said:
        name, sign, value = each.partition("=")
        if not sign and name not in os.environ:
            raise InvalidInput.one(f"-e {name}: it is not set here. Use -e {name}=VALUE")
        given.append((name, value if sign else os.environ[name]))
    found = dict(of_folder) | once("-e", given)
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
