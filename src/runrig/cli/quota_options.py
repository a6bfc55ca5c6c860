"""Options of pools and cohorts that limit usage."""

from collections.abc import Callable
from typing import Any

import click

from runrig.cli.lazy import F, once, together
from runrig.cli.options import Parsed
from runrig.domain.quantities import whole_number
from runrig.domain.settings import SETTINGS, Choice, Duration, Number, Setting

NO_LIMIT = "none"

Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def gpus(name: str, said: str, marks: str = "=", word: str | None = None) -> Parsed:
    """Whole GPUs. A text with one of *marks*, such as ``h100=8,b200=4``, is sent as it is, and so is *word*.

    *said*: what a wrong value is not, and what to type instead.
    """

    def parse(text: str) -> int | str:
        if (number := whole_number(text)) is not None:
            return number
        if text != word and not any(mark in text for mark in marks):
            raise click.BadParameter(f"{text!r:.80} is not {said}")
        return text

    return Parsed(name, parse)


_LIMIT = gpus("N|none", "a limit. Use a whole number of GPUs, none, or FLAVOR=N,...", word=NO_LIMIT)
_QUOTA = gpus("GPUS", "a quota. Use a whole number of GPUs, or FLAVOR=GPUS,FLAVOR=GPUS.")


def _none_removes(setting: Setting) -> bool:
    return setting.removable and isinstance(setting.kind, Duration | Number)


def setting_option(setting: Setting, complete: Complete | None = None) -> Callable[[F], F]:
    """The option of a row of `domain.settings`; ``none`` removes a time or a number, "" anything else that is removable."""
    kind = setting.kind
    removes = "|none" if _none_removes(setting) else ""
    name = setting.label.replace(" ", "-")

    def parse(text: str) -> Any:
        return text if removes and text == NO_LIMIT else setting.parse(text)

    return click.option(
        f"--{name.removesuffix('s') if kind.repeats else name}",
        setting.asked,
        type=click.Choice(kind.of, case_sensitive=False) if isinstance(kind, Choice) else Parsed(kind.metavar, parse),
        multiple=kind.repeats,
        metavar=kind.metavar + removes,
        help=f"{setting.what}{' (repeatable)' if kind.repeats else ''}.".replace("`", ""),
        shell_complete=complete,
    )


quota_options = together(
    click.option(
        "--quota",
        type=_QUOTA,
        help=(
            "Whole GPUs; FLAVOR=GPUS,... with several flavors; FLAVOR/RESOURCE=AMOUNT for other "
            "resources; AMOUNT none: no quota."
        ),
    ),
    click.option(
        "--borrowing-limit",
        type=_LIMIT,
        help="How many GPUs it may use beyond its quota; none: no limit. FLAVOR=N,... as for --quota.",
    ),
    click.option(
        "--lending-limit",
        type=_LIMIT,
        help="How many idle GPUs others may borrow; none: all of them. FLAVOR=N,... as for --quota.",
    ),
)


def request(**fields: Any) -> dict[str, Any]:
    """Returns the given options as the body of a request: None and an empty list mean not given, ``none`` means no
    limit.

    Lists are lists, as in answers, so that both can be compared.
    """
    return {
        name: None if value == NO_LIMIT and name not in _WORDS else _whole(name, value)
        for name, value in fields.items()
        if value is not None and value != ()
    }


_WORDS = {each.asked for each in SETTINGS if not (isinstance(each.kind, Duration) or _none_removes(each))}
"""Settings in which ``none`` is a word like others."""


def _whole(name: str, value: Any) -> Any:
    """The value of a repeatable option."""
    if not isinstance(value, tuple):
        return value
    if isinstance(value[0], dict):
        return once(f"--{name.replace('_', '-').removesuffix('s')}", (pair for part in value for pair in part.items()))
    return [each for part in value for each in part]


def edited(kind: str, above: str, settings: dict[str, Any], *, removed: bool) -> dict[str, Any]:
    """Returns the body of an edit of a *kind*. *removed*: there is --no-ABOVE. Raises UsageError."""
    if removed and settings[above] is not None:
        raise click.UsageError(f"--{above} and --no-{above} exclude each other. Use one of them.")
    body = request(**settings) | ({above: None} if removed else {})
    if not body:
        raise click.UsageError(f"nothing to change. Specify a setting of the {kind}, such as --quota 8")
    return body
