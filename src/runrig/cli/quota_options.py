"""Options of pools and cohorts that limit usage."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
NO_LIMIT = "none"


class Limit(click.ParamType[int | str]):
    """A number of GPUs, or ``none`` for no limit. ``h100=8,b200=none`` is sent as it is."""

    name = "N|none"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if isinstance(value, int) or value == NO_LIMIT or "=" in value:
            return value if isinstance(value, int) else str(value)
        if not str(value).isdecimal():
            self.fail(f"{value!r} is not a limit. Use a whole number of GPUs, none, or FLAVOR=N,...", param, ctx)
        return int(value)


class Quota(click.ParamType[int | str]):
    """GPUs. ``h100=8,b200=4`` with several flavors, or ``h100/cpu=96``, is sent as it is."""

    name = "GPUS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        text = str(value)
        if text.isdecimal():
            return int(text)
        if "=" not in text:
            self.fail(f"{text!r} is not a quota. Use a whole number of GPUs, or FLAVOR=GPUS,FLAVOR=GPUS.", param, ctx)
        return text


class TopologyKey(click.ParamType[dict[str, str]]):
    """``rack=topology.kubernetes.io/rack``: the name for users, and the node label."""

    name = "KEY=LABEL"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, str]:
        if isinstance(value, dict):
            return value
        key, sign, label = str(value).partition("=")
        if not (sign and key and label):
            self.fail(f"{value!r} is not KEY=LABEL, such as rack=topology.kubernetes.io/rack", param, ctx)
        return {"key": key, "label": label}


def quota_options(command: F) -> F:
    """--quota, --borrowing-limit, --lending-limit and --weight."""
    for option in (
        click.option(
            "--weight",
            type=click.IntRange(min=1),
            help="Share of borrowed capacity relative to siblings; effective as soon as weights differ.",
        ),
        click.option(
            "--lending-limit",
            type=Limit(),
            help="How many idle GPUs others may borrow; none: all of them. FLAVOR=N,... as for --quota.",
        ),
        click.option(
            "--borrowing-limit",
            type=Limit(),
            help="How many GPUs it may use beyond its quota; none: no limit. FLAVOR=N,... as for --quota.",
        ),
        click.option(
            "--quota",
            type=Quota(),
            help=(
                "Whole GPUs; FLAVOR=GPUS,... with several flavors; FLAVOR/RESOURCE=AMOUNT for other "
                "resources; AMOUNT none: no quota."
            ),
        ),
    ):
        command = option(command)
    return command


def request(**fields: Any) -> dict[str, Any]:
    """Returns the given options as the body of a request: None and an empty list mean not given, ``none`` means no
    limit.

    Lists are lists, as in answers, so that both can be compared.
    """
    return {
        name: None if value == NO_LIMIT else list(value) if isinstance(value, tuple) else value
        for name, value in fields.items()
        if value is not None and value != ()
    }


def something(body: dict[str, Any], what: str) -> dict[str, Any]:
    """Returns *body*. Raises UsageError if no option was given."""
    if not body:
        raise click.UsageError(f"say what to change of the {what}, such as --quota 8")
    return body
