"""Options shared by several commands, some with their own help, and the types of their values."""

from collections.abc import Callable, Collection
from datetime import UTC, datetime
from functools import partial
from typing import Any

import click

from runrig.cli import completing
from runrig.domain.errors import InvalidInput
from runrig.domain.instants import instant
from runrig.domain.meant import suggested


class Parsed(click.ParamType[Any]):
    """A value that *parse* reads; it raises ValueError or BadParameter with what is wrong. *name*: in the help."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name, self._parse = name, parse

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:  # noqa: ARG002 (click's signature)
        return self.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def checked(name: str, parse: Callable[[str], object]) -> Parsed:
    """Text that *parse* can read, as it is."""

    def same(text: str) -> str:
        if not parse(text):
            raise click.BadParameter(f"{text!r} must be more than 0")
        return text

    return Parsed(name, same)


def utc_text(text: str, now: datetime) -> str:
    """Returns a time as typed by a user (local, unless it has a zone), as `instant`, as naive UTC for the server. Raises ValueError."""
    return instant(text, now.astimezone()).astimezone(UTC).replace(tzinfo=None).isoformat()


def moment(text: str) -> str:
    """As `utc_text`, from now on."""
    try:
        return utc_text(text, datetime.now(UTC))
    except (ValueError, OverflowError, OSError):
        raise click.BadParameter(
            f"{text!r} is not a time. Use 2026-01-31, 2026-01-31T13:00, 2h (ago), today or yesterday."
        ) from None


MOMENT = Parsed("TIME", moment)
"""A time in the zone of this machine or with its own zone, or a duration before now."""


def words(noun: str, known: Collection[str]) -> Parsed:
    """Some of *known*, separated by commas. *noun*: what each of them is."""

    def parse(text: str) -> tuple[str, ...]:
        found = tuple(dict.fromkeys(each.strip().lower() for each in text.split(",")))
        for each in found:
            if each not in known:
                otherwise = f". {noun.capitalize()}s: {', '.join(known)}"
                raise InvalidInput.one(f"unknown {noun} {each!r:.80}{suggested(each, known, otherwise)}")
        return found

    return Parsed(f"{noun.upper()}S", parse)


pool = partial(click.option, "--pool", "-p", shell_complete=completing.pools, metavar="NAME")
pools = partial(click.option, "--pool", "-p", "pools", multiple=True, shell_complete=completing.pools, metavar="NAME")
users = partial(click.option, "--user", "-u", "users", multiple=True, shell_complete=completing.users, metavar="NAME")
user = partial(click.option, "--user", "-u", shell_complete=completing.users, metavar="NAME")
cluster = partial(click.option, "--cluster", shell_complete=completing.files, metavar="CLUSTER")
file = partial(click.option, "-f", "--file", shell_complete=completing.files, metavar="FILE")
priority = partial(
    click.option,
    "--priority",
    type=click.Choice(["HIGH", "NORMAL", "LOW"], case_sensitive=False),
    metavar="HIGH|NORMAL|LOW",
    help="HIGH and NORMAL are never preempted and never borrow; LOW can borrow and be preempted.",
)
as_json = partial(
    click.option,
    "-t",
    "--format-type",
    "as_json",
    type=click.Choice(["text", "json"]),
    default="text",
    callback=lambda _context, _parameter, chosen: chosen == "json",
    help="Output format.",
)

config = partial(
    click.option,
    "--config",
    shell_complete=completing.files,
    metavar="FILE",
    help="Config file of `runrig serve`. Default: the data folder of `runrig up`.",
)
data = click.option("--data", metavar="DIR", help="Data folder of `runrig up` [RUNRIG_DATA].")
dry_run = click.option("--dry-run", is_flag=True, help="Show the effect without changing anything.")
limit = click.option(
    "--limit",
    "-n",
    type=click.IntRange(min=1),
    metavar="N",
    default=50,
    show_default=True,
    help="Maximum number of entries.",
)
no_mirror = click.option(
    "--no-mirror",
    is_flag=True,
    help=(
        "Run in one process. Large clusters are then not planned, and suggestions of what would "
        "start a workflow are limited."
    ),
)
yes = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
