"""The options of a submission, except its file: `submit`, `validate`, `render` and `plan -s` have them, and `run` some."""

import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import click

from runrig.cli import completing, options
from runrig.cli.lazy import F, once, together
from runrig.cli.options import Parsed, checked
from runrig.client.calls.submission import settings
from runrig.domain.after import parse_after
from runrig.domain.workflows import MOST_ELEMENTS
from runrig.spec.arrays import parse_array, parse_sweep
from runrig.spec.overrides import parse_retry


def _pair(text: str) -> str:
    """``KEY=VALUE``; everything after the first ``=`` is the value."""
    key, sign, _ = text.partition("=")
    if not (sign and key.strip()):
        raise click.BadParameter(f"{text!r} is not KEY=VALUE")
    return text


_PAIR = Parsed("K=V", _pair)


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

    def __post_init__(self) -> None:
        once("--set", _pairs((*self.variables, *self.string_variables)))
        once("--set-env", _pairs(self.environment))
        once("--label", _pairs(self.labels))

    def whole(self, pool: str) -> dict[str, Any]:
        """Returns the fields of a request for all files, which go to *pool*."""
        environment, labels = dict(_pairs(self.environment)), dict(_pairs(self.labels))
        again = self.retry, self.after, self.array, self.sweep, self.most
        return {"pool": pool} | settings(self.priority, environment, labels, *again)

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


def _pairs(texts: Iterable[str]) -> list[tuple[str, str]]:
    """Returns ``K=V`` texts as pairs."""
    return [(key, value) for key, _, value in (text.partition("=") for text in texts)]


def array_options(placeholder: str) -> Callable[[F], F]:
    """Options that run a file or a command again. *placeholder*: how it names a value of --sweep."""
    return together(
        click.option(
            "--retry",
            type=checked("N[:CODES]", parse_retry),
            help="Restart each task up to N times if it ends with one of CODES, such as 75,137. Default: any code but 0.",
        ),
        click.option(
            "--after",
            type=checked("ID[:ok|any|fail]", parse_after),
            multiple=True,
            shell_complete=completing.workflows,
            help="Wait until workflow ID, or the element ID/INDEX of an array, has ended: completed (ok, the default), "
            "failed, or either (any) (repeatable).",
        ),
        click.option(
            "--array",
            type=checked("INDICES[%N]", parse_array),
            help="Run it once for each index, such as 0-9; %N: at most N at a time. {{array_index}} and "
            "RUNRIG_ARRAY_INDEX have the index.",
        ),
        click.option(
            "--sweep",
            type=checked("NAME=V,V", parse_sweep),
            multiple=True,
            help=f"Run it once for each value; {{{{{placeholder}}}}} and the variable NAME have it (repeatable: every "
            "combination).",
        ),
        click.option(
            "--most",
            type=click.IntRange(1, MOST_ELEMENTS),
            metavar="N",
            help="With --array or --sweep: run at most N at a time.",
        ),
    )


submit_options = together(
    options.priority(),
    click.option("--set", "variables", type=_PAIR, multiple=True, help="Template variable (repeatable)."),
    click.option(
        "--set-string",
        "string_variables",
        type=_PAIR,
        multiple=True,
        help="Like --set, but the value is always a string (repeatable).",
    ),
    click.option(
        "--set-env", "environment", type=_PAIR, multiple=True, help="Environment variable for all tasks (repeatable)."
    ),
    click.option("--label", "labels", type=_PAIR, multiple=True, help="Label; overrides the file's (repeatable)."),
    array_options("array:NAME"),
)
"""The options of `Settings`."""
