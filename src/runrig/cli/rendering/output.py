"""Prints text for people, without anything that a terminal would obey."""

import click

from runrig.cli.rendering import sanitize


def say(text: str) -> None:
    """Prints *text* of one or more lines to stdout."""
    click.echo(sanitize.block(text))


def warn(text: str) -> None:
    """Prints *text* to stderr, which scripts do not read."""
    click.echo(sanitize.block(text), err=True)
