"""Prints text for users, without control sequences."""

import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TextIO

import click

from runrig.cli.rendering import sanitize
from runrig.cli.rendering.tables import columns_of, folded, terminal


def say(text: str) -> None:
    """Prints *text* of one or more lines to stdout."""
    click.echo(sanitize.block(text))


def warn(text: str) -> None:
    """Prints sentences to stderr, which scripts do not read."""
    with suppress(OSError):  # Whether it was shown does not change the outcome of the command.
        click.echo(_folded(sanitize.block(text), sys.stderr), err=True)


def warn_of(answer: Mapping[str, Any]) -> None:
    """Prints the warnings in *answer*."""
    for warning in answer.get("warnings") or ():
        warn(f"Warning: {warning}")


def tell(text: str) -> None:
    """Prints sentences to stdout."""
    click.echo(_folded(sanitize.block(text), sys.stdout))


def to_apply(command: str) -> None:
    """Prints *command* for users to paste. It is never wrapped, so it may need a line of its own."""
    sentence = "Nothing was changed. To apply:"
    wide = sys.stdout.isatty() and columns_of(f"{sentence} {command}") > terminal().columns
    say(f"{sentence}{chr(10) if wide else ' '}{command}")


_GAPS, _SPACE = re.compile(" {2,}"), "\0"
"""Spaces between columns stay; \\0 does not occur in a sanitized text."""


def _folded(text: str, stream: TextIO) -> str:
    """Wraps *text* between words on a terminal, which would otherwise break it anywhere."""
    if not stream.isatty():
        return text
    width = terminal().columns
    lines = []
    for line in text.split("\n"):
        bare = line.lstrip(" ")
        indent = line[: len(line) - len(bare)]
        whole = _GAPS.sub(lambda gap: _SPACE * len(gap[0]), bare)
        lines += [indent + part.replace(_SPACE, " ") for part in folded(whole, max(1, width - len(indent)))]
    return "\n".join(lines)
