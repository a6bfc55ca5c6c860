"""Creates commands and groups. Groups import a command only when it runs.

The lines of `--help` are plain text here, so that listing commands imports nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
Lazy = Mapping[str, tuple[str, str]]
"""Name of the command → (``module:attribute``, its line in the group's help)."""


def once(option: str, pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Returns *pairs*, from all places where *option* is set, as a map. Raises UsageError for a key with two values."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if found.setdefault(key, value) != value:
            raise click.UsageError(f"{option} sets {key} twice: {found[key]} and {value}. Keep one of them.")
    return found


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
        width, sections = max(map(len, self.lazy)), list[tuple[str, list[tuple[str, str]]]]()
        for name, (_, line) in self.lazy.items():
            if name in self.headings:
                sections.append((self.headings[name], []))
            sections[-1][1].append((name.ljust(width), line))
        for heading, lines in sections:
            with formatter.section(heading):
                formatter.write_dl(lines)


def command(
    *examples: str, of: click.Group | None = None, cls: type[click.Command] = click.Command, **settings: Any
) -> Callable[[Callable[..., Any]], click.Command]:
    """Makes a function a command, with *examples* at the end of its help. *of*: the group that it belongs to."""
    epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in examples)
    return (of or click).command(cls=cls, epilog=epilog, **settings)


def group(*examples: str, **settings: Any) -> Callable[[Callable[..., Any]], click.Group]:
    """The same for a group. *lazy*: its commands, if they are in other modules."""
    return command(*examples, **{"cls": LazyGroup if "lazy" in settings else click.Group} | settings)  # type: ignore[return-value]


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Returns *options* as one decorator, in the order of the help."""

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate
