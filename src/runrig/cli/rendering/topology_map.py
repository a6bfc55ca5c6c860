"""Draws the domains for `topology show`: a tree with bars, as wide as the terminal."""

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from runrig.cli.rendering import sanitize
from runrig.cli.rendering.tables import Column, Table, fitting, folded, on_terminal, plain, wrapped
from runrig.domain.natural_order import natural
from runrig.domain.quantities import counted, few

Domain = Mapping[str, Any]
Row = tuple[str, Domain]
"""(the name with its tree lines, the domain)."""

MOST_ROWS = 60
"""Maximum domains drawn by default."""
MOST_APART = 20
MOST_POOLS = 8

_WIDTH_OF_A_FILE = 120
_DOMAIN, _GPUS, _USE, _HELD_BY = Column("Domain"), Column("GPUs Free"), Column("Use"), Column("Held By")
_NODES, _CORDONED, _BY_FLAVOR = Column("Nodes", 3), Column("Cordoned", 2), Column("By Flavor", 1)
_NARROWEST_BAR, _WIDEST_BAR = 10, 24
_NARROWEST_HOLDERS = 20
_GAP = 2
_PARTS = (
    ("firm", "█", "HIGH and NORMAL"),
    ("low", "▒", "LOW"),
    ("changing", "~", "stopping or reserved"),
    ("cordoned", "x", "free, but cordoned"),
    ("free", "·", "free"),
)
_LEGEND = "  ".join(f"{mark} {meaning}" for _, mark, meaning in _PARTS)
_COLOURS = {"█": "blue", "▒": "yellow", "·": "green"}
_FITS = (("Now", "now"), ("After LOW", "after_low"), ("Ever", "ever"))
_WHAT_FITS = (
    ("Now        ", "on free GPUs"),
    ("After LOW  ", "once all LOW workflows are preempted and stopping ones have ended"),
    ("Ever       ", "on empty nodes, with all nodes ready"),
    ("", "Only GPUs are counted. Quota, CPU and memory may allow fewer."),
)


def show(answer: Mapping[str, Any], *, everything: bool, nodes: bool) -> None:
    """*everything*: draw all domains. *nodes*: also nodes of pools without keys, if others have keys."""
    width, maps = _width(), answer["maps"]
    lines: list[str] = []
    for found in maps:
        flat = nodes or len(maps) == 1
        lines += [*_page(found, answer["size"], width, everything=everything, flat=flat), ""]
    lines += folded(_LEGEND, width)
    for first, text in _WHAT_FITS if answer["size"] is not None else ():
        lines += wrapped(text, first, len(first))
    text = sanitize.block("\n".join(lines))
    click.echo(_painted(text) if on_terminal() and not os.environ.get("NO_COLOR") else text)


def _width() -> int:
    """Returns the width of the terminal, or COLUMNS; a wide default for a file."""
    if on_terminal():
        return shutil.get_terminal_size().columns
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and 0 < len(columns) < 5 and int(columns) else _WIDTH_OF_A_FILE


def _page(
    found: Mapping[str, Any], size: Mapping[str, int] | None, width: int, *, everything: bool, flat: bool
) -> list[str]:
    whole, keys = found["all"], [each["key"] for each in found["keys"]]
    pools = f"pool{'s' if len(found['pools']) > 1 else ''} {few(found['pools'], MOST_POOLS)}"
    if keys:
        rows, left_out = _shown(found, everything=everything)
        lines = folded(f"{' > '.join(keys)} of {pools}", width)
    else:
        rows, left_out = _flat(whole, everything=everything, flat=flat)
        has = "has" if len(found["pools"]) == 1 else "have"
        none = "no topology keys: pods may be placed anywhere; topology requests are not available"
        lines = folded(f"{pools} {has} {none}", width)
    lines += ["", *_tree(rows, found, width), *(part for line in left_out for part in folded(line, width))]
    if size is not None:
        lines += ["", *_gangs(found, size)]
    if found["apart"]:
        lines += ["", *_apart(found["apart"], width, whole=everything)]
    return lines


# ---------------------------------------------------------------- which domains


