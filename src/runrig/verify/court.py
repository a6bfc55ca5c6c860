"""Answers the questions of the rules: could a gang start, what blocks it, which is first."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .places import Column, Search, as_placement, choices, fits, room_in, sizes
from .quota import CHARGED, LAYERS, REAL
from .world import NOMINATED, Gang, Placement, World

Action = Mapping[str, Any]
MOST_REQUEUES = 100


class Commit(NamedTuple):
    """*events*: (kind, action) in order. *end*: it is the last one of a cycle; None: the log does not say.

    *gap*: events are missing before it or in it.
    """

    revision: int
    time: float
    actor: str
    events: Sequence[tuple[str, Action]]
    end: bool | None = None
    gap: bool = False


class Court:
    """A world and what was asked about it. *refusals*: bucket → (what was free then, the conditions that refused it).

    *leaving*: workflows that the current commit sets aside, by W8.
    """

    def __init__(self) -> None:
        self.world = World()
        self.preempted: dict[str, int] = {}
        self.leaving: set[str] = set()
        self.first_sets: dict[str, Any] = {}
        self._columns: dict[tuple[str, str], Column] = {}
        self._refusals: dict[tuple[str, str, str], tuple[int, list[Callable[[], bool] | None]]] = {}

    def forget(self) -> None:
        """Keeps the log of touched nodes short."""
        if len(self.world.touched) > 500_000:
            self.world.touched.clear()
            self._columns.clear()
            self._refusals.clear()

    # ------------------------------------------------------------ could it start?

    def short_of_quota(self, gang: Gang, placement: Placement, layers: Sequence[int]) -> Callable[[], bool] | None:
        """Returns a check of the quota that blocks it, by Q3 or P2, which can be repeated later; None: quota allows it."""
        tree, leaf = self.world.tree, self.world.leaf(gang)
        for key, amount in self.world.asked(gang, placement).items():
            for layer in layers:

                def short(key: str = key, amount: int = amount, layer: int = layer) -> bool:
                    leaf = self.world.leaf(gang)
                    if amount > self.world.tree.headroom(leaf, key, layer):
                        return True
                    return gang.firm and self.world.tree.beyond_promise(leaf, key, amount, layer) is not None

                if short():
                    return short
        assert tree is self.world.tree
        assert leaf.parent is not None
        return None

    def refused(
        self, gang: Gang, flavors: Sequence[str], counts: Sequence[int], layers: Sequence[int] = LAYERS
    ) -> Callable[[], bool] | None:
        """Returns a check of what blocks the gang with these flavors and counts; None: it fits."""
        found = self.short_of_quota(gang, as_placement(gang, flavors, counts), layers)
        if found is not None:
            return found
        simple = len(counts) == 1 and not any(each.get("required", True) for each in gang.sets[0]["topology"])
        if simple and layers == LAYERS and not gang.sets[0]["topology"]:
            key = flavors[0], repr(gang.sets[0]["requests"])
            column = self._columns.get(key)
            if column is None:
                column = self._columns[key] = Column(self.world, flavors[0], gang.requests[0])
            return None if column.total() >= counts[0] else lambda: column.total() < counts[0]
        return None if Search(self.world, gang, counts, flavors, layers).run() is not None else _ask_again

    def could_start(self, gang: Gang) -> tuple[str, ...] | None:
        """The flavors with which its smallest size fits now; None: none was found."""
        then, conditions = self._refusals.get(gang.bucket, (-1, []))
        if then == self.world.loosened:
            return None
        if conditions and all(each() for each in conditions if each is not None) and None not in conditions:
            self._refusals[gang.bucket] = self.world.loosened, conditions
            return None
        conditions = []
        for flavors in choices(self.world, gang):
            found = self.refused(gang, flavors, sizes(gang)[-1])
            if found is None:
                return flavors
            conditions.append(None if found is _ask_again else found)
        self._refusals[gang.bucket] = self.world.loosened, conditions
        return None

    def head(self, pool: str) -> Gang | None:
        """The first gang of the pool that waits or is nominated."""
        rows = [row[0][1] for bucket, row in self.world.waiting.items() if bucket[0] == pool]
        rows += [gang for gang in self.world.nominated.values() if gang.pool == pool]
        return min(rows, key=lambda gang: gang.order, default=None)

    def may_start(self, gang: Gang) -> bool:
        """Returns True if only quota and nodes can block it: P4, Q5, T7, W3 and W8 allow it to start."""
        row = self.world.workflows.get(gang.workflow, {})
        if gang.refused or row.get("held_by") or row.get("aside") or self.world.tree.in_circle(gang.pool):
            return False
        return self.world.pools[gang.pool]["queueing"] != "STRICT_FIFO" or self.head(gang.pool) is gang

    def waiting(self) -> Iterator[Gang]:
        """The first of each bucket that may start."""
        for row in list(self.world.waiting.values()):
            first = next((gang for _, gang in row if not gang.refused), None)
            if first is not None and self.may_start(first):
                yield first

    def within(self, gang: Gang) -> bool:
        """Law P4: LOW that stays within the nominal of its pool, by its full size in the first flavor that it can use."""
        tree = self.world.tree
        for key, amount in self.world.asked(
            gang, as_placement(gang, choices(self.world, gang)[0], sizes(gang)[0])
        ).items():
            held, nominal = tree.over(tree.pools[gang.pool], key)
            if held + amount > nominal:
                return False
        return True

    def mine(self, action: Action) -> list[Gang]:
        """Returns the targets of a nomination for which no other gang is waiting."""
        gangs = (self.world.gangs.get(name) for name in action["targets"])
        return [gang for gang in gangs if gang is not None and CHARGED in gang.layers]

    def layers_of(self, gang: Gang) -> tuple[int, ...]:
        """Where an admission must fit: what is nominated is charged already."""
        return (REAL,) if gang.state == NOMINATED else LAYERS


def _ask_again() -> bool:
    return False


def no_room(
    court: Court, gang: Gang, places: Placement, layers: Sequence[int], *, closed_is_fine: bool = False
) -> Iterator[str]:
    """Law T1: room for each pod. Law N1: on nodes that take new pods. *closed_is_fine*: on those where it is already."""
    world = court.world
    were = {share["node"] for each in gang.placement for share in each["shares"]} if closed_is_fine else set()
    taken: dict[str, dict[str, int]] = {}
    for need, each in zip(gang.requests, places, strict=True):
        for share in each["shares"]:
            if not world.open(share["node"], each["flavor"]) and share["node"] not in were:
                yield f"node {share['node']} takes no new pods of flavor {each['flavor']}"
                return
            mine = taken.setdefault(share["node"], {})
            for resource, amount in need.items():
                mine[resource] = mine.get(resource, 0) + amount * share["count"]
    for name, amounts in taken.items():
        if name in world.nodes and name not in were and not fits(room_in(world, name, layers), amounts):
            room = room_in(world, name, layers)
            free = {resource: room.get(resource) for resource in amounts}
            yield f"it needs {amounts} of node {name}, where {free} are free"
            return
