"""Asks a person before something is deleted."""

import sys
from collections.abc import Callable

import click


def asks() -> bool:
    """True if a person can be asked: both ends are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def confirmed(question: str | Callable[[], str], *, yes: bool) -> None:
    """Asks a person, but not a script or somebody who said --yes.  A callable *question* is called only if it is asked."""
    if not yes and asks():
        click.confirm(question if isinstance(question, str) else question(), abort=True)
