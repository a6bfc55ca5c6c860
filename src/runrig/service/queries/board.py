"""Which gangs hold which GPUs and which wait, copied from the state for the map of the cluster."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple, Protocol

from runrig.domain.gangs import Gang, GangState, Placement
from runrig.domain.natural_order import Key, natural
from runrig.domain.nodes import NO_FLAVOR, Node
from runrig.domain.pools import PoolState
from runrig.domain.quantities import GPU, gpus_in
from runrig.domain.records import GangRow, Record
from runrig.domain.shown.topology import GangCount
from runrig.engine.ledger.queue import asked as asked
from runrig.engine.nodes.topology import path_of
from runrig.engine.state.state import State
from runrig.service.queries.lookup import settings_of
from runrig.service.queries.visibility import Visibility
from runrig.service.runtime.transactor import Readable
from runrig.service.runtime.writing import Revision


class BoardNode(NamedTuple):
    """*path*: its domains, coarse to fine; () if it lacks the label of a level. *open*: accepts new pods."""

    name: str
    gpus: int
    open: bool
    path: tuple[str, ...]


class Share(NamedTuple):
    """*amount* GPUs of a node. *indices*: which ones; () if unknown."""

    node: str
    amount: int
    indices: tuple[int, ...]


class BoardGang(NamedTuple):
    """A gang that holds or has reserved GPUs. *id*, *pool*: "" if the user may not see it."""

    id: str
    pool: str
    priority: str
    state: GangState
    shares: tuple[Share, ...]


@dataclass(frozen=True, slots=True)
class Board:
    """*levels*: the names of the domain levels above a node. *nodes*: by domain, in natural order. *gangs*: by id. *queued*: pool → its
    pending gangs at their full size; "" for everything that the user may not see.
    """

    revision: int
    levels: tuple[str, ...]
    nodes: tuple[BoardNode, ...]
    gangs: tuple[BoardGang, ...]
    queued: Mapping[str, GangCount]


Held = tuple[Gang, GangState, Placement]
Keys = tuple[str, tuple[tuple[str, str], ...]]
"""A pool, and (name, label) of its topology keys, coarse to fine."""


class Look(NamedTuple):
    """The GPUs of every gang at *revision*. Boards are computed from it without the lock.

    *nodes*, *closed*, *keys*, and each of *held*: the same objects as in the previous look, unless they have changed.
    """

    revision: int
    nodes: tuple[Node, ...]
    closed: frozenset[str]
    keys: tuple[Keys, ...]
    held: tuple[Held, ...]
    queued: tuple[tuple[str, int, int], ...]


AT_ONCE = 500
"""For the first look: gangs copied and buckets counted while the lock is held, about 1 ms."""

MOST_NOTED = 20_000
"""Maximum changed gangs recorded between two looks; if more change, all are copied again."""

_DECLARED = ("Node", "Flavor", "Cohort", "Pool")


class Source(Readable, Protocol):
    """The source of looks. *stored*: its last revision. *when_stored*: called with each later one."""

    stored: int
    when_stored: Callable[[Sequence[Revision]], None]


class Boards:
    """Caches the last look and what was drawn from it, so that a look costs only what has changed and what is pending.
    Thread-safe.

    Each commit records what it changes; only the first look reads the whole state. *before*: the boards of a source
    that is no longer used; unchanged parts are not drawn again.
    """

    def __init__(self, transactor: Source, before: "Boards | None" = None) -> None:
        self._transactor = transactor
        self._keeping = threading.Lock()
        self._noted: dict[str, Held | None] | None = None
        """Gangs that have changed since the last look, in their current form; None: changes are not recorded. Under the
        server's lock.
        """
        self._declared = True
        self._held: dict[str, Held] | None = None
        self._last: Look | None = None if before is None else before._last
        self._drawn: Drawn = Drawn() if before is None else before._drawn
        transactor.when_stored = self._note

    def look(self) -> Look:
        with self._keeping:
            return self._look()

    def board(self, visibility: Visibility) -> Board:
        with self._keeping:
            return board(self._look(), visibility, self._drawn)

    def _note(self, revisions: Iterable[Revision]) -> None:
        if self._noted is None:
            return
        for change in (change for revision in revisions for change in revision.changes):
            if change.kind == "GangRow":
                self._noted[str(change.key[0])] = _held_by(change.record)
            elif change.kind in _DECLARED:
                self._declared = True
        if len(self._noted) > MOST_NOTED:
            self._noted = None

    def _look(self) -> Look:
        if self._last is not None and self._last.revision == self._transactor.stored:
            return self._last
        caught_up = None
        while caught_up is None:
            if self._noted is None or self._held is None:
                self._held = self._copied()
            caught_up = self._caught_up(self._held)
        self._last = caught_up
        return caught_up

    def _caught_up(self, held: dict[str, Held]) -> Look | None:
        """Brings *held* up to date; None: too much has changed."""
        with self._transactor.reading() as state:
            if self._noted is None:
                return None
            noted, self._noted = self._noted, {}
            last = self._last
            if last is None or self._declared:
                nodes, closed, keys = _declared(state, last)
                self._declared = False
            else:
                nodes, closed, keys = last.nodes, last.closed, last.keys
            revision, queued = state.revision, tuple(_queued(state))
        held |= {name: each for name, each in noted.items() if each is not None}
        for name in [name for name, each in noted.items() if each is None]:
            held.pop(name, None)
        return Look(revision, nodes, closed, keys, tuple(held.values()), queued)

    def _copied(self) -> dict[str, Held]:
        """Returns what each gang holds. Copies part by part; changes during the copy are recorded and applied to it
        afterwards.
        """
        self._held = None
        with self._transactor.reading() as state:
            self._noted, self._declared = {}, True
            names = list(state.ledger.placed)
        held: dict[str, Held] = {}
        for first in range(0, len(names), AT_ONCE):
            with self._transactor.reading() as state:
                there = [state.ledger.placed.get(name) for name in names[first : first + AT_ONCE]]
                held |= {each.gang.id: (each.gang, each.state, each.placement) for each in there if each is not None}
        counted = False
        while not counted:
            with self._transactor.reading() as state:
                counted = _count(state, AT_ONCE)
        return held


def _held_by(row: Record | None) -> Held | None:
    """Returns what the gang with the current row *row* holds."""
    return (row.gang, row.state, row.placement) if isinstance(row, GangRow) and row.placement else None


def _declared(state: State, last: Look | None) -> tuple[tuple[Node, ...], frozenset[str], tuple[Keys, ...]]:
    """Returns nodes, closed nodes and topology keys; unchanged ones as the same object. O(nodes + pools)."""
    nodes, closed = (
        tuple(state.nodes.values()),
        frozenset(n for n, node in state.nodes.items() if _is_closed(state, node)),
    )
    keys = tuple(_keys(state))
    if last is None:
        return nodes, closed, keys
    same = last.nodes == nodes and last.closed == closed
    return (last.nodes, last.closed, keys) if same else (nodes, closed, keys)


def _count(state: State, most: int) -> bool:
    """Counts pending gangs in up to *most* buckets; returns False if uncounted buckets remain."""
    for rank in state.ledger.ranks.values():
        for queue in rank.by_pool.values():
            if not queue.counted:
                if most <= 0:
                    return False
                most -= len(queue.buckets)
                _ = queue.gpus
    return True


def _is_closed(state: State, node: Node) -> bool:
    return not node.open or node.flavor == NO_FLAVOR or bool(node.taints and not state.ledger.nodes.tolerated(node))


def _keys(state: State) -> Iterator[Keys]:
    for name, pool in sorted(state.pools.items()):
        if pool.state is not PoolState.ARCHIVED:
            yield name, tuple((key.key, key.label) for key in settings_of(state, pool).topology_keys)


def _queued(state: State) -> Iterator[tuple[str, int, int]]:
    """Yields (pool, gangs, GPUs) for each pool and rank, and for each gang with reserved nodes that waits for others to
    stop.
    """
    for rank in state.ledger.ranks.values():
        for pool, queue in rank.by_pool.items():
            yield pool, len(queue.times), queue.gpus
    for entry in state.ledger.nominated.values():
        yield entry.gang.pool, 1, asked(entry.gang)


class Drawn:
    """Results of earlier looks, by what they were computed from.

    *nodes*: by the labels of their domains.
    """

    def __init__(self) -> None:
        self._of: tuple[tuple[Node, ...], frozenset[str]] = (), frozenset()
        self._nodes: dict[tuple[str, ...], tuple[BoardNode, ...]] = {}
        self._gangs: dict[int, _Shown] = {}
        self._held: tuple[Held, ...] = ()

    def nodes(self, look: Look, labels: tuple[str, ...]) -> tuple[BoardNode, ...]:
        """Returns the same object while no node changes."""
        if self._of[0] is not look.nodes or self._of[1] is not look.closed:
            self._of, self._nodes = (look.nodes, look.closed), {}
        found = self._nodes.get(labels)
        if found is None:
            found = self._nodes[labels] = tuple(_nodes(look, labels))
        return found

    def gangs(self, look: Look, visibility: Visibility) -> tuple[BoardGang, ...]:
        """Returns, for each gang, the same object while the gang does not change."""
        if self._held is not look.held:
            self._held, before = look.held, self._gangs
            self._gangs = {id(each): before.get(id(each)) or _shown(each) for each in look.held}
        sees: dict[str, bool] = {}
        named: list[BoardGang] = []
        others: list[BoardGang] = []
        for held, shown, hidden in self._gangs.values():
            if shown is not None and hidden is not None:
                pool = held[0].pool
                if pool not in sees:
                    sees[pool] = visibility.sees(pool)
                if sees[pool]:
                    named.append(shown)
                else:
                    others.append(hidden)
        return (*sorted(others, key=attrgetter("shares")), *sorted(named, key=attrgetter("id")))


_Shown = tuple[Held, BoardGang | None, BoardGang | None]
"""A gang as shown to users who may see it, and to others; None: it holds no GPUs."""


def _shown(held: Held) -> _Shown:
    gang, state, placement = held
    shares = tuple(_shares(gang, placement))
    if not shares:
        return held, None, None
    shown = BoardGang(gang.id, gang.pool, gang.priority.value, state, shares)
    return held, shown, shown._replace(id="", pool="")


def board(look: Look, visibility: Visibility, drawn: Drawn | None = None) -> Board:
    """Returns what *visibility* covers of *look*, and only amounts of other pools. *drawn*: results of earlier looks."""
    drawn = drawn or Drawn()
    levels = _levels(look, visibility)
    nodes = drawn.nodes(look, tuple(label for _, label in levels))
    sees = {pool: visibility.sees(pool) for pool in {pool for pool, _, _ in look.queued}}
    sums: dict[str, list[int]] = {}
    for pool, count, gpus in look.queued:
        total = sums.setdefault(pool if sees[pool] else "", [0, 0])
        total[0] += count
        total[1] += gpus
    queued = {pool: GangCount(*total) for pool, total in sorted(sums.items())}
    return Board(look.revision, tuple(key for key, _ in levels), nodes, drawn.gangs(look, visibility), queued)


def _nodes(look: Look, labels: tuple[str, ...]) -> Iterator[BoardNode]:
    """Sorts nodes by domain, those without all labels last, and numbers in names by value."""
    keys: dict[str, Key] = {}

    def order(placed: tuple[tuple[str, ...], Node]) -> tuple[bool, tuple[Key, ...], Key]:
        path, node = placed
        return (
            not path,
            tuple(keys.get(label) or keys.setdefault(label, natural(label)) for label in path),
            natural(node.name),
        )

    placed = sorted(((path_of(node, labels) or (), node) for node in look.nodes), key=order)
    for path, node in placed:
        yield BoardNode(node.name, node.resources.get(GPU, 0), node.name not in look.closed, path)


def _levels(look: Look, visibility: Visibility) -> tuple[tuple[str, str], ...]:
    """Returns (name, label) of the keys of the visible pool with the most keys."""
    return max((keys for pool, keys in look.keys if visibility.sees(pool)), key=len, default=())


def _shares(gang: Gang, placement: Placement) -> Iterator[Share]:
    per_pod = {each.name: gpus_in(each.requests) for each in gang.pod_sets}
    for assignment in placement:
        for share in assignment.shares:
            if amount := share.count * per_pod[assignment.pod_set]:
                yield Share(share.node, amount, share.gpus)
