"""Screens: answers that are shown once, or again and again until Ctrl-C."""

import time
from collections.abc import Callable
from typing import Any

import click

from runrig.cli.rendering.tables import on_terminal
from runrig.cli.transport.session import Session
from runrig.client.transport import Transport

MOST = 100
"""Maximum workflows on a screen."""
_EVERY_S = 2.0

watching = click.option("-w", "--watch", is_flag=True, help=f"Refresh every {_EVERY_S:g} s until Ctrl-C.")


def repeated(session: Session, watch: bool, ask: Callable[[Transport], Any], tell: Callable[[Any], None]) -> None:
    """Prints what *ask* returns: as JSON, or with *tell*; with *watch* repeatedly."""
    if watch and session.as_json:
        raise click.UsageError("--watch cannot be used with -t json")
    client = session.client
    while True:
        answer = ask(client)
        if not session.show(answer):
            if watch and on_terminal():
                click.clear()
            tell(answer)
        if not watch:
            return
        time.sleep(_EVERY_S)
