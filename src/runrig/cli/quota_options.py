"""Options of pools and cohorts that limit usage."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from runrig.domain.quantities import whole_number
from runrig.domain.settings import SETTINGS, Choice, Duration, Number, Setting

F = TypeVar("F", bound=Callable[..., Any])
NO_LIMIT = "none"

Complete = Callable[[click.Context, click.Parameter, str], list[str]]


class Limit(click.ParamType[int | str]):
    """A number of GPUs, or ``none`` for no limit. ``h100=8,b200=none`` is sent as it is."""

    name = "N|none"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if isinstance(value, int) or value == NO_LIMIT or "=" in value:
            return value if isinstance(value, int) else str(value)
        if (gpus := whole_number(str(value))) is None:
            self.fail(f"{value!r:.80} is not a limit. Use a whole number of GPUs, none, or FLAVOR=N,...", param, ctx)
        return gpus


class Quota(click.ParamType[int | str]):
    """GPUs. ``h100=8,b200=4`` with several flavors, or ``h100/cpu=96``, is sent as it is."""

    name = "GPUS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        text = str(value)
        if (gpus := whole_number(text)) is not None:
            return gpus
        if "=" not in text:
            self.fail(
                f"{text!r:.80} is not a quota. Use a whole number of GPUs, or FLAVOR=GPUS,FLAVOR=GPUS.", param, ctx
            )
        return text


class Typed(click.ParamType[Any]):
    """A setting as typed on the command line."""

    def __init__(self, setting: Setting) -> None:
        self._setting, self.name = setting, setting.kind.metavar

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == NO_LIMIT and _none_removes(self._setting):
            return value
        try:
            return self._setting.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _none_removes(setting: Setting) -> bool:
    return setting.removable and isinstance(setting.kind, Duration | Number)


def setting_option(setting: Setting, complete: Complete | None = None) -> Callable[[F], F]:
    """The option of a row of `domain.settings`; ``none`` removes a time or a number, "" anything else that is removable."""
    kind = setting.kind
    removes = "|none" if _none_removes(setting) else ""
    name = setting.label.replace(" ", "-")
    return click.option(
        f"--{name.removesuffix('s') if kind.repeats else name}",
        setting.asked,
        type=click.Choice(kind.of, case_sensitive=False) if isinstance(kind, Choice) else Typed(setting),
        multiple=kind.repeats,
        metavar=kind.metavar + removes,
        help=f"{setting.what}{' (repeatable)' if kind.repeats else ''}.".replace("`", ""),
        shell_complete=complete,
    )


def quota_options(command: F) -> F:
    """--quota, --borrowing-limit and --lending-limit."""
    for option in (
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
        name: None if value == NO_LIMIT and name not in _WORDS else _together(value)
        for name, value in fields.items()
        if value is not None and value != ()
    }


_WORDS = {each.asked for each in SETTINGS if not (isinstance(each.kind, Duration) or _none_removes(each))}
"""Settings in which ``none`` is a word like others."""


def _together(value: Any) -> Any:
    """The value of a repeatable option."""
    if not isinstance(value, tuple):
        return value
    if isinstance(value[0], dict):
        return {name: each for part in value for name, each in part.items()}
    return [each for part in value for each in part]


def something(body: dict[str, Any], what: str) -> dict[str, Any]:
    """Returns *body*. Raises UsageError if no option was given."""
    if not body:
        raise click.UsageError(f"nothing to change. Specify a setting of the {what}, such as --quota 8")
    return body
