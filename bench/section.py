"""A table of the report, and how its cells are written."""

from dataclasses import dataclass, field

Cell = str | float | int
Rows = list[dict[str, Cell]]
MET, MISSED = ("met", "yes"), ("MISSED", "NO")
"""A cell for a goal: met or missed."""


@dataclass
class Section:
    """A table: *table* has one dict per row, all with the same keys."""

    name: str
    about: str
    table: Rows = field(default_factory=list)

    def rows(self) -> Rows:
        return self.table

    def verdicts(self) -> list[bool]:
        """Whether each goal is met, in order."""
        cells = [cell for row in self.table for cell in row.values() if isinstance(cell, str)]
        return [cell in MET for cell in cells if cell in (*MET, *MISSED)]

    def text(self) -> str:
        """For a terminal or a log: plain text, aligned columns, numbers to the right."""
        lines = ["", f"{self.name}: {self.about}"]
        if self.table:
            heads = list(self.table[0])
            cells = [heads, *([_shown(row[head]) for head in heads] for row in self.table)]
            widths = [max(len(line[at]) for line in cells) for at in range(len(heads))]
            left = [isinstance(self.table[0][head], str) for head in heads]
            cells.insert(1, ["-" * width for width in widths])
            lines += [
                "  ".join(_aligned(*each) for each in zip(line, widths, left, strict=True)).rstrip() for line in cells
            ]
        return "\n".join(lines)


def _shown(cell: Cell) -> str:
    if isinstance(cell, float):
        return f"{cell:,.0f}" if cell >= 1000 else f"{cell:.3g}"
    return f"{cell:,}" if isinstance(cell, int) else cell


def _aligned(cell: str, width: int, left: bool) -> str:
    return cell.ljust(width) if left else cell.rjust(width)


def verdict(met: bool) -> str:
    return "met" if met else "MISSED"


def against(here: float, most: float | None) -> dict[str, Cell]:
    """The last cells of a row: the goal, and whether it is met; None: there is none."""
    return {"goal": "-", "is": ""} if most is None else {"goal": most, "is": verdict(here <= most)}


def ms(seconds: float) -> float:
    return seconds * 1000
