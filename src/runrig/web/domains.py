"""The map as a table: what is free in each domain, what fits there, and what a gang uses."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import ClassVar
from urllib.parse import urlencode

from runrig.domain.gangs import GangState
from runrig.domain.shown.topology import DomainReport, GangsThatFit
from runrig.service.queries.board import Board, BoardGang, BoardNode

Path = tuple[str, ...]


@dataclass(slots=True)
class DomainRow:
    """A domain with the sums of its nodes. *first*: position of its first node in layout order. *full*: nodes with all GPUs free.

    *firm*, *low*: GPUs in use by HIGH and NORMAL, and by LOW. *gang*: GPUs in use by the selected gang. *fits*: gangs
    of the selected size; None: no size.
    """

    path: Path
    first: int
    nodes: int = 0
    gpus: int = 0
    free: int = 0
    full: int = 0
    firm: int = 0
    low: int = 0
    gang: int = 0
    fits: GangsThatFit | None = None

    def add(self, part: "DomainRow") -> None:
        self.nodes += part.nodes
        self.gpus += part.gpus
        self.free += part.free
        self.full += part.full
        self.firm += part.firm
        self.low += part.low
        self.gang += part.gang


def _summed(
    nodes: Sequence[BoardNode], first: int, firm: Mapping[str, int], low: Mapping[str, int], own: Mapping[str, int]
) -> DomainRow:
    """Sums over *nodes*; *firm*, *low*, *own*: GPUs by node."""
    found = DomainRow(nodes[0].path, first, len(nodes))
    for name, gpus, is_open, _ in nodes:
        by_firm, by_low = firm.get(name, 0), low.get(name, 0)
        free = max(0, gpus - by_firm - by_low) if is_open else 0
        found.gpus += gpus
        found.free += free
        found.full += gpus > 0 and free == gpus
        found.firm += by_firm
        found.low += by_low
        found.gang += own.get(name, 0) if own else 0
    return found


def domains_of(
    board: Board, within: Path = (), depth: int = 2, gang: str = "", fits: dict[Path, GangsThatFit] | None = None
) -> tuple[DomainRow, ...]:
    """Returns *within* and *depth* levels below it, parents first; without levels, one row for everything."""
    firm, low, own = _held(board, gang)
    rows: dict[Path, DomainRow] = {}
    place = 0
    for full, group in groupby(board.nodes, attrgetter("path")):
        first, nodes = place, tuple(group)
        place += len(nodes)
        if full[: len(within)] != within:
            continue
        least = max(1 if full and board.levels else 0, len(within))
        finest = _summed(nodes, first, firm, low, own)
        for level in range(least, min(len(within) + depth, len(full)) + 1):
            path = full[:level]
            rows.setdefault(path, DomainRow(path, first, fits=fits.get(path) if fits else None)).add(finest)
    return tuple(sorted(rows.values(), key=lambda row: row.first))


def _held(board: Board, gang: str) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """Returns GPUs by node: of HIGH and NORMAL, of LOW, and of *gang*."""
    firm: dict[str, int] = {}
    low: dict[str, int] = {}
    own: dict[str, int] = {}
    for each in board.gangs:
        if each.state is GangState.NOMINATED:
            continue
        into = [low if each.priority == "LOW" else firm, *([own] if is_of(each, gang) else [])]
        for share in each.shares:
            for sums in into:
                sums[share.node] = sums.get(share.node, 0) + share.amount
    return firm, low, own


def is_of(gang: BoardGang, asked: str) -> bool:
    """*asked*: the id of a gang or workflow; "" for none."""
    return bool(asked) and (gang.id == asked or gang.id.startswith(f"{asked}/"))


def path_named(board: Board, text: str) -> Path | None:
    """Returns the domain for labels such as ``z1/s8``; None if it has no nodes. Labels can contain slashes."""
    return next(
        (
            node.path[:level]
            for node in board.nodes
            for level in range(1, len(node.path) + 1)
            if "/".join(node.path[:level]) == text
        ),
        None,
    )


def places_in(board: Board, within: Path) -> tuple[int, int]:
    """Returns (position of the first node, number of nodes) of *within*."""
    found = [place for place, node in enumerate(board.nodes) if node.path[: len(within)] == within]
    return (found[0], len(found)) if found else (0, 0)


# ---------------------------------------------------------------- a view of it


Ranges = list[tuple[int, int]]
"""(first, count) of nodes."""


@dataclass(frozen=True, slots=True)
class MapView:
    """A view of the map, as given by its address. *rows*: the same as a table. *finer*: paths of domains that contain
    others.

    *within*: the domain shown; () for all. *places*: its nodes. *outlined*: domains that fit a gang of *size*.
    """

    levels: tuple[str, ...]
    rows: tuple[DomainRow, ...]
    by: str = "pool"
    within: Path = ()
    gang: str = ""
    size: str = ""
    table: bool = False
    places: tuple[int, int] = (0, 0)
    outlined: dict[str, Ranges] = field(default_factory=dict)
    fits: GangsThatFit | None = None
    modes: ClassVar = {"pool": "Pool", "priority": "Priority", "load": "Load", "free": "Free GPUs"}
    """The meanings of the colours."""

    @property
    def gang_gpus(self) -> int:
        least = min((len(row.path) for row in self.rows), default=0)
        return sum(row.gang for row in self.rows if len(row.path) == least)

    def ranges(self, name: str) -> str:
        return " ".join(f"{first}+{count}" for first, count in self.outlined.get(name, ()))

    def address(self, **other: object) -> str:
        """Returns the address of this view with *other* values; None or "" removes one."""
        said = {"by": "" if self.by == "pool" else self.by, "in": "/".join(self.within), "gang": self.gang}
        said |= {"size": self.size, "table": "1" if self.table else ""}
        said |= {("in" if name == "within" else name): str(value or "") for name, value in other.items()}
        query = urlencode({name: value for name, value in said.items() if value})
        return f"/map?{query}" if query else "/map"


# ---------------------------------------------------------------- what fits


def fits_of(report: DomainReport) -> dict[Path, GangsThatFit]:
    return {each.path: each.gangs for each in _all(report) if each.gangs is not None}


def _all(report: DomainReport) -> Iterator[DomainReport]:
    yield report
    for each in report.domains:
        yield from _all(each)


def outlined(board: Board, fits: dict[Path, GangsThatFit]) -> dict[str, Ranges]:
    """Returns the finest domains that fit a gang, ``now`` or (``low``) without LOW workflows, as (first, count) of nodes."""
    rows = domains_of(board, depth=len(board.levels))
    now = _finest(rows, {path for path, each in fits.items() if each.now})
    later = _finest(rows, {path for path, each in fits.items() if each.after_low})
    chosen = {"now": now, "low": later - now}
    return {name: [(row.first, row.nodes) for row in rows if row.path in paths] for name, paths in chosen.items()}


def _finest(rows: Sequence[DomainRow], good: set[Path]) -> set[Path]:
    """Returns the domains in *good* that contain none of *good*."""
    above = {row.path[:level] for row in rows if row.path in good for level in range(len(row.path))}
    return {path for path in good if path and path not in above}
