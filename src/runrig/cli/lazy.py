"""Groups that import a command only when it runs, and the format of help texts.

The lines of `--help` are plain text here, so that listing commands imports nothing.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import click

Lazy = Mapping[str, tuple[str, str]]
"""Name of the command → (``module:attribute``, its line in the group's help)."""


class LazyGroup(click.Group):
    """A group whose commands are in other modules."""

    def __init__(self, *args: Any, lazy: Lazy, headings: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        """*headings*: the first command of each section in `--help` → its heading."""
        super().__init__(*args, **kwargs)
        self.lazy = lazy
        self.headings = headings or {next(iter(lazy)): "Commands"}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in self.lazy:
            return None
        module, _, attribute = self.lazy[cmd_name][0].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        width = max(map(len, self.lazy))
        for heading, names in self._parts():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), self.lazy[name][1]) for name in names])

    def _parts(self) -> Iterator[tuple[str, list[str]]]:
        names = list(self.lazy)
        starts = [names.index(first) for first in self.headings]
        for start, end, heading in zip(starts, (*starts[1:], None), self.headings.values(), strict=True):
            yield heading, names[start:end]


def examples(*lines: str) -> str:
    """Returns the end of a help text: example *lines*, kept verbatim."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
