"""Tables: plain text that scripts can cut when piped, rich text on a terminal."""

import os
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import click

from runrig.cli.rendering import sanitize

_GAP = "  "
_STYLES = {
    "ONLINE": "green",
    "ACTIVE": "green",
    "Ready": "green",
    "RUNNING": "cyan",
    "COMPLETED": "green",
    "PENDING": "yellow",
    "SCHEDULING": "yellow",
    "WAITING": "yellow",
    "INITIALIZING": "yellow",
    "DELETING": "yellow",
    "NotReady": "red",
}


@dataclass(frozen=True, slots=True)
class Table:
    """Columns, rows of as many cells, and a last row of sums.  *widths*: minimum widths of columns, in characters."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    sums: tuple[str, ...] | None = None
    widths: Mapping[str, int] = field(default_factory=dict)


def style(status: str) -> str:
    """The style of *status* on a terminal; "" for none."""
    return "red" if status.startswith("FAILED") else _STYLES.get(status, "")


def on_terminal() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def show(table: Table) -> None:
    """Prints *table* as suits stdout."""
    clean_table = Table(table.columns, [_cells(row) for row in table.rows], table.sums, table.widths)
    if on_terminal():
        _show_rich(clean_table)
    else:
        click.echo("\n".join(plain(clean_table)))


def facts(pairs: Iterable[tuple[str, object]]) -> None:
    """Prints names and values, one pair per line, without values that are None."""
    known = [(name, sanitize.line(value)) for name, value in pairs if value is not None]
    width = max((len(name) for name, _ in known), default=0)
    for name, value in known:
        click.echo(f"{name:{width}}{_GAP}{value}".rstrip())


def plain(table: Table) -> list[str]:
    """Left-aligned columns two spaces apart, the header underlined; no line ends in spaces."""
    everything = [table.columns, *table.rows, *([table.sums] if table.sums else [])]
    widths = [
        max(table.widths.get(name, 0), *(_width(row[at]) for row in everything))
        for at, name in enumerate(table.columns)
    ]
    dashes = tuple("-" * width for width in widths)
    lines = [table.columns, dashes, *table.rows]
    if table.sums:
        lines += [dashes, table.sums]
    return [_GAP.join(_padded(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in lines]


def _cells(row: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sanitize.line(cell) for cell in row)


def _width(text: str) -> int:
    """Columns on a terminal: East Asian wide characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(letter) else 1 + (unicodedata.east_asian_width(letter) in "WF") for letter in text
    )


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


def _show_rich(table: Table) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(box=SIMPLE_HEAD, show_footer=table.sums is not None, pad_edge=False)
    for at, name in enumerate(table.columns):
        drawn.add_column(Text(name), footer=Text(table.sums[at] if table.sums else ""), overflow="fold")
    for row in table.rows:
        drawn.add_row(*(Text(cell, style=style(cell)) for cell in row))
    Console(highlight=False).print(drawn)
