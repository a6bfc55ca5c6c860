"""Answers the questions of the rules: could a gang start, what blocks it, which is first."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .chain import Snapshot
from .gang import NOMINATED, Gang, Placement
from .places import Column, Search, as_placement, choices, fits, room_in, shared_levels, sizes
from .quota import CHARGED, LAYERS, REAL, Tree
from .world import World

Action = Mapping[str, Any]
Bucket = tuple[str, str, str]
MOST_REQUEUES = 100


class Commit(NamedTuple):
    """*events*: (kind, action) in order. *end*: it is the last one of a cycle; None: the log does not say.

    *gap*: events are missing before it or in it. *says*: this log records where cycles end. *rest*: when a cycle ended before this
    commit that left nothing to decide; None: none did.
    """

    revision: int
    time: float
    actor: str
    events: Sequence[tuple[str, Action]]
    end: bool | None = None
    gap: bool = False
    says: bool = False
    rest: float | None = None


class Way(NamedTuple):
    """Flavors and counts with which a gang could start. *amounts*: what it needs of quota. *column*: None: only a search tells."""

    flavors: Sequence[str]
    counts: Sequence[int]
    amounts: Mapping[str, int]
    column: Column | None


class Court:
    """A world and what was asked about it. *leaving*: workflows that the current commit sets aside, by W8.

    Answers that stay right for a while are kept: *refusals*: bucket → `World.loosened` when it could not start; *vain*: when stopping
    LOW work of its pool would not have helped either.
    *ways*: bucket → how its smallest size could start, and what its full size needs of quota in the first flavor.
    """

    def __init__(self) -> None:
        self.world = World()
        self.preempted: dict[str, int] = {}
        self.leaving: set[str] = set()
        self.first_sets: dict[str, Any] = {}
        self._columns: dict[Any, Column] = {}
        self.refusals: dict[Bucket, int] = {}
        self.vain: dict[Bucket, int] = {}
        self._over: dict[Bucket, int] = {}
        self._tree: Tree | None = None
        self._ways: dict[Bucket, tuple[list[Way], dict[str, int]]] = {}
        self._if_stopped: dict[Bucket, list[Way]] = {}
        self._changes = 0
        self._numbers: dict[Any, Any] = {}

    def begin(self, snapshot: Snapshot) -> None:
        """Takes everything from *snapshot*."""
        world = self.world
        world.now, world.revision = snapshot.time / 1_000_000, snapshot.revision
        for kind, action in snapshot.events:
            if kind == "Submit":
                row = action["workflow"]
                row["upstream"] = snapshot.needs.get(row["id"], {})
                self.preempted |= {f"{row['id']}/{each['name']}": each["preemptions"] for each in action["groups"]}
            elif kind == "Queue":
                gang = Gang(action["gang"])
                self.first_sets[gang.id] = gang.request
            world.apply(kind, action)

    def forget(self) -> None:
        """Keeps the log of touched nodes short."""
        if len(self.world.touched) > 500_000:
            self.world.touched.clear()
            self._columns.clear()
            self._ways.clear()
            self._if_stopped.clear()

    # ------------------------------------------------------------ could it start?

    def short_of_quota(self, gang: Gang, amounts: Mapping[str, int], layers: Sequence[int]) -> bool:
        """Quota does not allow *amounts* more, by Q3 or P2."""
        tree, leaf, numbers = self.world.tree, self.world.leaf(gang), self._kept_numbers()
        for key, amount in amounts.items():
            for layer in layers:
                most = numbers.get((leaf, key, layer))
                if most is None:
                    most = numbers[leaf, key, layer] = tree.headroom(leaf, key, layer)
                if amount > most or (gang.firm and tree.beyond_promise(leaf, key, amount, layer) is not None):
                    return True
        return False

    def beyond_promise(self, gang: Gang, amounts: Mapping[str, int]) -> bool:
        tree, leaf, numbers = self.world.tree, self.world.leaf(gang), self._kept_numbers()
        for key, amount in amounts.items():
            asked = leaf, key, amount
            if asked not in numbers:
                numbers[asked] = tree.beyond_promise(leaf, key, amount, CHARGED) is not None
            if numbers[asked]:
                return True
        return False

    def _kept_numbers(self) -> dict[Any, Any]:
        """Headroom and what pools hold, until something changes."""
        if self._changes != self.world.changes:
            self._changes = self.world.changes
            self._numbers.clear()
        return self._numbers

    def way(self, gang: Gang, flavors: Sequence[str], counts: Sequence[int], layers: Sequence[int] = LAYERS) -> Way:
        amounts = self.world.asked(gang, as_placement(gang, flavors, counts))
        depth = shared_levels(self.world, gang)
        if depth is None:
            return Way(flavors, counts, amounts, None)
        picky = bool(gang.sets[0]["topology"])
        labels = tuple(each["label"] for each in self.world.pools[gang.pool]["topology_keys"]) if picky else ()
        key = flavors[0], repr(gang.sets[0]["requests"]), labels, depth, tuple(layers)
        if key not in self._columns:
            self._columns[key] = Column(self.world, flavors[0], gang.requests[0], labels, depth, layers)
        return Way(flavors, counts, amounts, self._columns[key])

    def fits(self, gang: Gang, way: Way, layers: Sequence[int] = LAYERS) -> bool:
        """It could start in this way now. *layers*: those of the way."""
        if self.short_of_quota(gang, way.amounts, layers):
            return False
        if way.column is not None:
            return way.column.most() >= way.counts[0]
        return Search(self.world, gang, way.counts, way.flavors, layers).run() is not None

    def ways_if_stopped(self, gang: Gang) -> list[Way]:
        """How its smallest size could start where others stop for it."""
        self._new_tree()
        if gang.bucket not in self._if_stopped:
            least = sizes(gang)[-1]
            self._if_stopped[gang.bucket] = [
                self.way(gang, each, least, (CHARGED,)) for each in choices(self.world, gang)
            ]
        return self._if_stopped[gang.bucket]

    def _new_tree(self) -> None:
        """After an edit of pools, ways are found again."""
        if self._tree is not self.world.tree:
            self._tree = self.world.tree
            self._ways.clear()
            self._if_stopped.clear()

    def _ways_of(self, gang: Gang) -> tuple[list[Way], dict[str, int]]:
        self._new_tree()
        found = self._ways.get(gang.bucket)
        if found is None:
            flavors, (full, *_, least) = choices(self.world, gang), [*sizes(gang), sizes(gang)[-1]]
            ways = [self.way(gang, each, least) for each in flavors]
            found = ways, self.world.asked(gang, as_placement(gang, flavors[0], full))
            self._ways[gang.bucket] = found
        return found

    def could_start(self, gang: Gang) -> Sequence[str] | None:
        """The flavors with which its smallest size fits now; None: none was found."""
        if self.refusals.get(gang.bucket) == self.world.loosened:
            return None
        for way in self._ways_of(gang)[0]:
            if self.fits(gang, way):
                return way.flavors
        self.refusals[gang.bucket] = self.world.loosened
        return None

    def had_its_turn(self, gang: Gang) -> bool:
        """P5: a gang later in the order was nominated in this cycle, and claimed what stops; that can help only in the next one."""
        return any(each.since == self.world.now and each.order > gang.order for each in self.world.nominated.values())

    def is_head(self, gang: Gang) -> bool:
        """No gang of its pool that waits or is nominated is ahead of it, whether or not LOW borrowed when the cycle came to it.

        By W6, those that a limit of their user stops do not count.
        """
        heads = (self._first(row) for bucket, row in self.world.waiting.items() if bucket[0] == gang.pool)
        rows = [each for each in heads if each is not None]
        rows += [each for each in self.world.nominated.values() if each.pool == gang.pool]
        borrows = not gang.firm and not self.within(gang)
        return not any(
            each.order < gang.order or (borrows and not each.firm and self.within(each))
            for each in rows
            if each is not gang
        )

    def _first(self, row: Sequence[tuple[Any, Gang]], *, refused: bool = True) -> Gang | None:
        """The first gang of *row* that no limit of its user stops. *refused*: also one that the cluster's scheduler refused."""
        first = row[0][1]
        if (refused or not first.refused) and not self.stopped_by_limit(first):
            return first
        return next(
            (each for _, each in row if (refused or not each.refused) and not self.stopped_by_limit(each)), None
        )

    def user_room(self, gang: Gang) -> int | None:
        """How many more GPUs the user of *gang* may hold in its pool by W6; None: no limit."""
        rooms = [most - held for _, most, held in self.limits_of_user(gang)]
        return min(rooms) if rooms else None

    def limits_of_user(self, gang: Gang) -> Iterator[tuple[str, int, int]]:
        """Yields where the GPUs of the user of *gang* are limited, "" for all pools, how many are allowed and held."""
        own = self.world.limits.get(gang.user, {}).get("gpus")
        for where, most in zip(_holders(gang), (self.world.pools[gang.pool].get("user_gpus"), own), strict=True):
            if most is not None:
                yield where[0], most, self._held_by_users().get(where, 0)

    def _held_by_users(self) -> dict[tuple[str, str], int]:
        numbers = self._kept_numbers()
        if "users" not in numbers:
            held = numbers["users"] = dict[tuple[str, str], int]()
            for gang in self.world.gangs.values():
                if gang.placement:
                    counts = [each["count"] for each in gang.placement]
                    for holder in _holders(gang):
                        held[holder] = held.get(holder, 0) + gpus_of(gang, counts)
        found: dict[tuple[str, str], int] = numbers["users"]
        return found

    def stopped_by_limit(self, gang: Gang) -> bool:
        """Law W6: a limit of its user stops the gang even at its smallest size, and others pass it."""
        room = self.user_room(gang)
        return room is not None and gpus_of(gang, sizes(gang)[-1]) > room

    def may_start(self, gang: Gang) -> bool:
        """Returns True if only quota and nodes can block it: P4, Q5, T7, W3, W6 and W8 allow it to start."""
        row = self.world.workflows.get(gang.workflow, {})
        if gang.refused or row.get("held_by") or row.get("aside") or self.world.tree.in_circle(gang.pool):
            return False
        return self.world.pools[gang.pool]["queueing"] != "STRICT_FIFO" or self.is_head(gang)

    def waiting(
        self, asked: Callable[[Gang], bool], refusals: Mapping[Bucket, int], before: Any = None
    ) -> Iterator[Gang]:
        """The first of each bucket that may start, of those that *asked* accepts.

        Without those in *refusals* since when nothing became free. *before*: only those ahead of this order.
        """
        loosened, pools = self.world.loosened, self.world.pools
        for bucket, row in list(self.world.waiting.items()):
            if (before is not None and row[0][0] >= before) or refusals.get(bucket) == loosened:
                continue
            first: Gang | None = row[0][1]
            if row[0][1].refused or self.world.limits or pools[bucket[0]].get("user_gpus") is not None:
                first = self._first(row, refused=False)
            if first is not None and asked(first) and self.may_start(first):
                yield first

    def within(self, gang: Gang) -> bool:
        """Law P4: LOW that stays within the nominal of its pool, by its full size in the first flavor that it can use."""
        if self._over.get(gang.bucket) == self.world.loosened:
            return False
        tree, numbers = self.world.tree, self._kept_numbers()
        for key, amount in self._ways_of(gang)[1].items():
            if (gang.pool, key) not in numbers:
                numbers[gang.pool, key] = tree.over(tree.pools[gang.pool], key)
            held, nominal = numbers[gang.pool, key]
            if held + amount > nominal:
                self._over[gang.bucket] = self.world.loosened
                return False
        return True

    def mine(self, action: Action) -> list[Gang]:
        """Returns the targets of a nomination for which no other gang is waiting."""
        gangs = (self.world.gangs.get(name) for name in action["targets"])
        return [gang for gang in gangs if gang is not None and CHARGED in gang.layers]

    def layers_of(self, gang: Gang) -> tuple[int, ...]:
        """Where an admission must fit: what is nominated is charged already."""
        return (REAL,) if gang.state == NOMINATED else LAYERS


def gpus_of(gang: Gang, counts: Sequence[int]) -> int:
    """GPUs of *counts* pods, one number per pod set."""
    return sum(count * need.get("gpu", 0) for count, need in zip(counts, gang.requests, strict=True))


def _holders(gang: Gang) -> tuple[tuple[str, str], tuple[str, str]]:
    """The user in the top-level pool and in all pools, whose GPUs are limited by W6."""
    return (gang.pool.partition("--")[0], gang.user), ("", gang.user)


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