def _shown(found: Mapping[str, Any], *, everything: bool) -> tuple[list[Row], list[str]]:
    """Returns the rows, and a line about omitted levels."""
    levels, depth, count = found["levels"], 0, 0
    for level in levels:
        count += level["domains"]
        if everything or depth == 0 or count <= MOST_ROWS:
            depth += 1
        else:
            break
    rows = [("all nodes", found["all"]), *_drawn(found["all"]["domains"], len(levels) + 1 if everything else depth, "")]
    left = [f"{each['domains']} of {each['key']}" for each in levels[depth:]]
    if everything or not left:
        return rows, []
    finest = levels[-1]["key"]
    return rows, [f"not shown: {', '.join(left)}. Use --level {finest} to see them, --nodes to see nodes too"]


def _flat(whole: Domain, *, everything: bool, flat: bool) -> tuple[list[Row], list[str]]:
    nodes = _sorted(whole["domains"]) if flat else []
    rows = list(_drawn(nodes if everything else nodes[:MOST_ROWS], 1, ""))
    left = len(whole["domains"]) - len(rows)
    return [("all nodes", whole), *rows], [
        f"{counted(left, 'node is', 'nodes are')} not shown. Use --nodes to see {'it' if left == 1 else 'them'}"
    ] if left else []


def _drawn(domains: Sequence[Domain], depth: int, indent: str) -> Iterator[Row]:
    ordered = _sorted(domains) if depth else []
    for domain in ordered:
        last = domain is ordered[-1]
        yield f"{indent}{'└─ ' if last else '├─ '}{_name(domain)}", domain
        yield from _drawn(domain["domains"], depth - 1, indent + ("   " if last else "│  "))


def _sorted(domains: Sequence[Domain]) -> list[Domain]:
    return sorted(domains, key=lambda each: natural(each["path"][-1]))


def _name(domain: Domain) -> str:
    """Returns the name of a node, with its state if it accepts no new pods."""
    name = str(domain["path"][-1])
    return name if domain["state"] in (None, "Ready") else f"{name} ({domain['state']})"


# ---------------------------------------------------------------- the table


def _tree(rows: Sequence[Row], found: Mapping[str, Any], width: int) -> list[str]:
    """Gives the bar and the gangs the remaining width; if it is too small, only the bar."""
    cells = {
        _DOMAIN: [sanitize.line(name) for name, _ in rows],
        _NODES: [str(each["nodes"]) for _, each in rows],
        _CORDONED: [str(each["cordoned_nodes"] or "-") for _, each in rows],
        _GPUS: [_free(each["gpus"]) for _, each in rows],
        _BY_FLAVOR: [_by_flavor(each) for _, each in rows],
        _USE: ["x" * _NARROWEST_BAR for _ in rows],
        **{
            Column(name): [str(each["gangs"][field]) for _, each in rows]
            for name, field in _FITS
            if found["all"]["gangs"]
        },
    }
    if not found["all"]["cordoned_nodes"]:
        del cells[_CORDONED]
    if len(found["flavors"]) < 2:
        del cells[_BY_FLAVOR]
    shown = fitting(Table(tuple(cells), list(zip(*cells.values(), strict=True))), width).columns
    cells = {column: cells[column] for column in shown}
    left = width - sum(max(map(len, [each.name, *cells[each]])) + _GAP for each in shown if each is not _USE)
    beside = left - _GAP - _NARROWEST_HOLDERS
    bar = max(_NARROWEST_BAR, min(_WIDEST_BAR, beside if beside >= _NARROWEST_BAR else left))
    cells[_USE] = [_bar(each["gpus"], bar) for _, each in rows]
    if beside >= _NARROWEST_BAR:
        cells[_HELD_BY] = [_holders(each, left - bar - _GAP) for _, each in rows]
    return plain(Table(tuple(cells), list(zip(*cells.values(), strict=True))))


def _free(gpus: Mapping[str, int]) -> str:
    return f"{gpus['free']}/{gpus['total']}"


def _by_flavor(domain: Domain) -> str:
    return ", ".join(f"{sanitize.line(name)} {_free(gpus)}" for name, gpus in sorted(domain["flavors"].items())) or "-"


