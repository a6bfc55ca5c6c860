"""The options of a submission, except its file: `submit`, `validate`, `render` and `plan -s` have them."""

import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import click

from runrig.cli import completing, options
from runrig.domain.workflows import MOST_ELEMENTS

RETRY_HELP = "Restart each task up to N times if it ends with one of CODES, such as 75,137. Default: any code but 0."
AFTER = "ID[:ok|any|fail]"
AFTER_HELP = (
    "Wait until workflow ID, or the element ID/INDEX of an array, has ended: completed (ok, the default), failed, or "
    "either (any) (repeatable)."
)
ARRAY_HELP = "Run it once for each index, such as 0-9; %N: at most N at a time. {{array_index}} and RUNRIG_ARRAY_INDEX have the index."
MOST_HELP = "With --array or --sweep: run at most N at a time."
F = TypeVar("F", bound=Callable[..., Any])


class Pair(click.ParamType[str]):
    """``KEY=VALUE``; everything after the first ``=`` is the value."""

    name = "K=V"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        key, sign, _ = str(value).partition("=")
        if not (sign and key.strip()):
            self.fail(f"{value!r} is not KEY=VALUE", param, ctx)
        return str(value)


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of a submission, except its file."""

    priority: str | None
    variables: tuple[str, ...]
    string_variables: tuple[str, ...]
    environment: tuple[str, ...]
    labels: tuple[str, ...]
    retry: str | None
    after: tuple[str, ...]
    array: str | None
    sweep: tuple[str, ...]
    most: int | None

    def whole(self, pool: str) -> dict[str, Any]:
        """Returns the fields of a request for all files, which go to *pool*."""
        always = {"pool": pool, "priority": self.priority}
        by_name = {"environment": _by_name(self.environment), "labels": _by_name(self.labels)}
        lists = {"after": list(self.after), "sweep": list(self.sweep)}
        others = {"retry": self.retry, "array": self.array, "most": self.most}
        given = {name: value for name, value in (lists | others).items() if value not in ([], None)}
        return always | by_name | given

    def options(self) -> tuple[str, ...]:
        """Returns the options as words of a command line."""
        named = (
            ("--priority", (self.priority,) if self.priority else ()),
            ("--set", self.variables),
            ("--set-string", self.string_variables),
            ("--set-env", self.environment),
            ("--label", self.labels),
            ("--retry", (self.retry,) if self.retry else ()),
            ("--after", self.after),
            ("--array", (self.array,) if self.array else ()),
            ("--sweep", self.sweep),
            ("--most", (str(self.most),) if self.most else ()),
        )
        return tuple(word for option, values in named for value in values for word in (option, value))

    def besides_file(self) -> str:
        """Returns the options that a rendered file does not show, as typed; empty if there are none."""
        return shlex.join(replace(self, variables=(), string_variables=()).options())

    def body(self, text: str) -> dict[str, Any]:
        """Returns the fields of a request for one file."""
        return {"file": text, "variables": list(self.variables), "string_variables": list(self.string_variables)}


def _by_name(pairs: Iterable[str]) -> dict[str, str]:
    """Returns ``K=V`` pairs as a map; the last value of a key wins."""
    return {key: value for key, _, value in (pair.partition("=") for pair in pairs)}


def submit_options(command: F) -> F:
    """The options of `Settings`."""
    for option in (
        click.option("--most", type=click.IntRange(1, MOST_ELEMENTS), metavar="N", help=MOST_HELP),
        click.option(
            "--sweep",
            multiple=True,
            metavar="NAME=V,V",
            help="Run it once for each value; {{array:NAME}} and the variable NAME have it (repeatable: every combination).",
        ),
        click.option("--array", metavar="INDICES[%N]", help=ARRAY_HELP),
        click.option("--after", multiple=True, metavar=AFTER, help=AFTER_HELP, shell_complete=completing.workflows),
        click.option("--retry", metavar="N[:CODES]", help=RETRY_HELP),
        click.option("--label", "labels", type=Pair(), multiple=True, help="Label; overrides the file's (repeatable)."),
        click.option(
            "--set-env",
            "environment",
            type=Pair(),
            multiple=True,
            help="Environment variable for all tasks (repeatable).",
        ),
        click.option(
            "--set-string",
            "string_variables",
            type=Pair(),
            multiple=True,
            help="Like --set, but the value is always a string (repeatable).",
        ),
        click.option("--set", "variables", type=Pair(), multiple=True, help="Template variable (repeatable)."),
        options.priority(),
    ):
        command = option(command)
    return command
