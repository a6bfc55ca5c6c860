"""Shared by all commands that call the server: the options for finding it, and JSON or text output."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

import click

from runrig.cli.rendering import sanitize
from runrig.cli.rendering.output import say, warn
from runrig.cli.rendering.tables import Table, show_any
from runrig.client.server_address import ServerAddress
from runrig.client.sign_in import SignIn
from runrig.client.transport import Transport, path, patience
from runrig.domain.errors import InvalidInput, ServerFault

Command = Callable[..., None]
TEXT, JSON, CSV = "text", "json", "csv"


class Session:
    """A command's connection to the server."""

    def __init__(self, server_address: ServerAddress, *, format: str) -> None:
        self.server_address = server_address
        self.as_json = format == JSON
        self.as_csv = format == CSV

    @property
    def client(self) -> Transport:
        address = self.server_address.address()
        token = self.server_address.token(address)
        hint = f"; log in with `runrig login {address.url}` or set RUNRIG_TOKEN"
        if address.loopback and token is None:
            hint = f", and {self.server_address.data_folder()} has none; set the data folder of the server with --data"
        return Transport(address, SignIn(self.server_address, address), hint, patience_s=patience(address, os.environ))

    def flavors(self) -> Sequence[Mapping[str, Any]]:
        """Returns all flavors, which only JSON needs; none in text mode."""
        return list(self.client.items(path("flavors"))) if self.as_json else ()

    def or_latest(self, id: str | None) -> str:
        """Returns *id*, or the user's latest workflow, whose id goes to stderr. Raises InvalidInput if there is none."""
        if id is not None:
            return id
        for latest in self.client.items(path("workflows"), {"mine": True}, most=1):
            found = str(latest["id"])
            warn(f"{found} (your latest workflow)")
            return found
        raise InvalidInput.one(
            "you have no workflow yet. Start one with `runrig run -- COMMAND`, or give the ID of another workflow"
        )

    def show(self, answer: Any) -> bool:
        """Prints *answer* in JSON mode; returns True if it did."""
        if self.as_json:
            click.echo(sanitize.as_json(answer))
        return self.as_json

    def say(self, answer: Any, words: str) -> None:
        """Prints *answer* in JSON mode, else *words*."""
        if not self.show(answer):
            say(words)

    def table(self, answer: Any, table: Table, nothing: str) -> None:
        """Prints *answer* in JSON mode, else *table*; *nothing* if it has no rows."""
        if not self.show(answer):
            show_any(table, nothing)


_SERVER = click.option("--server", metavar="URL", help="Server address.")
_DATA = click.option("--data", metavar="DIR", help="Data folder of the server, with its token.")


def with_session(command: Command, *, formats: tuple[str, ...] = (TEXT, JSON)) -> Command:
    """Passes a Session to *command* as its first argument, and adds the options --server, --data and -t."""

    @wraps(command)
    def run(**kwargs: Any) -> None:
        address = click.get_current_context().obj.or_else(kwargs.pop("server"), kwargs.pop("data"))
        session = Session(address, format=kwargs.pop("format_type"))
        try:
            command(session, **kwargs)
        except KeyError as error:
            raise ServerFault(
                f"unexpected response from {session.client.url} (no {error}). Check the server address and version with "
                "`runrig version`"
            ) from error

    says = "Output format; json prints one document on stdout."
    chosen = click.option("-t", "--format-type", type=click.Choice(formats), default=TEXT, help=says)
    return chosen(_SERVER(_DATA(run)))
