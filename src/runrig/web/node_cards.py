"""A small cluster as a card for each node, with the GPUs of each workflow in a row. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from runrig.domain.gangs import GangState
from runrig.domain.quantities import counted
from runrig.service.queries.board import Board, BoardGang, BoardNode

MOST_NODES = 64
WIDEST = 64
"""GPUs of a node that still fit into a card."""
NAMED = 1 / 6
"""Share of a card from which a name fits into its part."""


@dataclass(frozen=True, slots=True)
class Part:
    """GPUs next to each other. *workflow* "": free, or of a pool that the user cannot see, whose *kind* is not free.

    *kind*: firm, low, going (reserved or stopping) or free. *fits*: the name fits.
    """

    gpus: int
    kind: str
    pool: str = ""
    workflow: str = ""
    fits: bool = False

    @property
    def words(self) -> str:
        of = {"free": "free", "low": "LOW", "going": "reserved or stopping", "firm": ""}[self.kind]
        who = self.workflow or ("" if self.kind == "free" else "another pool")
        return f"{counted(self.gpus, 'GPU')}: {', '.join(each for each in (who, self.pool, of) if each)}"


@dataclass(frozen=True, slots=True)
class NodeCard:
    """*closed*: accepts no new pods."""

    name: str
    gpus: int
    held: int
    closed: bool
    parts: tuple[Part, ...]


def cards_of(board: Board) -> tuple[NodeCard, ...] | None:
    """Returns None if the nodes are too many or too large for cards."""
    if len(board.nodes) > MOST_NODES or any(node.gpus > WIDEST for node in board.nodes):
        return None
    on: dict[str, list[tuple[BoardGang, int, tuple[int, ...]]]] = {}
    for gang in board.gangs:
        for share in gang.shares:
            on.setdefault(share.node, []).append((gang, share.amount, share.indices))
    return tuple(_card(node, on.get(node.name, [])) for node in board.nodes)


def _card(node: BoardNode, holders: list[tuple[BoardGang, int, tuple[int, ...]]]) -> NodeCard:
    cells: list[BoardGang | None] = [None] * node.gpus
    for gang, amount, indices in sorted(holders, key=lambda each: not each[2]):
        free = [index for index, holder in enumerate(cells) if holder is None]
        for index in [index for index in indices if index in free] or free[:amount]:
            cells[index] = gang
    held = sum(amount for gang, amount, _ in holders if gang.state is not GangState.NOMINATED)
    return NodeCard(node.name, node.gpus, min(held, node.gpus), not node.open, tuple(_parts(cells)))


def _parts(cells: list[BoardGang | None]) -> Iterator[Part]:
    for gang, same in groupby(cells):
        gpus = len(list(same))
        if gang is None:
            yield Part(gpus, "free")
            continue
        going = gang.state is not GangState.ADMITTED
        kind = "going" if going else "low" if gang.priority == "LOW" else "firm"
        yield Part(gpus, kind, gang.pool, gang.id.partition("/")[0], gpus >= NAMED * len(cells))
