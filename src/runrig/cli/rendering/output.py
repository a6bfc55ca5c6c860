"""Prints text for people, without anything that a terminal would obey."""

import sys
from typing import TextIO

import click

from runrig.cli.rendering import sanitize
from runrig.cli.rendering.tables import folded, terminal


def say(text: str) -> None:
    """Prints *text* of one or more lines to stdout."""
    click.echo(sanitize.block(text))


def warn(text: str) -> None:
    """Prints sentences to stderr, which scripts do not read."""
    click.echo(_folded(sanitize.block(text), sys.stderr), err=True)


def tell(text: str) -> None:
    """Prints sentences to stdout."""
    click.echo(_folded(sanitize.block(text), sys.stdout))


def _folded(text: str, stream: TextIO) -> str:
    """*text* with its lines broken between words where a terminal would break them anywhere."""
    if not stream.isatty():
        return text
    width = terminal().columns
    lines = []
    for line in text.split("\n"):
        bare = line.lstrip(" ")
        indent = line[: len(line) - len(bare)]
        lines += [indent + part for part in folded(bare, max(1, width - len(indent)))]
    return "\n".join(lines)
