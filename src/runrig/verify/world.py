"""The state at a point of the log: nodes, pools, workflows and gangs, and what these hold."""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from itertools import count
from typing import Any

from .gang import ADMITTED, NOBODY, NOMINATED, PENDING, STOPPING, Gang, Placement, Pods, Queue, counts_of
from .nodes import Barrier, Rooms
from .quota import CHARGED, LAYERS, REAL, Node, Tree, line

Action = Mapping[str, Any]
Row = dict[str, Any]
Layers = tuple[int, ...]
Scope = tuple[str, str]
Amounts = dict[str, dict[str, int]]


class World:
    """*free*: per layer, node → resource → how much is taken, below zero. *takes*: node → flavor, if it takes new pods (N1).
    *workflows*: those that have not ended; *over*: names of the others. *pending*: user → those of them that wait (W6). *on_nodes*:
    array → how many of its elements hold nodes, if that is limited (W4). *awaited*: workflow → those that wait for it (W5).
    *arriving*: workflows that the present commit submits or moves. *ending*: groups that it still has to end, if it releases any.

    *waiting*: queues with gangs, by pool and whether they are HIGH or NORMAL. *low*: LOW gangs in state ADMITTED, by pool. *fresh*:
    by the same, queues that were not asked since their first gang became that. *loosened*: how often something became free.
    *changes*: another number after each change of quota or what is held, and the old one after a trial.

    *held*: GPUs by W6. *using*: GPUs on nodes now; *spent*: since when GPU × microseconds of the month are counted, and how many before
    that (W7). *due*: when the time of a gang is up, by cause; *ends*: a heap of these, some outdated (P6).
    """

    def __init__(self) -> None:
        self.flavors, self.nodes = dict[str, Row](), dict[str, Row]()
        self.pools, self.cohorts = dict[str, Row](), dict[str, Row]()
        self.limits, self.workflows = dict[str, Row](), dict[str, Row]()
        self.capacity, self.takes = dict[str, int](), dict[str, str]()
        self.free: tuple[Amounts, Amounts] = {}, {}
        self.rooms: dict[Layers, Rooms] = {
            layers: Rooms(self.nodes, self.takes, [self.free[each] for each in layers])
            for layers in ((CHARGED,), (REAL,), LAYERS)
        }
        self.weighted = self.circular = False
        self.trees, self.governed = dict[str, Tree](), dict[str, set[str]]()
        self.arriving, self.over, self.pods = set[str](), set[str](), dict[str, Pods]()
        self.awaited: dict[str, list[tuple[str, Row]]] = {}
        self.pending, self.on_nodes = dict[str, dict[str, Row]](), dict[str, int]()
        self.ending = Counter[str]()
        self.gangs, self.nominated, self.refused = dict[str, Gang](), dict[str, Gang](), dict[str, Gang]()
        self.queues: dict[tuple[str, str, str], Queue] = {}
        self.waiting: dict[tuple[str, bool], dict[Queue, None]] = {}
        self.fresh: dict[bool, dict[Queue, None]] = {True: {}, False: {}}
        self.beds: dict[Barrier, None] = {}
        self.low: dict[str, dict[str, Gang]] = {}
        self.waited_for, self.preempted = dict[str, set[str]](), dict[str, int]()
        self.gpus: dict[str, dict[int, str]] = {}
        self.held, self.using = dict[Scope, int](), dict[Scope, int]()
        self.spent: dict[Scope, tuple[float, int]] = {}
        self.due: dict[tuple[str, str], float | None] = {}
        self.ends: list[tuple[float, str, str]] = []
        self.loosened, self.changes, self.now = 0, 0, 0.0
        self._moments = count(1)

    def tree(self, key: str) -> Tree:
        """Built anew after an edit of pools or cohorts."""
        tree = self.trees.get(key)
        if tree is None:
            tree = self.trees[key] = Tree(key, self.pools, self.cohorts, self.capacity.get(key, 0))
            for gang in [gang for gang in self.gangs.values() if gang.layers and gang.pool in tree.firm]:
                amount, leaf = self.asked(gang, gang.placement).get(key, 0), tree.leaf(gang.pool, firm=gang.firm)
                for layer in gang.layers:
                    leaf.charge(amount, layer, firm=gang.firm)
        return tree

    def leaf(self, gang: Gang, key: str) -> Node:
        return self.tree(key).leaf(gang.pool, firm=gang.firm)

    def asked(self, gang: Gang, placement: Placement) -> dict[str, int]:
        """Key → amount of quota that *placement* needs."""
        of, trees, known = gang.asked
        if of is placement and trees is self.trees:
            return known
        found: dict[str, int] = {}
        governed = self._governed(gang.pool)
        for requests, each in zip(gang.requests, placement, strict=True):
            for resource, amount in requests.items():
                if resource != "pods" and resource in governed:
                    key = f"{each['flavor']}/{resource}"
                    found[key] = found.get(key, 0) + amount * each["count"]
        gang.asked = placement, self.trees, found
        return found

    def _governed(self, name: str) -> set[str]:
        """The resources with quota in the pool and the cohorts above it. Others are limited by the nodes alone."""
        if name not in self.governed:
            pools = self.with_parent(name)
            rows = *pools, *(self.cohorts.get(each, {}) for each in line(self.cohorts, pools[-1]["cohort"])[0])
            self.governed[name] = {key.partition("/")[2] for row in rows for key in row.get("quotas", ())}
        return self.governed[name]

    def with_parent(self, name: str) -> list[Row]:
        """The pool, and its parent if it is a subpool."""
        pool = self.pools.get(name, {})
        return [each for each in (pool, self.pools.get(pool.get("parent", ""), {})) if each]

    def in_circle(self, name: str) -> bool:
        """By Q5."""
        return self.circular and line(self.cohorts, self.with_parent(name)[-1]["cohort"])[1] is not None

    def _charge(self, gang: Gang, layers: Layers, sign: int) -> None:
        if not layers:
            return
        self.loosened += sign < 0
        self.changes = next(self._moments)
        pool, firm = gang.pool, gang.firm
        for key, amount in self.asked(gang, gang.placement).items() if pool in self.pools else ():
            tree = self.tree(key)
            if pool in tree.firm:
                leaf = tree.leaf(pool, firm=firm)
                for layer in layers:
                    leaf.charge(sign * amount, layer, firm=firm)
        for requests, each in zip(gang.requests, gang.placement, strict=True):
            for share in each["shares"]:
                name, number = share["node"], sign * share["count"]
                for layer in layers:
                    free = self.free[layer].setdefault(name, {})
                    for resource, amount in requests.items():
                        free[resource] = free.get(resource, 0) - amount * number
                self._touch(name)

    def _touch(self, name: str) -> None:
        """Its room changed."""
        for rooms in self.rooms.values():
            rooms.stale.add(name)

    def _layers(self, gang: Gang) -> Layers:
        """Stopping gangs for which a nominated one is waiting are no longer charged, by R4."""
        if gang.state == NOMINATED:
            return (CHARGED,)
        if gang.state in (ADMITTED, STOPPING):
            return (REAL,) if self.waited_for.get(gang.id) else LAYERS
        return ()

    def _settle(self, gang: Gang) -> None:
        """Charges the gang as its state says."""
        wanted, before = self._layers(gang), gang.layers
        if wanted == before:
            return
        if before:
            self._charge(gang, tuple([each for each in before if each not in wanted]), -1)
        if wanted:
            self._charge(gang, tuple([each for each in wanted if each not in before]), 1)
        gang.layers = wanted
        holds, starts = bool(wanted) - bool(before), (REAL in wanted) - (REAL in before)
        gpus = gang.size
        for holder in gang.holders if holds else ():
            self.held[holder] = self.held.get(holder, 0) + holds * gpus
        if starts and gang.workflow in self.on_nodes:
            self.on_nodes[gang.workflow] += starts
        for scope in gang.scopes if starts else ():
            if scope in self.spent:
                self.spent[scope] = self.now, self.spent_by(scope)
            self.using[scope] = self.using.get(scope, 0) + starts * gpus

    def spent_by(self, scope: Scope) -> int:
        """GPU × microseconds that were held in this month until now."""
        since, before = self.spent[scope]
        begin = month_of(self.now)
        lasted = round(self.now * 1_000_000) - round(max(since, begin) * 1_000_000)
        return (before if since >= begin else 0) + self.using.get(scope, 0) * lasted

    def set(
        self, gang: Gang, state: str | None, placement: Placement | None = None, targets: Sequence[str] = ()
    ) -> None:
        """Moves the gang on; *placement* None: as it was."""
        before = gang.targets
        self._unlist(gang)
        if gang.placement and (placement is not None or state in (PENDING, None)):
            gang.state = None
            self._settle(gang)
            self._hold(gang, None)
            gang.placement = []
        if placement is not None:
            gang.placement, gang.size, gang.since = placement, gang.gpus(counts_of(placement)), self.now
        gang.state, gang.targets = state, tuple(targets)
        for name in {*before, *targets} if before or targets else ():
            waiters = self.waited_for.setdefault(name, set())
            (waiters.add if name in targets else waiters.discard)(gang.id)
            if not waiters:
                del self.waited_for[name]
            if name in self.gangs:
                self._settle(self.gangs[name])
        self._settle(gang)
        if state == ADMITTED and placement is not None:
            self._hold(gang, gang.id)
        self._list(gang)

    def _hold(self, gang: Gang, holder: str | None) -> None:
        """Takes the GPUs of the placement, or leaves those that it has."""
        for share in [share for each in gang.placement for share in each["shares"]]:
            there = self.gpus.setdefault(share["node"], {})
            for index in share["gpus"]:
                if holder is not None:
                    there[index] = holder
                elif there.get(index) == gang.id:
                    del there[index]

    def _unlist(self, gang: Gang) -> None:
        self.nominated.pop(gang.id, None)
        self.low.get(gang.pool, {}).pop(gang.id, None)
        if gang.state == PENDING:
            queue = gang.queue
            del queue.row[bisect_left(queue.row, (gang.order,))]
            queue.head = queue.row[0][0] if queue.row else NOBODY
            if not queue.row:
                del self.waiting[gang.pool, queue.firm][queue]
                self.sleep(queue, [])
                queue.stopped = -1

    def sleep(self, queue: Queue, at: list[tuple[Barrier, int]]) -> None:
        """It is asked again when a barrier of *at* lets it through; if there is none, after its next gang arrives."""
        self.fresh[queue.firm].pop(queue, None)
        if at == queue.at:
            return
        for each, need in queue.at:
            each.take(queue, need)
        queue.at = at
        for each, need in at:
            self.beds[each] = None
            each.put(queue, need)

    def _list(self, gang: Gang) -> None:
        if gang.state == NOMINATED:
            self.nominated[gang.id] = gang
        elif gang.state == ADMITTED and not gang.firm:
            self.low.setdefault(gang.pool, {})[gang.id] = gang
        elif gang.state == PENDING:
            queue = gang.queue
            if not queue.row:
                self.waiting.setdefault((gang.pool, queue.firm), {})[queue] = None
            insort(queue.row, (gang.order, gang))
            if queue.row[0][1] is gang:
                queue.head = gang.order
                if queue.stopped != self.loosened:
                    self.fresh[queue.firm][queue] = None
        elif gang.state is None:
            self.gangs.pop(gang.id, None)
            self.refused.pop(gang.id, None)

    def without(self, gangs: Sequence[Gang], layers: Layers = (CHARGED,)) -> AbstractContextManager[None]:
        """A trial: *gangs* are gone, and come back at the end."""
        return self._trial(gangs, layers) if gangs else nullcontext()

    @contextmanager
    def _trial(self, gangs: Sequence[Gang], layers: Layers) -> Iterator[None]:
        taken = [(gang, tuple([each for each in gang.layers if each in layers])) for gang in gangs]
        kept = self.loosened, self.changes
        for gang, gone in taken:
            self._charge(gang, gone, -1)
        try:
            yield
        finally:
            for gang, gone in taken:
                self._charge(gang, gone, 1)
            self.loosened, self.changes = kept


def month_of(now: float) -> float:
    """The start of the calendar month in UTC."""
    moment = datetime.fromtimestamp(now, UTC)
    return datetime(moment.year, moment.month, 1, tzinfo=UTC).timestamp()
