"""Asking a person before something goes away."""

import sys
from collections.abc import Callable

import click


def confirmed(question: str | Callable[[], str], *, yes: bool) -> None:
    """Asks a person; scripts, and people who said --yes, are not asked.  A *question* that costs something is only then made."""
    if not yes and sys.stdin.isatty() and sys.stdout.isatty():
        click.confirm(question if isinstance(question, str) else question(), abort=True)
