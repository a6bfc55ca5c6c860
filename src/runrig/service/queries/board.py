"""Who holds which GPUs, and who waits, copied from the state in one look: what a map of the cluster is drawn from."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from runrig.domain.gangs import Gang, GangState, Placement
from runrig.domain.nodes import NO_FLAVOR, Node
from runrig.domain.pools import PoolState
from runrig.domain.quantities import GPU
from runrig.engine.nodes.topology import path_of
from runrig.engine.state.state import State
from runrig.service.queries.lookup import settings_of
from runrig.service.queries.visibility import Visibility
from runrig.service.runtime.transactor import Transactor


class BoardNode(NamedTuple):
    """*path*: its domains, coarse to fine; () if it lacks a label of a level.  *open*: it takes new pods."""

    name: str
    gpus: int
    open: bool
    path: tuple[str, ...]


class Share(NamedTuple):
    """*amount* GPUs of a node.  *indices*: which ones; () if nobody says so."""

    node: str
    amount: int
    indices: tuple[int, ...]


class BoardGang(NamedTuple):
    """A gang that holds GPUs, or is promised some.  *id*, *pool*: "" if the asker does not see it."""

    id: str
    pool: str
    priority: str
    state: GangState
    shares: tuple[Share, ...]


class Queued(NamedTuple):
    """*gangs* of *pool* wait, with *gpus* at their full size.  *pool*: "" for all that the asker does not see."""

    pool: str
    gangs: int
    gpus: int


@dataclass(frozen=True, slots=True)
class Board:
    """*levels*: the names of the domains on the way to a node.  *nodes*: in topology order.  *gangs*: by id."""

    revision: int
    levels: tuple[str, ...]
    nodes: tuple[BoardNode, ...]
    gangs: tuple[BoardGang, ...]
    queued: tuple[Queued, ...]


Held = tuple[Gang, GangState, Placement]


class Look(NamedTuple):
    """What was copied: O(nodes + gangs) of references; what is shown is worked out of it without the lock."""

    revision: int
    nodes: tuple[Node, ...]
    closed: frozenset[str]
    keys: tuple[tuple[str, str, str], ...]
    held: tuple[Held, ...]
    queued: tuple[tuple[str, int, int], ...]


class Boards:
    def __init__(self, transactor: Transactor) -> None:
        self._transactor = transactor

    def look(self) -> Look:
        with self._transactor.reading() as state:
            held = [(each.gang, each.state, each.placement) for each in state.ledger.entries.values() if each.placement]
            return Look(
                state.revision,
                tuple(state.nodes.values()),
                frozenset(name for name, node in state.nodes.items() if _is_closed(state, node)),
                tuple(_keys(state)),
                tuple(held),
                tuple(_queued(state)),
            )

    def board(self, visibility: Visibility) -> Board:
        return board(self.look(), visibility)


def _is_closed(state: State, node: Node) -> bool:
    return not node.ready or node.flavor == NO_FLAVOR or bool(node.taints and not state.ledger.nodes.tolerated(node))


def _keys(state: State) -> Iterator[tuple[str, str, str]]:
    """Yields (pool, key, label) of the topology keys of each pool, coarse to fine."""
    for name, pool in sorted(state.pools.items()):
        if pool.state is not PoolState.ARCHIVED:
            yield from ((name, key.key, key.label) for key in settings_of(state, pool).topology_keys)


def _queued(state: State) -> Iterator[tuple[str, int, int]]:
    """Yields (pool, gangs, GPUs) of each bucket, and of each gang that has a place and waits for others to stop."""
    for bucket in state.ledger.pending.values():
        yield bucket.pool, len(bucket.waiting), len(bucket.waiting) * asked(bucket.waiting[0].gang)
    for entry in state.ledger.nominated.values():
        yield entry.gang.pool, 1, asked(entry.gang)


def asked(gang: Gang) -> int:
    """GPUs at full size."""
    return sum(each.count * dict(each.requests).get(GPU, 0) for each in gang.pod_sets)


def board(look: Look, visibility: Visibility) -> Board:
    """What *visibility* reaches of *look*; of all other pools amounts only."""
    levels = _levels(look, visibility)
    labels = [label for _, label in levels]
    placed = [(path_of(node, labels) or (), node) for node in look.nodes]
    placed.sort(key=lambda each: (not each[0], each[0], each[1].name))
    nodes = tuple(
        BoardNode(node.name, node.resources.get(GPU, 0), node.name not in look.closed, path) for path, node in placed
    )
    gangs = tuple(sorted(_gangs(look, visibility), key=lambda each: (each.id, each.shares)))
    sums: dict[str, list[int]] = {}
    for pool, count, gpus in look.queued:
        total = sums.setdefault(pool if visibility.sees(pool) else "", [0, 0])
        total[0] += count
        total[1] += gpus
    queued = tuple(Queued(pool, *total) for pool, total in sorted(sums.items()))
    return Board(look.revision, tuple(key for key, _ in levels), nodes, gangs, queued)


def _levels(look: Look, visibility: Visibility) -> list[tuple[str, str]]:
    """The keys of the pool that has most of them, of those that are seen: (name, label)."""
    by_pool: dict[str, list[tuple[str, str]]] = {}
    for pool, key, label in look.keys:
        if visibility.sees(pool):
            by_pool.setdefault(pool, []).append((key, label))
    return max(by_pool.values(), key=len, default=[])


def _gangs(look: Look, visibility: Visibility) -> Iterator[BoardGang]:
    seen = {pool: visibility.sees(pool) for pool in {gang.pool for gang, _, _ in look.held}}
    for gang, state, placement in look.held:
        shares = tuple(_shares(gang, placement))
        if shares:
            id, pool = (gang.id, gang.pool) if seen[gang.pool] else ("", "")
            yield BoardGang(id, pool, gang.priority.value, state, shares)


def _shares(gang: Gang, placement: Placement) -> Iterator[Share]:
    per_pod = {each.name: dict(each.requests).get(GPU, 0) for each in gang.pod_sets}
    for assignment in placement:
        for share in assignment.shares:
            if amount := share.count * per_pod[assignment.pod_set]:
                yield Share(share.node, amount, share.gpus)
