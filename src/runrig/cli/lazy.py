"""Groups that import a command only when it is run, and the common look of help texts.

The lines that `--help` lists are plain text here, so that listing costs no import.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

Lazy = Mapping[str, tuple[str, str]]
"""name of the command → (``module:attribute``, its line in the help of the group)."""


class LazyGroup(click.Group):
    """A group whose commands live in other modules."""

    def __init__(self, *args: Any, lazy: Lazy, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's own signature)
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in self.lazy:
            return None
        module, _, attribute = self.lazy[cmd_name][0].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.lazy.items()])


def examples(*lines: str) -> str:
    """The end of a help text: *lines* to type, kept verbatim."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
