"""Asks for confirmation before a deletion."""

import sys
from collections.abc import Callable

import click


def asks() -> bool:
    """Whether stdin and stdout are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def confirmed(question: str | Callable[[], str], *, yes: bool) -> None:
    """Asks unless in a script or with --yes. A callable *question* is called only if needed."""
    if not yes and asks():
        click.confirm(question if isinstance(question, str) else question(), abort=True)
