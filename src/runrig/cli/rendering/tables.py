"""Tables: plain text of full width in a pipe; coloured on a terminal, without columns that do not fit."""

import os
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import click

from runrig.cli.rendering import sanitize

T = TypeVar("T")
WIDTH = 80
"""Maximum columns of texts that are not tables, also in a pipe."""
_GAP = "  "
_NARROWEST_PROSE = 24
"""Minimum characters of a text column while other columns can be dropped."""
_COLOURS = {
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
class Column:
    """*importance*: on a narrow terminal the highest are kept, of equal ones the left; None: never dropped.

    *prose*: sentences, which can be wrapped at spaces. *least*: minimum width in characters, if its cells need no more.
    *below*: where it does not fit, its sentences are below their rows.
    """

    name: str
    importance: int | None = None
    prose: bool = False
    least: int = 0
    below: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Columns, rows with as many cells, and a last row of totals.

    Names are never wrapped or cut: a name that is wider than the terminal overflows.
    """

    columns: tuple[Column, ...]
    rows: Sequence[tuple[str, ...]]
    sums: tuple[str, ...] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


def styled(text: str, **how: Any) -> str:
    """Returns *text* for a terminal; without *how*, in the colour of a status."""
    bare = text.strip()
    colour = "red" if bare.startswith("FAILED") else _COLOURS.get(bare)
    how = how or ({"fg": colour} if colour else {})
    if not how or not bare or os.environ.get("NO_COLOR"):
        return text
    return text.replace(bare, click.style(bare, **how))


def on_terminal() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def terminal() -> os.terminal_size:
    return shutil.get_terminal_size()


def text_width() -> int:
    return min(WIDTH, terminal().columns) if on_terminal() else WIDTH


def show(table: Table) -> None:
    """Prints *table* for stdout; on a terminal also names the dropped columns."""
    clean_table = replace(table, rows=[tuple(map(sanitize.line, row)) for row in table.rows])
    if not on_terminal():
        click.echo("\n".join(plain(clean_table)))
        return
    width = terminal().columns
    click.echo("\n".join(drawn(clean_table, width)))
    shown = fitting(clean_table, width).names
    if gone := [each.name for each in table.columns if each.name not in shown and not each.below]:
        for line in folded(f"no room for {', '.join(gone)}: widen the terminal, or pipe it", width):
            click.echo(styled(line, dim=True))


def show_any(table: Table, nothing: str) -> None:
    """Prints *table*; *nothing* if it has no rows."""
    if table.rows:
        show(table)
    else:
        click.echo(sanitize.block(nothing))


def facts(pairs: Iterable[tuple[str, object]]) -> None:
    """Prints one name and value per line, without None values; a terminal gets long values on separate lines."""
    known = [(name, sanitize.line(value)) for name, value in pairs if value is not None]
    width = max((len(name) for name, _ in known), default=0)
    for name, value in known:
        lines = folded(value, max(1, terminal().columns - width - len(_GAP))) if on_terminal() else [value]
        for at, line in enumerate(lines):
            click.echo(f"{'' if at else name:{width}}{_GAP}{line}".rstrip())


def plain(table: Table) -> list[str]:
    """Returns left-aligned columns two spaces apart, with an underlined header and no trailing spaces."""
    widths = _widths(table)
    dashes = tuple("-" * width for width in widths)
    lines = [table.names, dashes, *table.rows]
    if table.sums:
        lines += [dashes, table.sums]
    return [_GAP.join(_padded(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in lines]


def drawn(table: Table, width: int) -> list[str]:
    """Returns the same for a terminal of *width* columns: drops columns, wraps sentences, colours statuses.

    If even the columns that are always shown do not fit, the first one has a line of its own, above the rest of its row.
    """
    whole, table = table, fitting(table, width)
    below = [at for at, column in enumerate(whole.columns) if column.below and column not in table.columns]
    apart = _apart(table, width)
    inner = _without_first(table) if apart else table
    widths = _narrowed(inner, width - len(_GAP) if apart else width)
    bar = (
        "─" * max(_widths(table)[0], len(_GAP) + _across(widths)) if apart else _GAP.join("─" * each for each in widths)
    )
    rule = styled(bar[:width], dim=True)

    def lines(cells: Sequence[str], above: str = "", **how: Any) -> list[str]:
        if not apart:
            return _row(cells, widths, **how)
        first = [] if cells[0] in ("", above) else [styled(cells[0], **how)]
        return [*first, *(_GAP + line for line in _row(cells[1:], widths, **how))]

    drawn = [*lines(table.names, bold=True), rule]
    for at, row in enumerate(table.rows):
        drawn += lines(row, table.rows[at - 1][0] if at else "")
        for text in filter(None, (whole.rows[at][each] for each in below)):
            drawn += [_GAP + line for line in folded(text, width - len(_GAP))]
    return [*drawn, rule, *lines(table.sums, bold=True)] if table.sums else drawn


def fitting(table: Table, width: int) -> Table:
    """Returns *table* with the columns that `drawn` shows: those that fit, the most important first; empty ones last."""

    def rank(at: int) -> tuple[bool, int, int]:
        return not _empty(table, at), table.columns[at].importance or 0, -at

    may_go = [at for at, column in enumerate(table.columns) if column.importance is not None]
    shown = [at for at in range(len(table.columns)) if at not in may_go]
    apart = _apart(_only(table, shown), width)
    for at in sorted(may_go, key=rank, reverse=True):
        wider = _only(table, sorted((*shown, at)))
        if _fits(_without_first(wider), width - len(_GAP)) if apart else _fits(wider, width):
            shown.append(at)
    return _only(table, sorted(shown))


def _apart(table: Table, width: int) -> bool:
    """Whether *table* fits only without its first column."""
    return len(table.columns) > 1 and not _fits(table, width)


def _without_first(table: Table) -> Table:
    return _only(table, range(1, len(table.columns)))


def _fits(table: Table, width: int) -> bool:
    return _across(_floors(table)) <= width


def _across(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _empty(table: Table, at: int) -> bool:
    return all(row[at] in ("", "-") for row in table.rows)


def _only(table: Table, shown: Sequence[int]) -> Table:
    """Returns *table* with the columns at these positions."""

    def those(cells: Sequence[T]) -> tuple[T, ...]:
        return tuple(cells[at] for at in shown)

    return Table(those(table.columns), [those(row) for row in table.rows], table.sums and those(table.sums))


def _floors(table: Table) -> list[int]:
    """Returns the minimum width of each column; for sentences, that of the longest word."""
    return [
        min(width, max(_NARROWEST_PROSE, *(columns_of(word) for row in table.rows for word in ("", *row[at].split()))))
        if column.prose
        else width
        for at, (column, width) in enumerate(zip(table.columns, _widths(table), strict=True))
    ]


def _narrowed(table: Table, width: int) -> list[int]:
    """Returns column widths, narrowing sentences as far as necessary, the widest first."""
    widths, floors = _widths(table), _floors(table)
    while _across(widths) > width:
        wide = max(range(len(widths)), key=lambda at: (widths[at] > floors[at], widths[at]))
        if widths[wide] <= floors[wide]:
            break
        widths[wide] -= 1
    return widths


def _row(cells: Sequence[str], widths: Sequence[int], **how: Any) -> list[str]:
    columns = [folded(cell, width) for cell, width in zip(cells, widths, strict=True)]
    lines = []
    for at in range(max(map(len, columns))):
        parts = [part[at] if at < len(part) else "" for part in columns]
        padded = [_padded(part, width) for part, width in zip(parts, widths, strict=True)]
        lines.append(_GAP.join(styled(part, **how) for part in padded))
    return [line.rstrip() for line in lines]


def folded(text: str, width: int) -> list[str]:
    """Wraps *text* at spaces to *width* columns; a longer word gets a line of its own."""
    if columns_of(text) <= width:
        return [text]
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if lines[-1] and columns_of(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def wrapped(text: str, first: str = "", indent: int = 0) -> list[str]:
    """Returns *text* in lines of `text_width` columns; *first* precedes it, and *indent* spaces the other lines. Never breaks names."""
    return textwrap.wrap(
        text,
        text_width(),
        initial_indent=first,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _widths(table: Table) -> list[int]:
    everything = [table.names, *table.rows, *([table.sums] if table.sums else [])]
    return [max(column.least, *(columns_of(row[at]) for row in everything)) for at, column in enumerate(table.columns)]


def columns_of(text: str) -> int:
    """Returns columns on a terminal: East Asian wide characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(letter) else 1 + (unicodedata.east_asian_width(letter) in "WF") for letter in text
    )


def _padded(text: str, width: int) -> str:
    return text + " " * (width - columns_of(text))
