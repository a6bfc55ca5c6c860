"""The board as sent to browsers: the layout of the nodes, which gangs use them, and later changes.

Pure. Usage has one form, now and in changes: a gang and its runs `[first, count, mask]`. That means *count* nodes from
position *first* in layout order, where the gang uses, on each node, the GPUs whose bits are set in *mask*. A negative mask
is a number of GPUs whose indices are unknown. All gangs that the user cannot see form one gang without a name.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from runrig.domain.gangs import GangState
from runrig.service.queries.board import Board, BoardGang, BoardNode

Record = list[Any]
"""[id, pool, priority, state, runs]; id and pool are "" for gangs that the user cannot see."""

PRIORITIES = ("HIGH", "NORMAL", "LOW")
STATES = (GangState.NOMINATED, GangState.ADMITTED, GangState.STOPPING)
NOBODY: Record = ["", "", 1, 1]
LARGEST_MASK = 53
"""Bits that JSON numbers keep in a browser. For a node with more GPUs only the count is sent."""


def layout(board: Board) -> dict[str, Any]:
    """*levels*: names of the levels. *tree*: domains as [label, first, count, below], with positions in node order.

    *names*: of the nodes, as [head, first number, digits, count]; digits 0: head is the name. *gpus*: [GPUs, count].
    *closed*: positions of nodes without new pods. *tag*: changes with any of these.
    """
    found = {
        "levels": list(board.levels),
        "tree": list(_tree(board.nodes, 0, 0)),
        "names": list(_names(node.name for node in board.nodes)),
        "gpus": [[gpus, len(list(same))] for gpus, same in groupby(node.gpus for node in board.nodes)],
        "closed": [place for place, node in enumerate(board.nodes) if not node.open],
    }
    return {"tag": tag_of(found), **found}


_NUMBERED = re.compile(r"(.*?)([0-9]{1,9})", re.DOTALL)


def _names(names: Iterable[str]) -> Iterator[list[Any]]:
    """Yields runs of consecutively numbered names."""
    run: list[Any] | None = None
    for name in names:
        match = _NUMBERED.fullmatch(name)
        head, number, digits = (match[1], int(match[2]), len(match[2])) if match else (name, 0, 0)
        if run is not None and digits and run[0] == head and run[2] == digits and run[1] + run[3] == number:
            run[3] += 1
            continue
        if run is not None:
            yield run
        run = [head, number, digits, 1]
    if run is not None:
        yield run


def tag_of(value: object) -> str:
    return hashlib.sha256(as_json(value).encode()).hexdigest()[:16]


def _tree(nodes: Sequence[BoardNode], depth: int, first: int) -> Iterator[list[Any]]:
    at = first
    for label, group in groupby(nodes, lambda node: node.path[depth] if len(node.path) > depth else None):
        members = list(group)
        if label is not None:
            yield [label, at, len(members), list(_tree(members, depth + 1, at))]
        at += len(members)


def state(board: Board, tag: str) -> dict[str, Any]:
    """*tag*: of the layout to which the positions refer."""
    return {"r": board.revision, "layout": tag, "gangs": list(records(board).values())}


def records(board: Board) -> dict[str, Record]:
    """By id."""
    return Recorder().records(board)


class Recorder:
    """Creates records of successive boards as one user sees them. Unchanged gang objects keep their record."""

    def __init__(self) -> None:
        self._nodes: Sequence[BoardNode] = ()
        self._places: dict[str, int] = {}
        self._known: dict[int, tuple[BoardGang, Record]] = {}

    def records(self, board: Board) -> dict[str, Record]:
        """By id."""
        if self._nodes is not board.nodes:
            self._nodes, self._known = board.nodes, {}
            self._places = {node.name: place for place, node in enumerate(board.nodes)}
        before, self._known = self._known, {}
        found: dict[str, Record] = {}
        others: list[tuple[int, int]] = []
        for gang in board.gangs:
            known = self._known[id(gang)] = before.get(id(gang)) or (gang, self._record(gang))
            if gang.id:
                found[gang.id] = known[1]
            else:
                others += held_by(known[1])
        if others:
            found[""] = [*NOBODY, _runs(sorted(others))]
        return found

    def _record(self, gang: BoardGang) -> Record:
        runs = _runs(sorted(_masks(gang, self._places)))
        return [gang.id, gang.pool, PRIORITIES.index(gang.priority), STATES.index(gang.state), runs]


def _masks(gang: BoardGang, places: Mapping[str, int]) -> Iterator[tuple[int, int]]:
    """Yields (position, mask). A removed node has no position."""
    for share in gang.shares:
        if share.node in places:
            told = share.indices and max(share.indices) < LARGEST_MASK
            yield places[share.node], sum(1 << index for index in share.indices) if told else -share.amount


def _runs(held: Iterable[tuple[int, int]]) -> list[int]:
    """*held* must be sorted by position."""
    runs: list[list[int]] = []
    for place, mask in held:
        if runs and runs[-1][2] == mask and runs[-1][0] + runs[-1][1] == place:
            runs[-1][1] += 1
        else:
            runs.append([place, 1, mask])
    return [number for run in runs for number in run]


def held_by(record: Record) -> Iterator[tuple[int, int]]:
    """Yields (position, mask) of a record."""
    runs = record[4]
    for first, count, mask in zip(runs[::3], runs[1::3], runs[2::3], strict=True):
        yield from ((place, mask) for place in range(first, first + count))


# ---------------------------------------------------------------- changes


def delta(
    before: Mapping[str, Record], after: Mapping[str, Record], since: int, revision: int
) -> dict[str, Any] | None:
    """Returns the change that turns *before* into *after*; None if they are equal."""
    new = [record for id, record in after.items() if (known := before.get(id)) is not record and known != record]
    gone = [id for id in before if id not in after]
    return {"r": revision, "from": since, "+": new, "-": gone} if new or gone else None


def as_json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
