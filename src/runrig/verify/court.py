"""Answers the questions of the rules: could a gang start, what blocks it, which is first."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from .gang import ADMITTED, NOMINATED, Full, Gang, Order, Placement, Queue
from .nodes import NEVER, Barrier, Column, Rooms, fits
from .places import Search, as_placement, choices, shared_levels
from .quota import CHARGED, LAYERS, REAL, Node, Tree
from .replay import Replay
from .world import Action, Layers, Row


class Commit(NamedTuple):
    """*events*: (kind, action) in order. *end*: a cycle ends with it. *rest*: when a cycle ended before it that left nothing to
    decide; None: none did. *gap*: events are missing before it or in it. *refused*: what the gate rejected before it. *unproven*:
    gangs for which the scheduler says that a search reached its limit.
    """

    revision: int
    time: float
    actor: str
    events: Sequence[tuple[str, Action]]
    end: bool = False
    rest: float | None = None
    gap: bool = False
    refused: Sequence[Row] = ()
    unproven: Sequence[str] = ()


class Quota(Barrier):
    """*ask*: asks a node of a tree of *world*. *firm*: by P2."""

    def __init__(self, world: Replay, ask: Callable[[int], int], layer: int, *, firm: bool) -> None:
        super().__init__()
        self._world, self._ask, self._layer, self.firm = world, ask, layer, firm
        self._at, self._most = -1, 0

    def most(self) -> int:
        if self._at != self._world.changes:
            self._at, self._most = self._world.changes, self._ask(self._layer)
        return self._most


class Way(NamedTuple):
    """Flavors and counts with which a gang could start in *layers*. *needs*: what it needs at each barrier."""

    flavors: Sequence[str]
    counts: Sequence[int]
    layers: Layers
    needs: Sequence[tuple[Barrier, int]]


class Court(Replay):
    """A world and what was asked about it. *kind*: of the action that is judged. *leaving*: workflows that the current commit sets
    aside, by W8. *unproven*: of it; *excused*: those of them that could have started. *first_sets*: gang → what it requested first.
    *_begun*: `World.changes` when the present moment began.

    Answers that stay right for a while are kept with each queue: *ways*: how its smallest size could start, *full*: what its full
    size needs of quota in the first flavor. A queue that could not start is asked again when a barrier that stopped it, with what
    it needs there (*at*), lets that through. *over*, *vain*: `World.loosened` when it would have borrowed, and when stopping LOW
    work of its pool would not have helped.
    """

    def __init__(self) -> None:
        super().__init__()
        self.kind = ""
        self.leaving = set[str]()
        self.unproven, self.excused = set[str](), set[str]()
        self.first_sets: dict[str, Any] = {}
        self._columns: dict[Any, Column] = {}
        self._quotas: dict[Any, Quota] = {}
        self._fulls: dict[Any, Full] = {}
        self._empty, self._capacity = dict[Any, Any](), dict[str, int]()
        self._unknown = Barrier()
        self._open: list[Barrier] = []
        self._lines: dict[bool, tuple[int, dict[Queue, None]]] = {True: (-1, {}), False: (-1, {})}
        self._begun = self._seen = self._at = -1

    def turn_to(self, now: float) -> None:
        """Sets the time."""
        if now > self.now:
            self._begun = self.changes
        self.now = now

    def has_quota(self, gang: Gang, layers: Layers) -> bool:
        """Quota allows its placement, by Q3 and P2."""
        return all(need <= quota.most() for quota, need in self._needs(gang, gang.placement, layers))

    def _needs(self, gang: Gang, placement: Placement, layers: Layers) -> list[tuple[Barrier, int]]:
        found = list[tuple[Barrier, int]]()
        for key, amount in self.asked(gang, placement).items():
            leaf = self.leaf(gang, key)
            for layer in layers:
                found.append((self._quota(leaf.headroom, layer), amount))
                if gang.firm:
                    found.append((self._quota(leaf.promise, layer, firm=True), amount))
        return found

    def _quota(self, ask: Callable[[int], int], layer: int = CHARGED, *, firm: bool = False) -> Quota:
        if (ask, layer) not in self._quotas:
            self._quotas[ask, layer] = Quota(self, ask, layer, firm=firm)
        return self._quotas[ask, layer]

    def way(self, gang: Gang, flavors: Sequence[str], counts: Sequence[int], layers: Layers = LAYERS) -> Way:
        needs, flavor = self._needs(gang, as_placement(flavors, counts), layers), flavors[0]
        depth = shared_levels(self, gang)
        if depth is None:
            return Way(flavors, counts, layers, [*needs, (self._unknown, 0)])
        keys = self.pools[gang.pool]["topology_keys"] if gang.sets[0]["topology"] else ()
        labels = tuple(each["label"] for each in keys)
        name = flavor, repr(gang.sets[0]["requests"]), labels, depth, layers
        if name not in self._columns:
            self._columns[name] = Column(self.rooms[layers], flavor, gang.requests[0], labels, depth)
        return Way(flavors, counts, layers, [*needs, (self._columns[name], counts[0])])

    def barrier(self, gang: Gang, way: Way) -> tuple[Barrier, int] | None:
        """Returns why it cannot start in this way now, and how much it needs there; None: it can."""
        for barrier, need in way.needs:
            if need > barrier.most():
                return barrier, need
        if barrier is self._unknown and not Search(self, gang, way.counts, way.flavors, way.layers).succeeds():
            return barrier, need
        return None

    def ways_if_stopped(self, queue: Queue) -> list[Way]:
        """How the smallest size of its gangs could start where others stop for it, as far as P2 allows that."""
        if not queue.if_stopped:
            gang = queue.row[0][1]
            ways = [self.way(gang, each, gang.sizes[-1], (CHARGED,)) for each in choices(self, gang)]
            queue.if_stopped = [(way, [each for each in way.needs if each[0].firm]) for way in ways]
        found = list[Way]()
        for way, promised in queue.if_stopped:
            for quota, need in promised:
                if need > quota.most():
                    break
            else:
                found.append(way)
        return found

    def _edited(self) -> None:
        """Everything is asked again."""
        super()._edited()
        for barrier in self.beds:
            barrier.asleep, barrier.least = ({}, {}), NEVER
        for kept in (self.beds, self._quotas, self._fulls, self._empty):
            kept.clear()
        for queue in self.queues.values():
            queue.at, queue.ways, queue.if_stopped, queue.stopped = [], [], [], -1
        self.fresh = {True: {}, False: {}}
        for (_, firm), queues in self.waiting.items():
            self.fresh[firm] |= queues

    def could_ever_start(self, gang: Gang) -> list[Sequence[str]]:
        """The flavors with which quota would allow its smallest size if nothing else ran."""
        if self._capacity != self.capacity:
            self._empty, self._capacity = {}, dict(self.capacity)
        if gang.alike not in self._empty:
            self._empty[gang.alike] = [
                flavors
                for flavors in choices(self, gang)
                for amounts in [self.asked(gang, as_placement(flavors, gang.sizes[-1]))]
                if all(amount <= self._room_if_empty(gang, key) for key, amount in amounts.items())
            ]
        return list(self._empty[gang.alike])

    def could_ever_run(self, gang: Gang) -> bool:
        """With some flavors, quota and nodes would hold its smallest size if nothing else ran."""
        self.rooms.setdefault((), Rooms(self.nodes, self.takes, [{}]))
        several = self.could_ever_start(gang)
        return any(Search(self, gang, gang.sizes[-1], flavors, ()).succeeds() for flavors in several)

    def _room_if_empty(self, gang: Gang, key: str) -> int:
        if key not in self._empty:
            self._empty[key] = Tree(key, self.pools, self.cohorts, self.capacity.get(key, 0))
        leaf: Node = self._empty[key].leaf(gang.pool, firm=gang.firm)
        return leaf.promise(CHARGED) if gang.firm else leaf.headroom(CHARGED)

    def _asked(self, gang: Gang) -> Queue:
        """Its queue, with its ways."""
        queue = gang.queue
        if not queue.ways:
            flavors = choices(self, gang)
            queue.ways = [self.way(gang, each, gang.sizes[-1]) for each in flavors]
            amounts = self.asked(gang, as_placement(flavors[0], gang.sizes[0])) if flavors else {}
            name = gang.pool, *amounts.items()
            if name not in self._fulls:
                nodes = {key: self.tree(key).pools[gang.pool] for key in amounts}
                self._fulls[name] = Full([(self._quota(nodes[key].spare), need) for key, need in amounts.items()])
            queue.full = self._fulls[name]
        return queue

    def could_start(self, gang: Gang) -> Sequence[str] | None:
        """The flavors with which its smallest size fits now, if it may start; None: none was found."""
        queue, found = self._asked(gang), list[tuple[Barrier, int]]()
        way: Way
        for way in queue.ways:
            barrier = self.barrier(gang, way)
            if barrier is None:
                return way.flavors if self.may_start(gang) else None
            if barrier not in found:
                found.append(barrier)
        queue.stopped = self.loosened
        self.sleep(queue, found)
        return None

    def awake(self, *, firm: bool) -> dict[Queue, None]:
        """Queues that no barrier is known to stop now, but for those that were asked since something became free."""
        if self._at != self.changes or self._seen != self.loosened:
            beds = self.beds if self._seen != self.loosened else self._open  # Since then, barriers only closed.
            self._seen, self._at = self.loosened, self.changes
            self._open = [each for each in beds if each.least != NEVER and each.least <= each.most()]
        found = [*self.fresh[firm]]
        for each in self._open:
            asleep = each.asleep[firm]
            room = each.most() if asleep else 0
            for need in [need for need in asleep if need <= room]:
                found += asleep[need]
        return dict.fromkeys(found)

    def ahead(self, gang: Gang) -> Iterator[Gang]:
        """Gangs that no barrier is known to stop and that come before *gang* by P4. Where weights differ, LOW against LOW is not judged.

        Until something becomes free, barriers only close, so a queue that is stopped then is not asked again.
        """
        loosened, standing = self.loosened, self._place(gang)
        borrows, order = standing
        for firm in (True,) if gang.firm or self.weighted else (True, False):
            made, line = self._lines[firm]
            if made != loosened:
                line = self.awake(firm=firm)
                self._lines[firm] = loosened, line
            line |= self.fresh[firm]
            if borrows:  # Then LOW is before it that is earlier or does not borrow, else only what is both.
                found = [each for each in line if each.head < order or each.full.over != loosened]
            else:
                found = [each for each in line if each.full.over != loosened and each.head < order]
            for queue in found:
                if queue.stopped == loosened or not queue.row:
                    del line[queue]
                elif (borrows and queue.head < order) or not (
                    queue.full.over == loosened or self.borrows(queue.row[0][1])
                ):
                    first = None if self._is_stopped(queue) else self.first(queue, refused=False)
                    if first is not None and self._place(first) < standing:
                        yield first

    def _is_stopped(self, queue: Queue) -> bool:
        for barrier, need in queue.at:
            if need <= barrier.most():
                return False
        if queue.at:
            queue.stopped = self.loosened
        return bool(queue.at)

    def _place(self, gang: Gang) -> tuple[bool, Order]:
        return self.borrows(gang), gang.order

    def borrows(self, gang: Gang) -> bool:
        """Law P4: LOW that does not stay within the nominal of its pool, by its full size in the first flavor that it can use."""
        if gang.queue.firm:
            return False
        full = self._asked(gang).full
        if full.over != self.loosened:
            for quota, need in full.needs:
                if need > quota.most():
                    full.over = self.loosened
                    return True
            return False
        return True

    def before(self, gang: Gang) -> Iterator[Gang]:
        """Gangs of its pool that wait or are nominated and come before it by P4. By W6, those that a limit of their user stops do not
        count.
        """
        standing = self._place(gang)
        for other in self._heads(gang.pool):
            if self._place(other) < standing:
                yield other
        yield from (each for each in self.nominated.values() if each.pool == gang.pool and each.order < gang.order)

    def is_head(self, gang: Gang) -> bool:
        """No gang is before it in its pool. If something changed in this cycle, LOW counts whether or not it borrows now: it may not
        have when the cycle came to it.
        """
        if self._begun == self.changes:
            return next(self.before(gang), None) is None
        nominated = [each for each in self.nominated.values() if each.pool == gang.pool]
        borrows, others = self.borrows(gang), [*self._heads(gang.pool), *nominated]
        return not any(
            each.order < gang.order or (borrows and not each.firm and not self.borrows(each))
            for each in others
            if each is not gang
        )

    def _heads(self, pool: str) -> list[Gang]:
        queues = [queue for firm in (True, False) for queue in self.waiting.get((pool, firm), ())]
        return [first for queue in queues if (first := self.first(queue)) is not None]

    def first(self, queue: Queue, *, refused: bool = True) -> Gang | None:
        """Its first gang that no limit of its user stops. *refused*: also one that the cluster's scheduler refused."""
        free = not self.limits and self.pools[queue.pool].get("user_gpus") is None
        for _, each in queue.row:
            if (refused or not each.refused) and (free or self.user_has_room(each, each.sizes[-1])):
                return each
        return None

    def may_start(self, gang: Gang) -> bool:
        """Whether only quota and nodes can block it: P4, P5, Q5, T7, W3, W6 and W8 allow it to start.

        P5: where a gang later in the order was nominated in this cycle, it claimed what stops. That can help only in the next one.
        """
        row = self.workflow(gang.workflow)
        if gang.refused or row.get("held_by") or row.get("aside") or self.in_circle(gang.pool):
            return False
        if self.pools[gang.pool]["queueing"] == "STRICT_FIFO" and not self.is_head(gang):
            return False
        if any(each.since == self.now and each.order > gang.order for each in self.nominated.values()):
            return False
        self.excused |= {gang.id} & self.unproven
        return gang.id not in self.unproven

    def limits_of_user(self, gang: Gang) -> list[tuple[str, int, int]]:
        """Where the GPUs of the user of *gang* are limited, "" for all pools, how many are allowed and held."""
        most = self.pools[gang.pool].get("user_gpus"), self.limits.get(gang.user, {}).get("gpus")
        if most == (None, None):
            return []
        each = zip(gang.holders, most, strict=True)
        return [(where[0], limit, self.held.get(where, 0)) for where, limit in each if limit is not None]

    def user_has_room(self, gang: Gang, counts: Sequence[int]) -> bool:
        """Law W6: no limit of its user stops the gang with *counts* pods. Others pass it if one does even at its smallest size."""
        return all(held + gang.gpus(counts) <= most for _, most, held in self.limits_of_user(gang))

    def mine(self, action: Action) -> list[Gang]:
        """Returns the targets of a nomination for which no other gang is waiting."""
        gangs = [self.gangs[name] for name in action.get("targets", ()) if name in self.gangs]
        return [gang for gang in gangs if CHARGED in gang.layers]

    def layers_of(self, gang: Gang, action: Action) -> Layers:
        """Where *action* must fit: a nomination in what was decided, and later in what is held. Other decisions in both."""
        return (CHARGED,) if "targets" in action else (REAL,) if gang.state == NOMINATED else LAYERS

    def no_room(self, gang: Gang, places: Placement, layers: Layers) -> Iterator[str]:
        """Law T1: room for each pod. Law N1: on nodes that take new pods. A gang that runs may stay where it is."""
        were = {share["node"] for each in gang.placement if gang.state == ADMITTED for share in each["shares"]}
        taken: dict[str, dict[str, int]] = {}
        for need, each in zip(gang.requests, places, strict=True):
            for share in each["shares"]:
                if self.takes.get(share["node"]) != each["flavor"] and share["node"] not in were:
                    yield f"node {share['node']} takes no new pods of flavor {each['flavor']}"
                    return
                mine = taken.setdefault(share["node"], {})
                for resource, amount in need.items():
                    mine[resource] = mine.get(resource, 0) + amount * share["count"]
        for name, amounts in taken.items():
            if name not in were and not fits(room := self.rooms[layers].of(name), amounts):
                free = {resource: room.get(resource) for resource in amounts}
                yield f"it needs {amounts} of node {name}, where {free} are free"
                return
