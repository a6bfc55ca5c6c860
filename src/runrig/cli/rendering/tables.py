"""Tables: plain text that scripts can cut when piped; on a terminal coloured, and folded to its width."""

import os
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import click

from runrig.cli.rendering import sanitize

_GAP = "  "
_NARROWEST = 4
"""Characters below which no column is folded: a terminal that is narrower yet folds it itself."""
_LEAST_CUT = 30
"""A column whose cells may be cut keeps so much, as long as others can go."""
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
class Table:
    """Columns, rows of as many cells, and a last row of sums.  *widths*: minimum widths of columns, in characters.

    On a terminal that is too narrow columns go in the order of *yields*, if there are any; nothing is folded then, and cells of the
    column *cut* end in an ellipsis.
    """

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    sums: tuple[str, ...] | None = None
    widths: Mapping[str, int] = field(default_factory=dict)
    yields: tuple[str, ...] = ()
    cut: str | None = None


def styled(text: str, **how: Any) -> str:
    """*text* for a terminal; without *how*, in the colour of the status that it is, if it is one."""
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


def show(table: Table) -> None:
    """Prints *table* as suits stdout."""
    clean_table = replace(table, rows=[_cells(row) for row in table.rows])
    lines = drawn(clean_table, terminal().columns) if on_terminal() else plain(clean_table)
    click.echo("\n".join(lines))


def facts(pairs: Iterable[tuple[str, object]]) -> None:
    """Prints names and values, one pair per line, without values that are None."""
    known = [(name, sanitize.line(value)) for name, value in pairs if value is not None]
    width = max((len(name) for name, _ in known), default=0)
    for name, value in known:
        click.echo(f"{name:{width}}{_GAP}{value}".rstrip())


def plain(table: Table) -> list[str]:
    """Left-aligned columns two spaces apart, the header underlined; no line ends in spaces."""
    widths = _widths(table)
    dashes = tuple("-" * width for width in widths)
    lines = [table.columns, dashes, *table.rows]
    if table.sums:
        lines += [dashes, table.sums]
    return [_GAP.join(_padded(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in lines]


def drawn(table: Table, width: int) -> list[str]:
    """The same for a terminal of *width* columns: it yields, or its widest columns are folded until it fits; statuses have colours."""
    if table.yields:
        table = _yielding(table, width)
    widths = _widths(table)
    room = width - len(_GAP) * (len(widths) - 1)
    widest = max(widths, default=0)
    while not table.yields and widest > _NARROWEST and sum(min(each, widest) for each in widths) > room:
        widest -= 1
    widths = [min(each, widest) for each in widths]
    rule = styled(_GAP.join("─" * each for each in widths), dim=True)
    lines = [*_row(table.columns, widths, bold=True), rule]
    for row in table.rows:
        lines += _row(row, widths)
    return [*lines, rule, *_row(table.sums, widths, bold=True)] if table.sums else lines


def _yielding(table: Table, width: int) -> Table:
    """*table* without the columns that have to go so that the others have room."""
    columns, rows, yields = table.columns, table.rows, list(table.yields)
    while True:
        widths = _widths(replace(table, columns=columns, rows=rows))
        at = columns.index(table.cut) if table.cut in columns else None
        others = sum(each for place, each in enumerate(widths) if place != at) + len(_GAP) * (len(widths) - 1)
        room = width - others
        if at is None and room >= 0:
            break
        gone = next((name for name in yields if name in columns), None)
        if at is not None and (gone is None or room >= min(widths[at], _LEAST_CUT)):
            rows = [(*row[:at], _shortened(row[at], max(room, _NARROWEST)), *row[at + 1 :]) for row in rows]
            break
        if gone is None:
            break
        yields.remove(gone)
        place = columns.index(gone)
        columns = (*columns[:place], *columns[place + 1 :])
        rows = [(*row[:place], *row[place + 1 :]) for row in rows]
    return replace(table, columns=columns, rows=rows)


def _shortened(text: str, width: int) -> str:
    if _width(text) <= width:
        return text
    return next(text[:at].rstrip() for at in range(len(text), -1, -1) if _width(text[:at]) < width) + "…"


def _row(cells: Sequence[str], widths: Sequence[int], **how: Any) -> list[str]:
    columns = [folded(cell, width) for cell, width in zip(cells, widths, strict=True)]
    lines = []
    for at in range(max(map(len, columns))):
        parts = [part[at] if at < len(part) else "" for part in columns]
        padded = [_padded(part, width) for part, width in zip(parts, widths, strict=True)]
        lines.append(_GAP.join(styled(part, **how) for part in padded))
    return [line.rstrip() for line in lines]


def folded(text: str, width: int) -> list[str]:
    """*text* in lines of *width* columns, cut at spaces where there are some."""
    lines = []
    while _width(text) > width:
        cut = max(1, next(at for at in range(len(text), 0, -1) if _width(text[:at]) <= width or at == 1))
        cut = max(text.rfind(" ", 1, cut + 1), 0) or cut
        lines.append(text[:cut].rstrip())
        text = text[cut:].lstrip()
    return [*lines, text]


def _widths(table: Table) -> list[int]:
    everything = [table.columns, *table.rows, *([table.sums] if table.sums else [])]
    return [
        max(table.widths.get(name, 0), *(_width(row[at]) for row in everything))
        for at, name in enumerate(table.columns)
    ]


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
