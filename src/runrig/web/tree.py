"""The quota tree as table rows, and the totals above it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from runrig.domain.gangs import GangState
from runrig.domain.pools import PoolState
from runrig.domain.quantities import GPU, amount_in_words
from runrig.domain.shown.pools import Cohort, QuotaTree
from runrig.service.queries.board import Board
from runrig.web.drawings import Share


@dataclass(frozen=True, slots=True)
class TreeRow:
    """*depth*: 0 below the root. *waits*: its pending gangs, including those of all pools below.

    *note*: anything special about it; "" if nothing.
    """

    name: str
    kind: str
    depth: int
    share: Share
    waits: int
    note: str = ""

    @property
    def shown(self) -> str:
        """Returns the name of a subpool without its parent's."""
        return self.name.partition("--")[2] or self.name

    @property
    def held(self) -> int:
        return self.share.firm + self.share.low

    @property
    def words(self) -> str:
        share = self.share
        parts = [
            f"{self.name}: {amount_in_words(GPU, self.held)} in use, {share.guaranteed} guaranteed",
            f"{share.low} of them LOW",
        ]
        parts += [f"{share.borrowed} borrowed"] if share.borrowed else []
        parts += [f"{share.lent} lent"] if share.lent else []
        return ", ".join(parts)


def rows_of(tree: QuotaTree, waits: Mapping[str, int]) -> tuple[TreeRow, ...]:
    """In tree order, cohorts before pools. *waits*: gangs by pool."""
    below: dict[tuple[str | None, str], list[Cohort]] = {}
    for view in tree.nodes:
        below.setdefault((view.parent_kind, view.parent or ""), []).append(view)
    return tuple(_rows(below, below.get((None, ""), ()), 0, waits))


def _rows(
    below: Mapping[tuple[str | None, str], Sequence[Cohort]],
    views: Sequence[Cohort],
    depth: int,
    waits: Mapping[str, int],
) -> Iterator[TreeRow]:
    for view in views:
        inner = tuple(_rows(below, below.get((view.kind, view.name), ()), depth + 1, waits))
        children = [each for each in inner if each.depth == depth + 1]
        is_pool = view.kind == "pool"
        waiting = (waits.get(view.name, 0) if is_pool else 0) + sum(each.waits for each in children)
        guaranteed = _sum(view, "nominal") + (0 if is_pool else sum(each.share.guaranteed for each in children))
        share = _share(view, guaranteed)
        yield TreeRow(view.name, view.kind, depth, share, waiting, _note(view))
        yield from inner


def _share(view: Cohort, guaranteed: int) -> Share:
    used, total = _sum(view, "used"), _sum(view, "total")
    return Share(guaranteed, used, total - used, min(total, _sum(view, "borrowed")), _sum(view, "lent"))


def _sum(view: Cohort, name: str) -> int:
    return sum(int(getattr(each, name)) for key, each in view.balances.items() if key.partition("/")[2] == GPU)


def _note(view: Cohort) -> str:
    if view.state is not None and view.state is not PoolState.ACTIVE:
        return view.state.value
    return "" if view.active else "nothing can start: its cohorts form a cycle"


def figures_of(board: Board) -> dict[str, int]:
    """GPUs, except *gangs*, which are pending, and *nodes*. *free*: on nodes that accept new pods. *closed*: nodes that do not."""
    holding = [each for each in board.gangs if each.state is not GangState.NOMINATED]
    amounts = [(each.priority, sum(share.amount for share in each.shares)) for each in holding]
    low = sum(amount for priority, amount in amounts if priority == "LOW")
    held = sum(amount for _, amount in amounts)
    closed = {node.name for node in board.nodes if not node.open}
    on_closed = sum(share.amount for each in holding for share in each.shares if share.node in closed)
    return {
        "gpus": sum(node.gpus for node in board.nodes),
        "free": max(0, sum(node.gpus for node in board.nodes if node.open) - held + on_closed),
        "held": held,
        "firm": held - low,
        "low": low,
        "gangs": sum(each.gangs for each in board.queued.values()),
        "asked": sum(each.gpus for each in board.queued.values()),
        "nodes": len(board.nodes),
        "closed": len(closed),
    }