def _bar(gpus: Mapping[str, int], width: int) -> str:
    """Returns a proportional bar of *width* characters; any amount above zero gets at least one."""
    amounts = [gpus[field] for field, _, _ in _PARTS]
    total = sum(amounts)
    if not total:
        return "-"
    cells = [max(1, amount * width // total) if amount else 0 for amount in amounts]
    while sum(cells) > width:
        cells[cells.index(max(cells))] -= 1
    while sum(cells) < width:
        short = [amount * width - cell * total for amount, cell in zip(amounts, cells, strict=True)]
        cells[short.index(max(short))] += 1
    return "".join(mark * cell for (_, mark, _), cell in zip(_PARTS, cells, strict=True))


def _holders(domain: Domain, room: int) -> str:
    """Returns as many gangs as fit into *room*, and the number of the others."""
    named = [_holder(each) for each in _by_workflow(domain["holders"])]
    total = len(named) + domain["others"]["gangs"]
    for shown in range(len(named), 0, -1):
        rest = total - shown
        text = ", ".join(named[:shown]) + (f", +{rest}" if rest else "")
        if len(text) <= room:
            return text
    return f"{total} gang{'s' if total > 1 else ''}" if total else "-"


def _by_workflow(holders: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns *holders* with one entry per workflow, priority and state; the most GPUs first."""
    merged: dict[tuple[str, str, str], dict[str, Any]] = {}
    for each in holders:
        key = (each["gang"].partition("/")[0], each["priority"], each["state"])
        there = merged.setdefault(key, {**each, "gpus": 0})
        there["gpus"] += each["gpus"]
    return sorted(merged.values(), key=lambda each: (-each["gpus"], each["gang"]))


def _holder(holder: Mapping[str, Any]) -> str:
    """Returns the workflow and its GPUs, and its kind unless it is running HIGH or NORMAL work."""
    mark = "" if holder["state"] == "ADMITTED" else f" {holder['state']}"
    low = " LOW" if holder["priority"] == "LOW" else ""
    return f"{sanitize.line(holder['gang'].partition('/')[0])} {holder['gpus']}{low}{mark}"


# ---------------------------------------------------------------- below it


def _gangs(found: Mapping[str, Any], size: Mapping[str, int]) -> list[str]:
    """Returns how many gangs fit in total, by the level whose domain each stays in."""
    pods, gpus = size["pods"], size["gpus"]
    what = f"Gangs of {counted(pods, 'pod')} x {counted(gpus, 'GPU')}"
    places = [("anywhere", found["all"]["nodes"], found["all"]["gangs"])]
    places += [
        (f"each in one {sanitize.line(each['key'])}", each["domains"], each["gangs"]) for each in found["levels"]
    ]
    rows = [(where, *(str(gangs[field]) for _, field in _FITS)) for where, _, gangs in places]
    return plain(Table((Column(what), *(Column(name) for name, _ in _FITS)), rows))


def _apart(apart: Sequence[Mapping[str, Any]], width: int, *, whole: bool) -> list[str]:
    lines = folded(
        "Nodes without the labels of the topology keys; gangs with topology requirements cannot use them (rule T1):",
        width,
    )
    ordered = sorted(apart, key=lambda each: natural(each["node"]["path"][-1]))
    shown = ordered if whole else ordered[:MOST_APART]
    rows = []
    for each in shown:
        node = each["node"]
        rows.append((sanitize.line(_name(node)), _free(node["gpus"]), sanitize.line(", ".join(each["lacks"]))))
    lines += plain(Table((Column("Node"), Column("GPUs Free"), Column("Lacks")), rows))
    if left := len(apart) - len(shown):
        lines.append(f"and {left} more (use --nodes to see them)")
    return lines


def _painted(text: str) -> str:
    """Returns *text* with coloured bars, which are readable without colour too."""
    marks = "".join(_COLOURS)
    return re.sub(f"([{marks}])\\1*", lambda match: click.style(match[0], fg=_COLOURS[match[1]]), text)
