"""Answers the questions of the rules: could a gang start, what blocks it, which is first."""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from .barriers import Barrier, Column, Quota
from .budgets import SPENDING, Spending
from .chain import Snapshot
from .gang import NOMINATED, Full, Gang, Queue
from .places import Search, as_placement, choices, shared_levels
from .quota import CHARGED, LAYERS, REAL, Node, Tree
from .timeouts import TIMING, Timeouts
from .world import World

Action = Mapping[str, Any]
MOST_REQUEUES = 100
_FOLLOWED = SPENDING | TIMING | {"Reassign", "Preempt"}
_place = itemgetter(0)


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
    """Flavors and counts with which a gang could start. *needs*: what it needs at each barrier."""

    flavors: Sequence[str]
    counts: Sequence[int]
    needs: Sequence[tuple[Barrier, int]]


class Court:
    """A world and what was asked about it. *kind*: of the action that is judged. *leaving*: workflows that the current commit sets
    aside, by W8. *arriving*: those that it submits or moves. *_begun*: `World.changes` when the present moment began.

    Answers that stay right for a while are kept with each queue: *ways*: how its smallest size could start, *full*: what its full
    size needs of quota in the first flavor. A queue that could not start is asked again when a barrier that stopped it, with what
    it needs there (*at*), lets that through. *over*, *vain*: `World.loosened` when it would have borrowed, and when stopping LOW
    work of its pool would not have helped.
    """

    def __init__(self) -> None:
        self.world = World()
        self.spending, self.timeouts = Spending(), Timeouts()
        self.preempted: dict[str, int] = {}
        self.kind = ""
        self.leaving, self.arriving = set[str](), set[str]()
        self._begun = -1
        self.first_sets: dict[str, Any] = {}
        self._columns: dict[Any, Column] = {}
        self._quotas: dict[Any, Quota] = {}
        self._fulls: dict[Any, Full] = {}
        self._unknown = Barrier()
        self._beds: dict[Barrier, None] = {}
        self._open: list[Barrier] = []
        self._lines: dict[bool, tuple[int, list[tuple[Any, Queue]]]] = {True: (-1, []), False: (-1, [])}
        self._seen = self._at = -1
        self._tree: Tree | None = None
        self._empty: Tree | None = None
        self._ever: dict[Any, bool] = {}
        self._epoch: object = None

    def begin(self, snapshot: Snapshot) -> None:
        """Takes everything from *snapshot*."""
        world = self.world
        world.now, world.revision = snapshot.time / 1_000_000, snapshot.revision
        for kind, action in snapshot.events:
            if kind == "Submit":
                row = action["workflow"]
                row["upstream"] = snapshot.needs.get(row["id"], {})
                self.preempted |= {f"{row['id']}/{each['name']}": each["preemptions"] for each in action["groups"]}
            elif kind == "SetSpent":  # Counted until the next cycle, even if an edit has just removed the budget.
                action = {**action, "budget": 0}
            self.apply(kind, action, began=kind == "Queue")
        self.first_sets = {gang.id: gang.request for gang in world.gangs.values()}

    def apply(self, kind: str, action: Action, *, began: bool = False) -> None:
        """Carries out *action*. *began*: its time began earlier, as its workflow says."""
        self.world.apply(kind, action)
        if kind not in _FOLLOWED:
            return
        if kind in SPENDING:
            self.spending.follow(self.world, kind, action)
        if kind in TIMING and not began:
            self.timeouts.follow(self.world, kind, action)
        if kind == "Submit":
            self.arriving.add(action["workflow"]["id"])
        elif kind == "Reassign":
            self.arriving.add(action["workflow"])
        elif kind == "Preempt":
            self.preempted[action["gang"]] = self.preempted.get(action["gang"], 0) + 1

    def turn_to(self, now: float) -> None:
        """Sets the time."""
        if now > self.world.now:
            self._begun = self.world.changes
        self.world.now = now

    def forget(self) -> None:
        """Keeps the log of touched nodes short."""
        if len(self.world.touched) > 500_000:
            self.world.forget()
            self._columns.clear()
            self._tree = None

    # ------------------------------------------------------------ could it start?

    def short_of_quota(self, gang: Gang, amounts: Mapping[str, int], layers: tuple[int, ...]) -> bool:
        """Quota does not allow *amounts* more, by Q3 or P2."""
        return any(need > quota.most() for quota, need in self._of_quota(gang, amounts, layers))

    def _of_quota(self, gang: Gang, amounts: Mapping[str, int], layers: tuple[int, ...]) -> list[tuple[Barrier, int]]:
        tree, leaf = self.world.tree, self.world.leaf(gang)
        asks = (tree.headroom, tree.promise) if gang.firm else (tree.headroom,)
        return [
            (self._quota(ask, leaf, key, layer), amount)
            for key, amount in amounts.items()
            for layer in layers
            for ask in asks
        ]

    def _quota(self, ask: Callable[[Node, str, int], int], node: Node, key: str, layer: int) -> Barrier:
        name = ask, node, key, layer
        if name not in self._quotas:
            firm = ask == self.world.tree.promise
            self._quotas[name] = Quota(self.world, partial(ask, node, key, layer), firm=firm)
        return self._quotas[name]

    def way(self, gang: Gang, flavors: Sequence[str], counts: Sequence[int], layers: tuple[int, ...] = LAYERS) -> Way:
        needs = self._of_quota(gang, self.world.asked(gang, as_placement(flavors, counts)), layers)
        depth = shared_levels(self.world, gang)
        if depth is None:
            return Way(flavors, counts, [*needs, (self._unknown, 0)])
        picky = bool(gang.sets[0]["topology"])
        labels = tuple(each["label"] for each in self.world.pools[gang.pool]["topology_keys"]) if picky else ()
        key = flavors[0], repr(gang.sets[0]["requests"]), labels, depth, layers
        if key not in self._columns:
            self._columns[key] = Column(self.world.rooms[layers], flavors[0], gang.requests[0], labels, depth)
        return Way(flavors, counts, [*needs, (self._columns[key], counts[0])])

    def barrier(self, gang: Gang, way: Way, layers: tuple[int, ...] = LAYERS) -> tuple[Barrier, int] | None:
        """Returns why it cannot start in this way now, and how much it needs there; None: it can. *layers*: those of the way."""
        for barrier, need in way.needs:
            if need > barrier.most():
                return barrier, need
        if barrier is self._unknown and not Search(self.world, gang, way.counts, way.flavors, layers).succeeds():
            return barrier, 0
        return None

    def fits(self, gang: Gang, way: Way, layers: tuple[int, ...] = LAYERS) -> bool:
        """It could start in this way now."""
        return self.barrier(gang, way, layers) is None

    def ways_if_stopped(self, gang: Gang) -> list[Way]:
        """How its smallest size could start where others stop for it, as far as P2 allows that."""
        queue = self._asked(gang)
        if queue.if_stopped is None:
            least = gang.sizes[-1]
            queue.if_stopped = [self.way(gang, each, least, (CHARGED,)) for each in choices(self.world, gang)]
        ways: list[Way] = queue.if_stopped
        return [way for way in ways if not any(each.firm and need > each.most() for each, need in way.needs)]

    def renew(self) -> None:
        """Called before questions: after an edit of pools, everything is asked again."""
        if self._tree is not self.world.tree:
            self._tree, self._epoch, self._empty = self.world.tree, object(), None
            for barrier in self._beds:
                barrier.asleep = ({}, {})
            self._beds.clear()
            self._quotas.clear()
            self._fulls.clear()
            for queue in self.world.queues.values():
                queue.at, queue.stopped = [], -1
            self.world.fresh = {True: {}, False: {}}
            for (_, firm), queues in self.world.waiting.items():
                self.world.fresh[firm] |= queues

    def could_ever_start(self, gang: Gang) -> bool:
        """Quota would allow its smallest size if nothing else ran."""
        if self._empty is None or self._empty.capacity != self.world.capacity:
            self._empty, self._ever = Tree(self.world.pools, self.world.cohorts, dict(self.world.capacity)), {}
        if gang.alike not in self._ever:
            leaf = (self._empty.firm if gang.firm else self._empty.low)[gang.pool]
            room = self._empty.promise if gang.firm else self._empty.headroom
            ways = [as_placement(flavors, gang.sizes[-1]) for flavors in choices(self.world, gang)]
            asked = [self.world.asked(gang, way) for way in ways]
            self._ever[gang.alike] = any(
                all(amount <= room(leaf, key, CHARGED) for key, amount in each.items()) for each in asked
            )
        return self._ever[gang.alike]

    def _asked(self, gang: Gang) -> Queue:
        """Its queue, with its ways."""
        queue = gang.queue
        if queue.asked is not self._epoch:
            flavors, tree = choices(self.world, gang), self.world.tree
            queue.asked, queue.if_stopped = self._epoch, None
            queue.ways = [self.way(gang, each, gang.sizes[-1]) for each in flavors]
            amounts = self.world.asked(gang, as_placement(flavors[0], gang.sizes[0]))
            node = tree.pools[gang.pool]
            name = gang.pool, *amounts.items()
            if name not in self._fulls:
                needs = [(self._quota(tree.spare, node, key, CHARGED), amount) for key, amount in amounts.items()]
                self._fulls[name] = Full(needs)
            queue.full = self._fulls[name]
        return queue

    def could_start(self, gang: Gang) -> Sequence[str] | None:
        """The flavors with which its smallest size fits now; None: none was found, and its queue sleeps."""
        queue, found = self._asked(gang), list[tuple[Barrier, int]]()
        way: Way
        for way in queue.ways:
            barrier = self.barrier(gang, way)
            if barrier is None:
                return way.flavors
            if barrier not in found:
                found.append(barrier)
        queue.stopped = self.world.loosened
        self._sleep(queue, found)
        return None

    def _sleep(self, queue: Queue, at: list[tuple[Barrier, int]]) -> None:
        """It is asked again when a barrier of *at* lets it through; if there is none, after its next gang arrives."""
        self.world.fresh[queue.firm].pop(queue, None)
        if at == queue.at:
            return
        for each, need in queue.at:
            asleep = each.asleep[queue.firm]
            del asleep[need][queue]
            if not asleep[need]:
                del asleep[need]
        queue.at = at
        for each, need in at:
            self._beds[each] = None
            each.asleep[queue.firm].setdefault(need, {})[queue] = None

    def awake(self, *, firm: bool) -> list[Queue]:
        """Queues that no barrier is known to stop now."""
        world, room = self.world, 0
        if self._at != world.changes or self._seen != world.loosened:
            beds = self._beds if self._seen != world.loosened else self._open  # Since then, barriers only closed.
            self._seen, self._at = world.loosened, world.changes
            self._open = [each for each in beds if each.lets_through()]
        found = [*world.fresh[firm]]
        for each in self._open:
            asleep = each.asleep[firm]
            room = each.most() if asleep else 0
            for need in [need for need in asleep if need <= room]:
                found += asleep[need]
        for queue in [queue for queue in found if not queue.row]:
            self._sleep(queue, [])
            queue.stopped = -1
        return [queue for queue in dict.fromkeys(found) if queue.stopped != world.loosened and queue.row]

    def ahead(self, gang: Gang) -> Iterator[Gang]:
        """Gangs that no barrier is known to stop and that come before *gang* by P4. Where weights differ, LOW against LOW is not judged.

        Until something becomes free, gangs only move back in the order, so each queue is looked at again when *gang* is after the place
        that it had.
        """
        loosened, standing = self.world.loosened, (self.borrows(gang), gang.order)
        for firm in (True,) if gang.firm or self.world.tree.weighted else (True, False):
            made, line = self._lines[firm]
            if made != loosened:
                line = [(self._place(queue), queue) for queue in self.awake(firm=firm)]
                line.sort(key=_place)
                self._lines[firm] = loosened, line
            passed = [queue for _, queue in line[: bisect_left(line, standing, key=_place)]]
            del line[: len(passed)]
            for nth, queue in enumerate(dict.fromkeys([*passed, *self.world.fresh[firm]])):
                if queue.stopped == loosened or not queue.row:
                    continue
                if queue.at and all(need > barrier.most() for barrier, need in queue.at):
                    queue.stopped = loosened
                    continue
                place = self._place(queue)
                if nth < len(passed):
                    insort(line, (place, queue), key=_place)
                first = self.first(queue, refused=False) if place < standing else None
                if first is not None and (place[0], first.order) < standing:
                    yield first

    def _place(self, queue: Queue) -> tuple[bool, tuple[int, float, str]]:
        order, first = queue.row[0]
        return not queue.firm and (queue.full.over == self.world.loosened or self.borrows(first)), order

    def had_its_turn(self, gang: Gang) -> bool:
        """P5: a gang later in the order was nominated in this cycle, and claimed what stops; that can help only in the next one."""
        return any(each.since == self.world.now and each.order > gang.order for each in self.world.nominated.values())

    def borrows(self, gang: Gang) -> bool:
        """Law P4: LOW that does not stay within the nominal of its pool, by its full size in the first flavor that it can use."""
        queue, loosened = gang.queue, self.world.loosened
        if queue.firm:
            return False
        full = self._asked(gang).full
        if full.over != loosened and any(need > quota.most() for quota, need in full.needs):
            full.over = loosened
        return full.over == loosened

    def is_head(self, gang: Gang) -> bool:
        """No gang of its pool that waits or is nominated is ahead of it.

        If something changed in this cycle, LOW ahead of it counts whether or not it borrows now: it may not have when the cycle came
        to it. By W6, those that a limit of their user stops do not count.
        """
        heads = [self.first(queue) for queue in self.world.waiting_in(gang.pool)]
        waiting = [each for each in heads if each is not None and each is not gang]
        nominated = [each for each in self.world.nominated.values() if each.pool == gang.pool and each is not gang]
        borrows = self.borrows(gang)
        if self._begun == self.world.changes:
            ahead, standing = nominated, (borrows, gang.order)
            if any((self.borrows(each), each.order) < standing for each in waiting):
                return False
        else:
            ahead = waiting + nominated
            if borrows and any(not each.firm and not self.borrows(each) for each in ahead):
                return False
        return not any(each.order < gang.order for each in ahead)

    def first(self, queue: Queue, *, refused: bool = True) -> Gang | None:
        """Its first gang that no limit of its user stops. *refused*: also one that the cluster's scheduler refused."""
        free = not self.world.limits and self.world.pools[queue.pool].get("user_gpus") is None
        for _, each in queue.row:
            if (refused or not each.refused) and (free or self.user_has_room(each, each.sizes[-1])):
                return each
        return None

    def limits_of_user(self, gang: Gang) -> list[tuple[str, int, int]]:
        """Where the GPUs of the user of *gang* are limited, "" for all pools, how many are allowed and held."""
        world = self.world
        most = world.pools[gang.pool].get("user_gpus"), world.limits.get(gang.user, {}).get("gpus")
        if most == (None, None):
            return []
        each = zip(gang.holders, most, strict=True)
        return [(where[0], limit, world.held.get(where, 0)) for where, limit in each if limit is not None]

    def user_has_room(self, gang: Gang, counts: Sequence[int]) -> bool:
        """Law W6: no limit of its user stops the gang with *counts* pods. Others pass it if one does even at its smallest size."""
        gpus = sum(count * need.get("gpu", 0) for count, need in zip(counts, gang.requests, strict=True))
        return all(held + gpus <= most for _, most, held in self.limits_of_user(gang))

    def may_start(self, gang: Gang) -> bool:
        """Whether only quota and nodes can block it: P4, Q5, T7, W3, W6 and W8 allow it to start."""
        row = self.world.workflows.get(gang.workflow, {})
        if gang.refused or row.get("held_by") or row.get("aside") or self.world.tree.in_circle(gang.pool):
            return False
        return self.world.pools[gang.pool]["queueing"] != "STRICT_FIFO" or self.is_head(gang)

    def mine(self, action: Action) -> list[Gang]:
        """Returns the targets of a nomination for which no other gang is waiting."""
        gangs = (self.world.gangs.get(name) for name in action["targets"])
        return [gang for gang in gangs if gang is not None and CHARGED in gang.layers]

    def layers_of(self, gang: Gang) -> tuple[int, ...]:
        """Where an admission must fit: what is nominated is charged already."""
        return (REAL,) if gang.state == NOMINATED else LAYERS
